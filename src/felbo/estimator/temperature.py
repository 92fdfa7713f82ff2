"""Temperature of a classifier for tables, estimated on rows that it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from felbo.estimator.rows import Rows
from felbo.evaluation.calibrate import tempered_nll
from felbo.models import StochasticClassifier
from felbo.random import torch_seed

# Values of log T at which the likelihood is computed.
GRID = np.linspace(-1.0, 1.0, 21)
# Standard deviation of log T a priori.
WIDTH = 0.2
# The running mean lags behind by a sixth of the epochs, as the mean over the last third does.
DECAY = 4


class TemperatureCurves:
    """Likelihood of held-out rows as a function of the temperature, after each epoch.

    The final classifier has mean weights over its last epochs, and is better calibrated than it
    would be with the weights of any one of them. Its logits are approximated by a running mean,

    ``mean_e = mean_{e−1} + c_e (logits_e − mean_{e−1})``, ``c_e = (DECAY + 1) / (e + DECAY)``

    in which epoch i of e has about the weight ``(i / e)^DECAY`` (Shamir and Zhang, 2013). It is
    passed to a training as a scheduler, which is advanced after every epoch and saved with the
    checkpoints.

    Args:
        model: what is trained, in evaluation mode whenever an epoch has ended.
        held_out: rows that are not trained on.
        seed: of the draws, the same in every epoch.

    Attributes:
        curves: one ``[len(GRID)]`` per epoch: ``−Σ_i w_i log mean_m softmax(logits_m / T)_{y_i}``.
    """

    def __init__(self, model: StochasticClassifier, held_out: Rows, seed: int) -> None:
        self.model, self.seed = model, seed
        self.features, self.labels, self.weights = map(torch.from_numpy, held_out)
        self.mean: Tensor | None = None
        self.curves: list[list[float]] = []

    @torch.no_grad()
    def step(self) -> None:
        """Take the logits after an epoch into the mean, and add its curve."""
        device = next(self.model.parameters()).device
        with torch_seed(self.seed):
            logits = self.model(self.features.to(device)).cpu()
        share = (DECAY + 1) / (len(self.curves) + 1 + DECAY)
        self.mean = logits if self.mean is None else self.mean.lerp(logits, share)
        nll = tempered_nll(self.mean, self.labels, self.weights.to(self.mean.dtype))
        total = float(self.weights.sum())
        self.curves.append([total * nll(log_temperature) for log_temperature in GRID])

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds of it."""
        return {"mean": self.mean, "curves": self.curves}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned."""
        self.mean, self.curves = state["mean"], [list(curve) for curve in state["curves"]]


def most_probable_temperature(curves: Sequence[Sequence[float]]) -> float:
    """Return the maximum a posteriori temperature, with ``log T ~ Normal(0, 0.2²)`` a priori.

    The maximum-likelihood temperature of a few hundred rows is mostly chance, and zero where all
    of them are classified correctly. The prior keeps it near one unless the rows speak against it.

    Args:
        curves: negative log-likelihoods of independent rows at the temperatures of ``GRID``.

    Example:
        >>> float(most_probable_temperature([np.zeros(21)]))
        1.0
        >>> likelihood = 0.5 * ((GRID - np.log(2.0)) / 0.2) ** 2
        >>> round(most_probable_temperature([likelihood]) ** 2, 2)  # halfway between 1 and 2
        2.0
    """
    # Imported lazily, like every part of scipy.
    from scipy.interpolate import CubicSpline

    posterior: NDArray[np.float64] = np.sum(curves, axis=0) + 0.5 * (GRID / WIDTH) ** 2
    fine = np.linspace(GRID[0], GRID[-1], 1601)
    return float(np.exp(fine[CubicSpline(GRID, posterior)(fine).argmin()]))
