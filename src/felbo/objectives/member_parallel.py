"""Function-space bound from two means over the draws, which processes can sum.

With α held constant, the KL and its gradient depend on the draws only through their mean
ā and the mean l̄ of ``log f``:

``KL = Σ (α − β) l̄ − log B(α) + log B(β)``,  ``∂KL/∂log f_m = (α − β) / M``.

A process that holds some of the members of an ensemble needs nothing else of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from felbo import dirichlet
from felbo.dirichlet.precision import solve
from felbo.distributed import ShardedEnsemble
from felbo.inputs import Inputs
from felbo.models import StochasticClassifier, unwrap
from felbo.objectives.base import Loss
from felbo.objectives.forward import forward_once, smoothed_draws
from felbo.objectives.likelihood import expected_nll

if TYPE_CHECKING:
    from felbo.objectives.function_space import FunctionSpaceELBO


def is_sharded(model: nn.Module) -> bool:
    """Whether ``model`` is, or wraps, an ensemble whose members are divided among processes."""
    return isinstance(unwrap(model), ShardedEnsemble)


def loss_over_members(
    objective: FunctionSpaceELBO,
    model: StochasticClassifier,
    x: Inputs,
    y: Tensor,
    points: Sequence[Inputs | None],
) -> Loss:
    """Return the loss of an ensemble whose members are divided among processes.

    Args:
        objective: gives terms, prior and weights.
        model: the ensemble, or a wrapper around it.
        x: inputs ``[B, ...]``.
        y: labels ``[B]``.
        points: of each term, beside the batch.
    """
    shard = unwrap(model)
    assert isinstance(shard, ShardedEnsemble)
    with_batch = [term.measurement.includes_batch for term in objective.terms]
    with shard.own_draws():
        batch, measured = forward_once(model, x, points, with_batch, objective.num_samples)
    own = [means_over_draws(logits, objective.smoothing) for logits, _ in measured]
    nll, *means = shard.average(
        [expected_nll(batch, y, objective.class_weights), *own],
        [x, *(part for part in points if part is not None)],
    )
    # As in one process: the fused form computes the precision less exactly.
    tolerance = 1e-2 if objective.uses_fused(batch) else 1e-4
    kl = torch.zeros_like(nll)
    for term, (logits, places), mean in zip(objective.terms, measured, means, strict=True):
        at = objective.prior_at(places, term.prior, logits)
        values = kl_from_means(mean, shard.training_samples, *at, tolerance)
        kl = kl + term.weight * values.mean()
    return Loss(torch.add(nll, kl, alpha=objective.weight_of_kl(batch)), nll, kl)


def means_over_draws(logits: Tensor, smoothing: float) -> Tensor:
    """Return the means of f and of log f over the draws, ``[2, S, K]`` in float64.

    Args:
        logits: draws ``[M, S, K]``.
        smoothing: γ of ``f = (1 − γ) softmax + γ / K``.
    """
    f = smoothed_draws(logits, smoothing)
    return torch.stack([f.mean(0), f.log().mean(0)])


def kl_from_means(
    means: Tensor, draws: int, beta: Tensor, max_precision: float, tolerance: float
) -> Tensor:
    """Return the KL from the prior at each point, its gradient with α held constant.

    Args:
        means: of f and of log f over all draws, ``[2, S, K]`` in float64.
        draws: M, over all processes.
        beta: concentration of the prior ``[S, K]`` or ``[K]``.
        max_precision: upper bound of the fitted precision, and the precision of a single draw.
        tolerance: largest last Newton step in the precision, relative.

    Returns:
        ``[S]`` in float64.
    """
    mean, mean_log = means.unbind()
    with torch.no_grad():
        if draws == 1:
            z = torch.full_like(mean[..., 0], max_precision)
        else:
            spread = (mean * (mean.log() - mean_log)).sum(-1).clamp(min=0.0)
            z = solve(mean, spread, float(mean.shape[-1]), max_precision, tolerance).precision
        alpha = z.unsqueeze(-1) * mean
    beta = beta.double()
    normalizers = dirichlet.log_normalizer(beta) - dirichlet.log_normalizer(alpha)
    return ((alpha - beta) * mean_log).sum(-1) + normalizers
