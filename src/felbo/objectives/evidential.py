"""Evidential learning: expected squared error of a Dirichlet with an annealed KL term."""

from __future__ import annotations

import torch
from torch import Tensor

from felbo import dirichlet
from felbo.inputs import Inputs
from felbo.models import StochasticClassifier, unwrap
from felbo.models.concentration import concentration_of
from felbo.objectives.base import Loss, Objective
from felbo.objectives.checks import check_count, check_labels


class Evidential(Objective):
    """Expected Brier score under Dir(α(x)), plus the KL of the evidence for wrong classes.

    ``loss = mean Σ_k [(y_k − ā_k)² + ā_k (1 − ā_k) / (z + 1)] + λ · mean KL(Dir(α̃) ‖ Dir(1))``

    with ā = α / z, y one-hot, and α̃ = y + (1 − y) ⊙ α, from which the evidence for the label is
    removed. λ is annealed from 0 to 1, so that evidence can form before it is penalised (Sensoy et
    al., 2018, "Evidential Deep Learning to Quantify Classification Uncertainty").

    In the :class:`Loss`, ``nll`` is the first term, an upper bound of the squared error.

    Args:
        annealing_steps: calls in training, one for each batch, over which λ reaches 1; the paper
            takes ten epochs, that is ``10 * len(loader)``. With 1, λ is 1 from the second call on.

    Attributes:
        step: calls on a model in training mode so far. Set it when training is resumed without a
            checkpoint.

    Example:
        >>> import torch, felbo
        >>> model = felbo.ConcentrationNetwork(felbo.networks.mlp(2, (25,), 3), link="relu")
        >>> objective = felbo.Evidential(annealing_steps=100)
        >>> loss = objective(model, torch.zeros(8, 2), torch.zeros(8, dtype=torch.int64))
        >>> loss.total.backward()
        >>> objective.step, objective.kl_weight
        (1, 0.01)
    """

    def __init__(self, annealing_steps: int) -> None:
        check_count("annealing_steps", annealing_steps)
        self.annealing_steps = annealing_steps
        self.step = 0

    @property
    def kl_weight(self) -> float:
        """λ of the next call."""
        return min(1.0, self.step / self.annealing_steps)

    def __call__(self, model: StochasticClassifier, x: Inputs, y: Tensor) -> Loss:
        """Return the loss of ``model`` on inputs ``x [B, ...]`` and labels ``y [B]``."""
        alpha = concentration_of(model, x)
        check_labels(y, *alpha.shape)
        one_hot = torch.zeros_like(alpha).scatter_(-1, y.long()[:, None], 1.0)
        precision = alpha.sum(-1, keepdim=True)
        mean = alpha / precision
        variance = mean * (1 - mean) / (precision + 1)
        nll = ((one_hot - mean).square() + variance).sum(-1).mean()
        wrong = one_hot + (1 - one_hot) * alpha
        kl = dirichlet.kl_divergence(wrong, torch.ones_like(wrong)).mean()
        total = nll + self.kl_weight * kl
        self.step += unwrap(model).training  # a wrapper may have another mode
        return Loss(total=total, nll=nll, kl=kl)
