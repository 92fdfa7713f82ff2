"""Candidates for the defaults of FunctionSpaceClassifier, in three rounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch.optim.lr_scheduler import LambdaLR

import felbo
from felbo.estimator import FunctionSpaceClassifier, fitting
from felbo.estimator.building import fabric_for
from felbo.estimator.rows import Rows, as_loader
from felbo.estimator.stopping import HeldOutBound
from felbo.measurement import Beyond, Box, Elsewhere
from felbo.models.modes import evaluation_mode
from felbo.models.tempered import Tempered, log_mean
from felbo.training import Epoch

# Widths of the prior over the logarithm of a temperature, which is zero in the mean.
WIDTH, WIDE = 0.2, 1.0


class Recording(HeldOutBound):
    """The bound on rows held out; keeps what was predicted for them after each epoch."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.logits: list[torch.Tensor] = []

    def __call__(self) -> Any:
        """Return the scores of the model as it is."""
        with evaluation_mode([self.model]), torch.no_grad():
            self.logits.append(self.model(torch.from_numpy(self.held_out.features)))
        return super().__call__()


class Candidate(FunctionSpaceClassifier):  # type: ignore[misc]
    """The classifier as it was; candidates with other ends of the training derive from it.

    Those of the same settings share the search for the number of epochs, which takes most of the
    time. `memory` is where it is kept, and `seconds` is what a fit takes when it is not.
    """

    # Rows; where fewer are held out in one split, there are several.
    many_held_out = 200

    def __init__(self, memory: dict[str, Any] | None = None, **settings: Any) -> None:
        super().__init__(calibrate=False, **settings)
        self.memory = {} if memory is None else memory
        # Two measurement sets may look the same when printed.
        self.key = f"{settings}, {id(settings.get('measurement'))}"

    def fit(self, *arguments: Any, **others: Any) -> Candidate:
        """Train, and note the seconds of the processor."""
        start = time.process_time()
        known = self.key in self.memory
        super().fit(*arguments, **others)
        self.seconds = time.process_time() - start + (self.memory[self.key][-1] if known else 0.0)
        return self

    def _early_stopping(self, rows: Rows, checkpoints: Any) -> tuple[int, float]:
        if self.key not in self.memory:
            start = time.process_time()
            self.recorded: list[Recording] = []
            with mock.patch.object(fitting, "MANY_HELD_OUT", self.many_held_out):
                best, _ = super()._early_stopping(rows, checkpoints)
            seconds = time.process_time() - start
            self.memory[self.key] = best, self.validation_scores_, self.recorded, seconds
        best, self.validation_scores_, self.recorded, _ = self.memory[self.key]
        return best, 1.0

    def _search(self, kept: Rows, held_out: Rows, *_: Any) -> Any:
        learner = self._untrained(self.learner_.table, kept.features.shape[1], self.learner_.seed)
        objective = self._objective(float(kept.weights.sum()))
        self.recorded.append(Recording(learner.model, objective, held_out, learner.seed))
        training = learner.training(
            objective,
            kept,
            epochs=self.epochs,
            batch_size=self.batch_size,
            validation=self.recorded[-1],
        )
        return fitting.Search(training, temperatures=None)

    def _train(self, rows: Rows, epochs: int, checkpoint: Any = None) -> None:
        learner, epochs = self.learner_, self.last_epochs(epochs)
        learner.num_data += float(rows.weights.sum())
        self.n_iter_ = epochs
        felbo.fit(
            learner.model,
            self._objective(learner.num_data),
            as_loader(rows, self.batch_size),
            epochs=epochs,
            optimizer=learner.optimizer,
            scheduler=lambda optimizer: LambdaLR(optimizer, lambda n: self.rate(n, epochs)),
            seed=learner.seed,
            fabric=fabric_for(self.device),
            progress=False,
            on_epoch=self.ended,
        )
        learner.model.double()
        self.after()

    def last_epochs(self, epochs: int) -> int:
        """Return the epochs of the training on all rows."""
        return epochs

    def rate(self, epoch: int, epochs: int) -> float:
        """Return the factor of the learning rate in an epoch of the training on all rows."""
        return 1.0

    def ended(self, epoch: Epoch) -> None:
        """Look at the model after an epoch of the training on all rows."""

    def after(self) -> None:
        """Change the trained model."""

    def held_out(self, epochs: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits ``[M, N, K]`` and labels ``[N]`` of rows held out.

        The logits are the mean over some epochs that end with the best one.
        """
        end = int(np.argmax(self.validation_scores_)) + 1
        labels = [torch.from_numpy(part.held_out.labels) for part in self.recorded]
        logits = [torch.stack(part.logits[end - epochs : end]).mean(0) for part in self.recorded]
        return torch.cat(logits, 1), torch.cat(labels)


class AsBuilt(FunctionSpaceClassifier):  # type: ignore[misc]
    """The classifier itself, with the seconds of the processor."""

    def __init__(self, memory: dict[str, Any], **settings: Any) -> None:
        super().__init__(**settings)

    def fit(self, *arguments: Any, **others: Any) -> AsBuilt:
        """Train, and note the seconds of the processor."""
        start = time.process_time()
        super().fit(*arguments, **others)
        self.seconds = time.process_time() - start
        return self


class Decayed(Candidate):
    """The learning rate of the training on all rows falls to zero over its last third."""

    def rate(self, epoch: int, epochs: int) -> float:
        """Return the factor of the learning rate in an epoch."""
        return min(1.0, 3.0 * (epochs - epoch) / epochs)


class Averaged(Candidate):
    """The weights are the mean over the ends of the last third of the epochs."""

    def ended(self, epoch: Epoch) -> None:
        """Keep the weights of a late epoch."""
        if epoch.number == 0:
            self.weights: list[list[torch.Tensor]] = []
        if epoch.number >= self.n_iter_ - max(1, self.n_iter_ // 3):
            self.weights.append([part.detach().clone() for part in self._parameters()])

    def after(self) -> None:
        """Give the model the mean weights."""
        for part, late in zip(self._parameters(), zip(*self.weights, strict=True), strict=True):
            part.data = torch.stack(late).mean(0).to(part.dtype)
        super().after()

    def _parameters(self) -> list[torch.nn.Parameter]:
        return list(self.learner_.model.parameters())


class AsManySteps(Candidate):
    """The training on all rows takes as many steps as the search did, in fewer epochs."""

    def last_epochs(self, epochs: int) -> int:
        """Return the epochs of the training on all rows."""
        return max(1, round((1.0 - self.validation_fraction) * epochs))


class Heated(Candidate):
    """A temperature of all draws, by the rows held out and a prior that keeps it near one."""

    width = WIDTH

    def after(self) -> None:
        """Divide the logits by the most probable temperature."""
        logits, labels = self.held_out()
        self.temperature = most_probable_temperature(logits.double(), labels, self.width)
        self.learner_.model = Tempered(self.learner_.model, self.temperature).double()


class DecayedHeated(Decayed, Heated):
    """Both a falling learning rate and a temperature."""


class AveragedHeated(Averaged, Heated):
    """Both mean weights and a temperature, by the logits at the best epoch."""


class AveragedHeatedAlike(Averaged, Heated):
    """Both mean weights and a temperature, by the mean logits of the same epochs."""

    def held_out(self, epochs: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean logits ``[M, N, K]`` and labels ``[N]`` of rows held out."""
        return super().held_out(max(epochs, self.n_iter_ // 3))


class AveragedHeatedWide(AveragedHeated):
    """Both, with hardly any prior over the temperature."""

    width = WIDE


class AveragedHeatedAnew(Averaged, Heated):
    """Both, by another training on the kept rows that ends with mean weights as the last does."""

    def _train(self, rows: Rows, epochs: int, checkpoint: Any = None) -> None:
        self.kept, self.left = rows.split(self.validation_fraction, self.learner_.seed)
        super()._train(rows, epochs, checkpoint)

    def held_out(self, epochs: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits ``[M, N, K]`` and labels ``[N]`` of rows held out."""
        seed, inputs = self.learner_.seed, self.kept.features.shape[1]
        learner = self._untrained(self.learner_.table, inputs, seed)
        objective = self._objective(float(self.kept.weights.sum()))
        learner.train(objective, self.kept, epochs=self.n_iter_, batch_size=self.batch_size)
        with evaluation_mode([learner.model]), torch.no_grad():
            logits = learner.model(torch.from_numpy(self.left.features).double())
        return logits, torch.from_numpy(self.left.labels)


class ManySplits(Candidate):
    """The search takes up to five splits where fewer than a thousand rows are held out in one."""

    many_held_out = 1000

    def __init__(self, memory: dict[str, Any] | None = None, **settings: Any) -> None:
        super().__init__(memory, **settings)
        self.key += ", many splits"


class ManySplitsAveraged(ManySplits, Averaged):
    """Mean weights, with more splits to find the number of epochs."""


class ManySplitsHeated(ManySplits, AveragedHeatedAlike):
    """Mean weights and a temperature by the mean logits for rows of more splits."""


class AveragedLonger(Averaged):
    """Mean weights of more epochs, since their mean lags behind the last."""

    def last_epochs(self, epochs: int) -> int:
        """Return the epochs of the training on all rows."""
        return round(1.2 * epochs)


class AveragedAsManySteps(AsManySteps, Averaged):
    """Mean weights of fewer epochs."""


class ByClasses(Averaged):
    """Mean weights, with less strength for more classes."""

    def __init__(self, memory: dict[str, Any], factor: Callable[[int], float], **settings: Any):
        super().__init__(memory, **settings)
        self.factor = factor
        self.key += f", {id(factor)}"

    def fit(self, rows: Any, labels: Any) -> Candidate:
        """Train with the default strength times the factor for this number of classes."""
        self.strength *= self.factor(len(np.unique(labels)))
        return super().fit(rows, labels)


def most_probable_temperature(
    logits: torch.Tensor, labels: torch.Tensor, width: float = WIDTH
) -> float:
    """Return T for draws of logits ``[M, N, K]``, with log T normal around zero a priori."""

    def loss(log_t: float) -> float:
        log_probs = log_mean(logits / np.exp(log_t))
        return float(torch.nn.functional.nll_loss(log_probs, labels, reduction="sum")) + (
            0.5 * (log_t / width) ** 2
        )

    return float(np.exp(minimize_scalar(loss, bounds=(-2.0, 2.0), method="bounded").x))


def _far() -> Elsewhere:
    return Elsewhere([Box(), Box(), Beyond(2.0, 3.0)])


def _outer() -> Elsewhere:
    box = Box(scale=8.0, nearest=4.0)
    return Elsewhere([box, box, Beyond(2.0, 3.0)])


def _outer_box() -> Elsewhere:
    box = Box(scale=8.0, nearest=4.0)
    return Elsewhere([box, box, Beyond()])


def _halves(nearest: float) -> Elsewhere:
    return Elsewhere([Box(scale=8.0, nearest=4.0), Beyond(nearest, nearest + 1.0)])


POINTS: dict[str, Callable[[], Elsewhere]] = {
    "before": Elsewhere,
    "far": _far,
    "outer": _outer,
    "outer box": _outer_box,
    "halves": partial(_halves, 1.0),
    "far halves": partial(_halves, 2.0),
}
Make = Callable[[dict[str, Any]], Candidate]


def _less_one(classes: int) -> float:
    return 1.0 / (classes - 1)


def _half(classes: int) -> float:
    return 2.0 / classes


def _of(kind: Callable[..., Candidate], points: str = "before", **settings: Any) -> Make:
    """Return what makes a candidate from a memory; those with the same settings share a search."""

    def make(memory: dict[str, Any]) -> Candidate:
        places = memory.setdefault(points, POINTS[points]())
        # Also of the defaults, which were changed by the second round.
        chosen = {"strength": 0.03, "random_state": 0} | settings
        return kind(memory, measurement=places, **chosen)

    return make


# The defaults that the candidates of the three rounds are compared with.
BEFORE, NOW, STRONGER = "before", "far halves, mean weights", "now, strength 0.06"
CANDIDATES: dict[str, Make] = {
    BEFORE: _of(Candidate),
    "rate falls": _of(Decayed),
    "mean weights": _of(Averaged),
    "as many steps": _of(AsManySteps),
    "temperature": _of(Heated),
    "temperature, rate falls": _of(DecayedHeated),
    "strength 0.01": _of(Candidate, strength=0.01),
    "strength 0.003": _of(Candidate, strength=0.003),
    "far": _of(Candidate, "far"),
    "far, strength 0.01": _of(Candidate, "far", strength=0.01),
    "outer": _of(Candidate, "outer"),
    "outer, mean weights": _of(Averaged, "outer"),
    "outer box, mean weights": _of(Averaged, "outer box"),
    "halves, mean weights": _of(Averaged, "halves"),
    NOW: _of(Averaged, "far halves"),
    "ten members": _of(Candidate, members=10),
    "200 epochs": _of(Candidate, epochs=200),
}
SECOND: dict[str, Make] = {
    "now, temperature": _of(AveragedHeated, "far halves"),
    "now, temperature, mean logits": _of(AveragedHeatedAlike, "far halves"),
    "now, strength / (K − 1)": _of(partial(ByClasses, factor=_less_one), "far halves"),
    "now, strength × 2 / K": _of(partial(ByClasses, factor=_half), "far halves"),
    STRONGER: _of(Averaged, "far halves", strength=0.06),
    "now, strength 0.06, as many steps": _of(AveragedAsManySteps, "far halves", strength=0.06),
    "now, strength 0.1": _of(Averaged, "far halves", strength=0.1),
    "now, three members": _of(Averaged, "far halves", members=3),
    "now, 1.2 × epochs": _of(AveragedLonger, "far halves"),
    "now, as many steps": _of(AveragedAsManySteps, "far halves"),
}
THIRD: dict[str, Make] = {
    "calibrated": _of(AveragedHeated, "far halves", strength=0.06),
    "calibrated, wide": _of(AveragedHeatedWide, "far halves", strength=0.06),
    "calibrated, mean logits": _of(AveragedHeatedAlike, "far halves", strength=0.06),
    "calibrated, trained anew": _of(AveragedHeatedAnew, "far halves", strength=0.06),
    "more splits": _of(ManySplitsAveraged, "far halves", strength=0.06),
    "more splits, calibrated": _of(ManySplitsHeated, "far halves", strength=0.06),
    "more splits, calibrated, as built": _of(AsBuilt, "far halves", strength=0.06),
}
ROUNDS = {BEFORE: list(CANDIDATES), NOW: list(SECOND), STRONGER: list(THIRD)}
CANDIDATES |= SECOND | THIRD
