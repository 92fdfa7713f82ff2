"""Function-space bound with sample weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from felbo.inputs import Inputs
from felbo.models import StochasticClassifier
from felbo.objectives import FunctionSpaceELBO, Loss
from felbo.objectives.forward import forward_once


class WeightedELBO(FunctionSpaceELBO):
    """Function-space bound with a sample weight for each row.

    ``loss = mean_i w_i (−log f_{y_i}) + kl_weight · Σ_t weight_t · mean_s KL_t(s)``

    with the mean over draws too, and KLs at rows of the batch weighted likewise. Inputs are pairs
    ``(x [B, F], w [B])``. For weights of mean one over the batch, a row of weight 2 counts as two
    equal rows of weight 1 would in :class:`felbo.FunctionSpaceELBO`.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MAP(felbo.networks.mlp(2, (25,), 3))
        >>> objective = WeightedELBO(felbo.UniformPrior(3), num_data=100)
        >>> x, y = torch.zeros(8, 2), torch.zeros(8, dtype=torch.int64)
        >>> objective(model, (x, torch.ones(8)), y).total.backward()
    """

    def __call__(self, model: StochasticClassifier, x: Inputs, y: Tensor) -> Loss:
        """Return the loss of ``model`` on inputs ``(x [B, F], w [B])`` and labels ``y [B]``."""
        rows, weights = x
        points = [term.measurement(rows, self._comparison(model, term)) for term in self.terms]
        with_batch = [term.measurement.includes_batch for term in self.terms]
        batch, measured = forward_once(model, rows, points, with_batch, self.num_samples)
        nll = weighted_nll(batch, y, weights)
        kl = torch.zeros((), dtype=torch.float64, device=nll.device)
        for term, (logits, places) in zip(self.terms, measured, strict=True):
            divergence = self.divergence(logits, places, term.prior)
            if term.measurement.includes_batch:  # its rows come first
                others = len(divergence) - len(rows)
                divergence = divergence * F.pad(weights, (0, others), value=1.0)
            kl = kl + term.weight * divergence.mean()
        kl = kl.to(nll.dtype)
        return Loss(nll + self.weight_of_kl(batch) * kl, nll, kl)


def weighted_nll(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """``mean_i w_i mean_m −log softmax_y`` for ``logits [M, B, K]``, ``labels [B]``, ``w [B]``."""
    losses = F.cross_entropy(
        logits.flatten(0, 1), labels.repeat(len(logits)), reduction="none"
    ).view(len(logits), -1)
    return (losses.mean(0) * weights).mean()
