"""Train a model and return the history: :func:`felbo.train` with a progress bar and a callback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from os import PathLike
from typing import TYPE_CHECKING, Literal

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from felbo.inputs import Inputs
from felbo.models import StochasticClassifier
from felbo.objectives import LossFunction, Objective
from felbo.training.checkpoint import Checkpoint
from felbo.training.devices import best_device
from felbo.training.history import Epoch, History, Scorer
from felbo.training.loop import Training, train
from felbo.training.optimizers import MakeOptimizer, MakeScheduler
from felbo.training.progress import progress_bar
from felbo.training.sources import BatchSize, Data
from felbo.training.stopping import Monitor, StopTraining

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def fit(
    model: StochasticClassifier,
    objective: Objective | LossFunction,
    data: Data,
    *,
    epochs: int,
    batch_size: BatchSize = "auto",
    accumulate: int = 1,
    learning_rate: float | None = None,
    optimizer: MakeOptimizer | Optimizer | None = None,
    scheduler: MakeScheduler | LRScheduler | None = None,
    scheduler_step: Literal["epoch", "step"] = "epoch",
    clip_norm: float | None = None,
    validation: Data | float | Scorer | None = None,
    patience: int | None = None,
    monitor: Monitor = "nll",
    augment: Callable[[Inputs], Inputs] | None = None,
    seed: int | None = None,
    frozen_norms: bool = False,
    fabric: Fabric | None = None,
    checkpoint: str | PathLike[str] | Checkpoint | None = None,
    progress: bool = True,
    on_epoch: Callable[[Epoch], object] | None = None,
) -> History:
    """Minimise ``objective`` over the parameters of ``model``, in place.

    Labels are checked before the first step: all of them for tensors, batch by batch for a
    ``DataLoader``. A loss that is not finite stops the training before it reaches the weights or
    the running statistics of batch normalisation. After an error or Ctrl-C, the history of the
    finished epochs is the attribute ``history`` of the exception. The number of training examples
    (the objective's ``num_data``, else the size of the data) is stored as ``model.num_data``, for
    :func:`felbo.predict`.

    Args:
        model: the classifier to train. The mode (train or eval) of every module is restored; a
            module in evaluation mode inside a model in training mode is taken as frozen on purpose
            (``bn.eval()``) and stays so.
        objective: called as ``objective(model, x, y)`` in every step; any function of these that
            returns a :class:`Loss` can be used.
        data: a ``DataLoader`` or ``Dataset`` of ``(x, y)`` pairs, or ``(x [N, ...], y [N])`` as
            tensors, numpy arrays or DataFrames; x may be a tuple or dict of them. Instead of pairs
            there may be dicts with the labels under ``"labels"``.
        epochs: passes over the data, at most.
        batch_size: B for tensors and a ``Dataset``: ``"auto"`` is a tenth of the data, but at least
            32 and at most 128, a little less where a tiny last batch would remain; ``None`` takes
            all data in each step. A ``DataLoader`` has its own. In several processes, each takes a
            part of every batch: B counts all of them.
        accumulate: batches per optimiser step, whose gradients are averaged as those of one large
            batch. The B of ``kl_weight="batch"`` counts the items of an optimiser step.
        learning_rate: of the default optimiser, Adam, or of an optimiser class; ``None`` is 1e-3.
        optimizer: another optimiser of the model's parameters, a function that builds one, e.g.
            ``lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)``, or its class. LBFGS computes the
            loss several times per step; all of these see the same draws.
        scheduler: builds a learning-rate scheduler from the optimiser, or is one.
            ``ReduceLROnPlateau`` looks at the validation nll (with ``monitor="loss"`` at the
            validation loss), without validation data at the mean training loss.
        scheduler_step: advance the scheduler once per epoch or once per step (``OneCycleLR``).
        clip_norm: largest L2 norm of the gradient of all parameters; longer ones are scaled down.
        validation: held-out data in one of the forms of ``data``, or the fraction of ``data`` to
            hold out, such as 0.2: the same for the same ``seed``, in equal parts of all classes
            (except of a ``Dataset`` that is not a ``TensorDataset``). Scored after every epoch in
            evaluation mode; without effect on weights, statistics or random numbers of training.
            A function without arguments computes the :class:`felbo.training.ValidationScores` of
            the model in its own way.
        patience: stop after this many epochs without a better validation score, and give the model
            the weights of the best epoch, also after an error or Ctrl-C. ``None`` trains for all
            epochs and keeps the last weights; ``patience=epochs`` trains for all and takes the
            best.
        monitor: the validation score that decides which epoch is best: ``"nll"``, the negative
            log-likelihood of the predictions, ``"loss"``, the objective, or ``"accuracy"``.
        augment: data augmentation, applied to the inputs of each training batch, such as random
            crops.
        seed: of the shuffle and of the model's draws; torch's global generators are as before after
            every epoch. ``None`` uses the global generators. Seeded trainings in several threads
            run their epochs one after another.
        frozen_norms: do not update the running statistics of batch normalisation.
        fabric: device, precision and strategy; ``None`` takes the best single device. See the page
            on several processes.
        checkpoint: folder in which the training is saved after every epoch, and every minute within
            one. Called again in the same way, ``fit`` goes on from there, and ends with the weights
            of a training that was not interrupted; Ctrl-C and SIGTERM save the current step.
            :class:`felbo.training.Checkpoint` sets how often. See the page on training.
        progress: show a progress bar with the scores.
        on_epoch: called after each epoch, with the model in evaluation mode; it may raise
            :class:`felbo.StopTraining` to end the training.

    Returns:
        The scores of each epoch.

    Example:
        >>> import torch, felbo
        >>> x, y = torch.randn(64, 2), torch.arange(64) % 2
        >>> model = felbo.MAP(felbo.networks.mlp(2, (8,), 2))
        >>> history = felbo.fit(model, felbo.NegativeLogLikelihood(), (x, y), epochs=2,
        ...                     batch_size=16, validation=(x, y), progress=False)
        >>> len(history.total), len(history.validation)
        (2, 2)
    """
    fabric = fabric or best_device()
    trained = train(
        model,
        objective,
        data,
        epochs=epochs,
        batch_size=batch_size,
        accumulate=accumulate,
        learning_rate=learning_rate,
        optimizer=optimizer,
        scheduler=scheduler,
        scheduler_step=scheduler_step,
        clip_norm=clip_norm,
        validation=validation,
        patience=patience,
        monitor=monitor,
        augment=augment,
        seed=seed,
        frozen_norms=frozen_norms,
        fabric=fabric,
        checkpoint=checkpoint,
    )
    history = trained.history
    with _kept_in_errors(history), progress_bar(epochs, progress and fabric.is_global_zero) as show:
        _run(trained, show, on_epoch)
    return history


def _run(
    trained: Training,
    show: Callable[[Epoch], None],
    on_epoch: Callable[[Epoch], object] | None,
) -> None:
    """Run a training to its end."""
    with closing(trained), suppress(StopTraining):
        for epoch in trained:
            show(epoch)
            if on_epoch is not None:
                on_epoch(epoch)


@contextmanager
def _kept_in_errors(history: History) -> Iterator[None]:
    """Context manager: attach the history to errors and interrupts as ``error.history``."""
    try:
        yield
    except BaseException as error:
        error.history = history  # type: ignore[attr-defined]
        if len(history):
            error.add_note(f"The history of {len(history)} finished epochs is its .history.")
        raise
