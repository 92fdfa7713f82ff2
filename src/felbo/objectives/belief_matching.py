"""Belief Matching: closed-form evidence lower bound of a categorical likelihood."""

from __future__ import annotations

import torch
from torch import Tensor

from felbo import dirichlet
from felbo.inputs import Inputs
from felbo.models import StochasticClassifier
from felbo.models.concentration import concentration_of
from felbo.objectives.base import Loss, Objective
from felbo.objectives.checks import check_labels, check_prior, check_weight, concentration_at
from felbo.priors import Prior


class BeliefMatching(Objective):
    """Expected negative log-likelihood under Dir(α(x)) plus its KL from the prior, closed-form.

    ``loss = mean [ψ(z) − ψ(α_y)] + w · mean KL(Dir(α) ‖ Dir(β))``

    Both terms are exact. For a single label the minimum is at α = β + e_y / w: a label counts as
    1 / w observations (Joo et al., 2020, "Being Bayesian about Categorical Probability").

    Args:
        prior: maps inputs to a Dirichlet over class probabilities.
        kl_weight: w; with 0.01 a label counts as 100 observations.

    Example:
        >>> import torch, felbo
        >>> model = felbo.ConcentrationNetwork(felbo.networks.mlp(2, (25,), 3))
        >>> objective = felbo.BeliefMatching(felbo.UniformPrior(3))
        >>> loss = objective(model, torch.zeros(8, 2), torch.zeros(8, dtype=torch.int64))
        >>> loss.total.backward()
    """

    def __init__(self, prior: Prior, kl_weight: float = 0.01) -> None:
        check_weight("kl_weight", kl_weight)
        self.prior = prior
        self.kl_weight = kl_weight

    def __call__(self, model: StochasticClassifier, x: Inputs, y: Tensor) -> Loss:
        """Return the loss of ``model`` on inputs ``x [B, ...]`` and labels ``y [B]``."""
        alpha = concentration_of(model, x)
        check_labels(y, *alpha.shape)
        beta = concentration_at(self.prior, x).to(alpha)
        check_prior(beta, *alpha.shape)
        labelled = alpha.gather(-1, y.long()[:, None]).squeeze(-1)
        nll = (torch.digamma(alpha.sum(-1)) - torch.digamma(labelled)).mean()
        kl = dirichlet.kl_divergence(alpha, beta).mean()
        return Loss(total=nll + self.kl_weight * kl, nll=nll, kl=kl)
