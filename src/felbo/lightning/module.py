"""A ``LightningModule`` that trains a stochastic classifier with an objective."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from felbo import dirichlet
from felbo.errors import DivergedError, SettingError
from felbo.evaluation import Prediction, predict
from felbo.inputs import Inputs, explained, split_labels
from felbo.lightning.package import lightning_package
from felbo.lightning.steps import Steps
from felbo.models import unwrap
from felbo.objectives import LossFunction, Objective, as_objective
from felbo.random import RandomStream
from felbo.training.optimizers import (
    MakeOptimizer,
    MakeScheduler,
    Schedule,
    make_optimizer,
    needs_closure,
)
from felbo.training.size import training_size
from felbo.training.validation import SMOOTHING, score_sums, scoring

if TYPE_CHECKING:
    from pytorch_lightning import LightningModule
else:
    LightningModule = lightning_package().LightningModule


class FunctionSpaceModule(LightningModule):
    """A stochastic classifier with its objective, for the Lightning ``Trainer``.

    Batches are ``(x, y)``, or dicts with the labels under ``"labels"``. Logged, as means over the
    items of an epoch:

    - ``train_loss``, ``train_nll``, ``train_kl``: the terms of :class:`felbo.Loss`;
    - ``val_loss``, ``val_nll``, ``val_accuracy``: the scores that :func:`felbo.fit` gives for
      validation data;
    - ``test_nll``, ``test_accuracy``: those of the predictions on test data.

    ``Trainer.predict`` returns one :class:`felbo.Prediction` per batch; join them with
    :meth:`felbo.Prediction.concatenate`.

    A prior with ``kl_weight="batch"`` has the weight of an optimiser step: accumulated batches,
    several devices and a smaller last batch do not multiply it. An optimiser step of several
    batches takes the mean over their items, as one large batch would.

    Validation draws are the same in every epoch and do not change the training. Training itself
    draws from torch's global generators: seed it with ``seed_everything`` of Lightning or felbo.

    Args:
        model: the stochastic classifier to train, in place.
        objective: called as ``objective(model, x, y)`` in every step.
        optimizer: another optimiser than Adam: a function that builds one from the parameters, a
            class, or an optimiser of ``model.parameters()``.
        learning_rate: of Adam or of an optimiser class; ``None`` is 1e-3.
        scheduler: builds a learning-rate scheduler from the optimiser, or is one.
        scheduler_step: advance the scheduler once per epoch or once per step.
        monitor: logged value that ``ReduceLROnPlateau`` looks at; ``"train_loss"`` where there are
            no validation data.
        num_samples: draws of test and prediction; ``None`` takes the model's evaluation default.
        seed: of the draws in validation, test and prediction.

    Attributes:
        model: the classifier, for :func:`felbo.predict`, :func:`felbo.save` and the like.
        objective: the objective.

    Example:
        >>> import felbo
        >>> model = felbo.MCDropout(felbo.networks.mlp(2, (8,), 3))
        >>> objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(3), num_data=100)
        >>> module = FunctionSpaceModule(model, objective, learning_rate=3e-3)
        >>> trainer.fit(module, train_loader, validation_loader)  # doctest: +SKIP
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective | LossFunction,
        optimizer: MakeOptimizer | Optimizer | None = None,
        *,
        learning_rate: float | None = None,
        scheduler: MakeScheduler | LRScheduler | None = None,
        scheduler_step: Literal["epoch", "step"] = "epoch",
        monitor: str = "val_nll",
        num_samples: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        unwrap(model)  # raises for a plain network
        self.model = model
        self.objective = as_objective(objective)
        self.make_optimizer, self.learning_rate = optimizer, learning_rate
        self.make_scheduler, self.scheduler_step = scheduler, scheduler_step
        self.monitor, self.num_samples, self.seed = monitor, num_samples, seed
        self._steps = Steps(None, 1, math.inf)
        self._stream = RandomStream(seed)

    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return the model's logits ``[M, B, K]``."""
        logits: Tensor = self.model(x, num_samples=num_samples)
        return logits

    def configure_optimizers(self) -> Any:
        """Return optimiser and scheduler as Lightning expects them."""
        made = make_optimizer(self.make_optimizer, self.model, self.learning_rate)
        if needs_closure(made):
            raise SettingError(
                f"{type(made).__name__} computes the loss several times per step, which must all "
                "see the same draws: train with felbo.fit, which takes care of that."
            )
        schedule = Schedule(self.make_scheduler, made, self.scheduler_step)
        if schedule.scheduler is None:
            return made
        settings = {"interval": self.scheduler_step, "monitor": self.monitor}
        return {"optimizer": made, "lr_scheduler": {"scheduler": schedule.scheduler, **settings}}

    def on_train_start(self) -> None:
        """Put a model that is in evaluation mode into training mode.

        Modules in evaluation mode inside a model in training mode are frozen on purpose.
        """
        if not self.model.training:
            self.model.train()

    def on_train_epoch_start(self) -> None:
        """Tell the objective the items of an optimiser step, and the model the size of the data."""
        trainer = self.trainer
        loader: Any = trainer.train_dataloader
        # Each epoch anew, since a GradientAccumulationScheduler may change it.
        self._steps = Steps(loader, trainer.accumulate_grad_batches, trainer.num_training_batches)
        classifier = unwrap(self.model)
        self._steps.begin(classifier, self.objective, trainer.world_size)
        num_data = training_size(self.objective, loader)
        if num_data is not None:
            classifier.num_data = num_data

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Return the loss of a batch."""
        x, y = split_labels(batch)
        with explained(x, self.model):
            loss = self.objective(self.model, x, y)  # type: ignore[arg-type]
        values = torch.stack([part.detach() for part in loss])
        if not math.isfinite(values[0].item()):
            total, nll, kl = values.tolist()
            raise DivergedError(
                f"The loss became {total} (nll {nll}, kl {kl}). Do the inputs of this batch hold "
                "NaN or infinity? If not, try a smaller learning rate, or gradient_clip_val. This "
                "step was not taken."
            )
        self._log("train", {"loss": values[0], "nll": values[1], "kl": values[2]}, len(y))
        return self._steps.factor(batch_idx) * loss.total

    def on_validation_epoch_start(self) -> None:
        """Start the random numbers of this epoch's draws."""
        self._stream = RandomStream(self.seed)

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Log loss, nll and accuracy of a batch."""
        x, y = split_labels(batch)
        with self._stream.block(), scoring(self.model, self.objective):
            loss, nll, right = score_sums(self.model, self.objective, x, y) / len(y)
        self._log("val", {"loss": loss, "nll": nll, "accuracy": 100.0 * right}, len(y))

    def on_test_epoch_start(self) -> None:
        """Start the random numbers of the draws."""
        self._stream = RandomStream(self.seed)

    def test_step(  # type: ignore[override]  # Lightning takes any output
        self, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> Prediction:
        """Log nll and accuracy of a batch, and return its prediction."""
        _, y = split_labels(batch)
        prediction = self._predict(batch)
        probs = dirichlet.smooth(prediction.probs.double(), SMOOTHING)
        nll = -probs.gather(-1, y[:, None]).log().mean()
        accuracy = 100.0 * (prediction.labels == y).double().mean()
        self._log("test", {"nll": nll, "accuracy": accuracy}, len(y))
        return prediction

    def on_predict_epoch_start(self) -> None:
        """Start the random numbers of the draws."""
        self._stream = RandomStream(self.seed)

    def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Prediction:
        """Return the prediction for a batch ``x``, ``(x, y)`` or dict; labels are ignored."""
        return self._predict(batch)

    def _predict(self, batch: Any) -> Prediction:
        with self._stream.block():
            return predict(self.model, [batch], num_samples=self.num_samples)

    def _log(self, stage: str, values: dict[str, Tensor], items: int) -> None:
        """Log values of a batch, to be averaged over the items of an epoch."""
        named = {f"{stage}_{name}": value.float() for name, value in values.items()}
        self.log_dict(
            named, on_step=False, on_epoch=True, batch_size=items, sync_dist=True, prog_bar=True
        )
