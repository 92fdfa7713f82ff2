"""Scores of each epoch of a training, and the history that collects them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from felbo.errors import DataError


class ValidationScores(NamedTuple):
    """Scores on validation data, in evaluation mode.

    Attributes:
        loss: the objective, averaged over items.
        nll: −mean log p_y, with p the mean over draws of the class probabilities, smoothed as in
            :func:`felbo.score`: the negative of its ``log_likelihood``.
        accuracy: per cent.
    """

    loss: float
    nll: float
    accuracy: float


# Scores a model as it is, in its own way.
Scorer = Callable[[], ValidationScores]


@dataclass(frozen=True)
class Epoch:
    """One pass over the training data; ``str`` formats it as a line.

    Attributes:
        number: 0 for the first epoch.
        total: mean over steps of the loss.
        nll: mean over steps of its likelihood term.
        kl: mean over steps of its KL term, before ``kl_weight``.
        learning_rate: of the last step, of the optimiser's first parameter group.
        validation: scores on the validation data; ``None`` if there are none.
        is_best: True if the epoch is better than all before it, by the monitored score.
    """

    number: int
    total: float
    nll: float
    kl: float
    learning_rate: float
    validation: ValidationScores | None = None
    is_best: bool = False

    def __str__(self) -> str:
        """Return the scores in one line."""
        line = f"loss {self.total:.4f}  nll {self.nll:.4f}  kl {self.kl:.3f}"
        if self.validation is None:
            return line
        _, nll, accuracy = self.validation
        return f"{line}  validation nll {nll:.4f}  accuracy {accuracy:.1f} %"


@dataclass
class History:
    """The epochs of a training.

    Attributes:
        epochs: in order.

    Example:
        >>> history = History([Epoch(0, 0.9, 0.8, 2.0, 0.1), Epoch(1, 0.7, 0.6, 2.0, 0.1)])
        >>> history.total, history.nll, len(history)
        ([0.9, 0.7], [0.8, 0.6], 2)
    """

    epochs: list[Epoch] = field(default_factory=list)

    def append(self, epoch: Epoch) -> None:
        """Add an epoch."""
        self.epochs.append(epoch)

    def __len__(self) -> int:
        """Return the number of epochs."""
        return len(self.epochs)

    @property
    def total(self) -> list[float]:
        """Loss of each epoch."""
        return [epoch.total for epoch in self.epochs]

    @property
    def nll(self) -> list[float]:
        """Likelihood term of each epoch."""
        return [epoch.nll for epoch in self.epochs]

    @property
    def kl(self) -> list[float]:
        """KL term of each epoch, before ``kl_weight``."""
        return [epoch.kl for epoch in self.epochs]

    @property
    def learning_rate(self) -> list[float]:
        """Learning rate of each epoch."""
        return [epoch.learning_rate for epoch in self.epochs]

    @property
    def validation(self) -> list[ValidationScores]:
        """Validation scores of each epoch; empty without validation data."""
        return [epoch.validation for epoch in self.epochs if epoch.validation is not None]

    @property
    def best(self) -> Epoch | None:
        """The best epoch by the monitored score; ``None`` without validation data."""
        return next((epoch for epoch in reversed(self.epochs) if epoch.is_best), None)

    def plot(self) -> Any:
        """Draw loss, nll and validation scores over epochs.

        Returns:
            A matplotlib ``Figure``, which a notebook shows; ``figure.savefig("training.png")``
            writes it to a file.
        """
        if not self.epochs:
            raise DataError("The history is empty: there is nothing to plot.")
        # Imported lazily: most trainings are not plotted. Without pyplot no display is needed.
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        numbers = [epoch.number for epoch in self.epochs]
        axes.plot(numbers, self.total, label="loss")
        axes.plot(numbers, self.nll, label="nll")
        if self.validation:
            self._plot_validation(axes)
        axes.set_xlabel("epoch")
        axes.set_ylabel("nats")
        axes.legend()
        return figure

    def _plot_validation(self, axes: Any) -> None:
        numbers = [epoch.number for epoch in self.epochs if epoch.validation is not None]
        axes.plot(numbers, [scores.nll for scores in self.validation], label="validation nll")
        if self.best is not None:
            axes.axvline(self.best.number, color="grey", linestyle=":", label="best epoch")
        right = axes.twinx()
        accuracies = [scores.accuracy for scores in self.validation]
        right.plot(numbers, accuracies, color="black", linestyle="--", linewidth=1)
        right.set_ylabel("validation accuracy (%), dashed")
