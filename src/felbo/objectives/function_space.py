"""Function-space evidence lower bound (ELBO)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor

from felbo import dirichlet, fused
from felbo.errors import InputTypeError
from felbo.inputs import Inputs
from felbo.measurement import MeasurementLike, MeasurementSet, as_measurement_set, points_of
from felbo.measurement.base import Comparison
from felbo.models import StochasticClassifier
from felbo.objectives.base import Loss, Objective
from felbo.objectives.checks import (
    CheckedLabels,
    check_choice,
    check_count,
    check_prior,
    check_smoothing,
    check_weight,
    concentration_at,
    warn_if_flat,
)
from felbo.objectives.class_weights import ClassWeights, as_class_weights
from felbo.objectives.everywhere import DATA_STRENGTH, STRENGTH, everywhere_sets
from felbo.objectives.forward import forward_once, forward_points, smoothed_draws
from felbo.objectives.likelihood import expected_nll
from felbo.objectives.member_parallel import is_sharded, loss_over_members
from felbo.priors import Prior

Gradient = Literal["partial", "total"]
Implementation = Literal["auto", "plain", "fused"]


def function_space_kl(
    logits: Tensor,
    beta: Tensor,
    max_precision: float,
    smoothing: float = 1e-4,
    gradient: Gradient = "partial",
) -> Tensor:
    """Return the function-space KL from the prior at each point.

    ``mean_m [log Dir(f_m | α) − log Dir(f_m | β)]``,  ``α = fit(f)``,
    ``f = (1 − γ) softmax(logits) + γ / K``

    A Monte-Carlo estimate from M draws: unbiased for the KL between the distribution of the draws
    and the prior only if the draws are Dirichlet; it can be negative. Computed in float64, since at
    the precision of a confident prediction large terms cancel.

    Args:
        logits: draws ``[M, S, K]``.
        beta: concentration of the prior ``[S, K]`` or ``[K]``.
        max_precision: upper bound of the fitted precision, and the precision of a single draw.
        smoothing: γ.
        gradient: ``"partial"`` holds α constant; ``"total"`` differentiates through the fit.

    Returns:
        ``[S]`` in the precision of the logits (float32 for lower), differentiable in them.
    """
    f = smoothed_draws(logits, smoothing)
    total = gradient == "total"
    fit = dirichlet.fit(f, max_precision=max_precision, differentiable=total, validate=False)
    alpha = fit.concentration  # constant for autograd unless gradient="total"
    kl = (dirichlet.log_prob(f, alpha) - dirichlet.log_prob(f, beta.double())).mean(0)
    return kl.to(torch.promote_types(logits.dtype, torch.float32))


class Term(NamedTuple):
    """One KL term: a measurement set with its weight and prior.

    Attributes:
        measurement: points at which posterior and prior are compared.
        weight: of this term in the sum of the KLs.
        prior: another prior for these points; ``None`` is that of the objective.
    """

    measurement: MeasurementSet
    weight: float = 1.0
    prior: Prior | None = None


class FunctionSpaceELBO(Objective):
    """Expected negative log-likelihood plus the KL divergence to a prior over functions.

    ``loss = mean −log f_y + kl_weight · Σ_t weight_t · mean_s KL_t(s)``

    with measurement points s of term t, and the KL of :func:`function_space_kl`.

    Args:
        prior: maps inputs to a Dirichlet over class probabilities.
        num_data: N, the number of training examples; the fitted precision lies in [K, N].
        measurement: points at which posterior and prior are compared: a measurement set, a function
            from the batch to points, or several :class:`Term`; ``None`` is the training batch,
            whose forward pass is shared.
        kl_weight: weight of the KL; ``"batch"`` is 1 / B as in the paper.
        gradient: ``"partial"`` holds α constant; ``"total"`` differentiates through the fit.
        num_samples: M; ``None`` takes the model's training default.
        smoothing: γ of ``f ← (1 − γ) f + γ / K``, applied to the draws in the KL term only.
        batch_size: B of ``kl_weight="batch"``: items per optimiser step, over all devices and
            accumulated gradients. :func:`felbo.fit` sets it; in a custom training loop, ``None``
            is the largest batch so far, so that a smaller last batch has the same KL weight.
        implementation: ``"plain"`` is :func:`function_space_kl`; ``"fused"`` has a closed-form
            gradient, with relative differences of at most 1e-4 in the value and 1e-3 in the
            gradient; ``"auto"`` uses the fused one where it applies, for float32 logits or lower
            precision.
        class_weights: factor of each class in the likelihood ``[K]``: ``−w_y log f_y``. With a mean
            of one over the training data, the prior keeps its strength.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MAP(felbo.networks.mlp(2, (25,), 3))
        >>> objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(3), num_data=100)
        >>> loss = objective(model, torch.zeros(8, 2), torch.zeros(8, dtype=torch.int64))
        >>> loss.total.backward()
    """

    def __init__(
        self,
        prior: Prior,
        num_data: int,
        measurement: MeasurementLike | Sequence[Term] | None = None,
        kl_weight: float | Literal["batch"] = "batch",
        gradient: Gradient = "partial",
        num_samples: int | None = None,
        smoothing: float = 1e-4,
        *,
        batch_size: int | None = None,
        implementation: Implementation = "auto",
        class_weights: ClassWeights | None = None,
    ) -> None:
        check_count("num_data, the number of training examples,", num_data)
        check_choice("gradient", gradient, ("partial", "total"))
        check_choice("implementation", implementation, ("auto", "plain", "fused"))
        if kl_weight != "batch":
            check_weight("kl_weight must be 'batch' or a number; it", kl_weight)
        if batch_size is not None:
            check_count("batch_size", batch_size)
        check_smoothing(smoothing)
        self.prior = prior
        self.num_data = num_data
        self.terms = _as_terms(measurement)
        self.kl_weight = kl_weight
        self.gradient: Gradient = gradient
        self.num_samples = num_samples
        self.smoothing = smoothing
        self.batch_size = batch_size
        self.implementation: Implementation = implementation
        self.class_weights = as_class_weights(class_weights)
        self._warned = False

    @classmethod
    def everywhere(
        cls,
        prior: Prior,
        num_data: int,
        strength: float = STRENGTH,
        data_strength: float = DATA_STRENGTH,
        measurement: MeasurementLike | None = None,
        **options: Any,
    ) -> Self:
        """Build the recommended objective: a weak prior on the data, a strong one elsewhere.

        ``loss = mean −log f_y + data_strength · mean_batch KL + strength · mean_elsewhere KL``,
        for batches of any size. See docs/elsewhere.md for its effect on accuracy and uncertainty.

        Args:
            prior: as in the constructor.
            num_data: as in the constructor.
            strength: weight of the KL at the points elsewhere.
            data_strength: weight of the KL on the batch.
            measurement: points elsewhere; ``None`` is :class:`felbo.measurement.Elsewhere`.
            options: further arguments of the constructor, such as ``num_samples``.

        Example:
            >>> import felbo
            >>> objective = felbo.FunctionSpaceELBO.everywhere(felbo.UniformPrior(3), num_data=100)
            >>> [term.weight for term in objective.terms]
            [0.001, 0.03]
        """
        sets = everywhere_sets(strength, data_strength, measurement)
        return cls(prior, num_data, [Term(*part) for part in sets], kl_weight=1.0, **options)

    def __call__(self, model: StochasticClassifier, x: Inputs, y: Tensor) -> Loss:
        """Return the loss of ``model`` on inputs ``x [B, ...]`` and labels ``y [B]``."""
        points = [points_of(t.measurement, x, self._comparison(model, t)) for t in self.terms]
        with_batch = [term.measurement.includes_batch for term in self.terms]
        if self.gradient == "partial" and is_sharded(model):
            return loss_over_members(self, model, x, y, points)
        # One pass, so that each draw is the same function in the NLL and in every KL.
        batch, measured = forward_once(model, x, points, with_batch, self.num_samples)
        weight = self.weight_of_kl(batch)
        total, nll, kl = self.bound(batch, y, *measured[0], self.terms[0], weight)
        for term, (logits, places) in zip(self.terms[1:], measured[1:], strict=True):
            more = term.weight * self.divergence(logits, places, term.prior).mean()
            total, kl = torch.add(total, more, alpha=weight), kl + more
        return Loss(total, nll, kl)

    def bound(
        self, batch: Tensor, y: Tensor, logits: Tensor, points: Inputs, term: Term, weight: float
    ) -> Loss:
        """Return the loss with one term: the expected NLL of the batch plus its weighted KL.

        Args:
            batch: draws at the batch ``[M, B, K]``.
            y: its labels ``[B]``.
            logits: draws at the points of the term ``[M, S, K]``.
            points: their inputs ``[S, ...]``.
            term: gives weight and prior.
            weight: of the KL of all terms.
        """
        if logits is batch and self.class_weights is None and self.uses_fused(batch):
            # The same as below, from one softmax.
            at = (*self.prior_at(points, term.prior, batch), weight * term.weight)
            with CheckedLabels(y, batch):
                total, nll, kl = fused.bound(batch, y.long(), *at, self.smoothing, self.gradient)
            return Loss(total, nll, kl if term.weight == 1.0 else term.weight * kl)
        nll = expected_nll(batch, y, self.class_weights)
        kl = term.weight * self.divergence(logits, points, term.prior).mean()
        return Loss(torch.add(nll, kl, alpha=weight), nll, kl)

    def divergence(self, logits: Tensor, points: Inputs, prior: Prior | None = None) -> Tensor:
        """Return the KL from the prior at each of the points.

        Args:
            logits: draws ``[M, S, K]``.
            points: their inputs ``[S, ...]``.
            prior: ``None`` is that of the objective.

        Returns:
            ``[S]`` in the precision of the logits.
        """
        beta, cap = self.prior_at(points, prior, logits)
        kl = fused.function_space_kl if self.uses_fused(logits) else function_space_kl
        return kl(logits, beta, cap, self.smoothing, self.gradient)

    def prior_at(self, points: Inputs, prior: Prior | None, logits: Tensor) -> tuple[Tensor, float]:
        """Return β at the points of the logits, and the upper bound of the precision."""
        beta = concentration_at(self.prior if prior is None else prior, points)
        check_prior(beta, *logits.shape[1:])
        return beta.to(logits.device), float(max(self.num_data, logits.shape[-1]))

    def _comparison(self, model: StochasticClassifier, term: Term) -> Comparison:
        """Return model and divergence of this step, for measurement sets that use them."""

        def divergence(points: Tensor) -> Tensor:
            logits = forward_points(model, points, self.num_samples)
            return self.divergence(logits, points, term.prior)

        return Comparison(model, divergence)

    def uses_fused(self, logits: Tensor) -> bool:
        """Whether the KL of these logits is computed by the fused version."""
        # The fused version does not support torch.func transforms, and is not accurate to float64.
        plain = torch.func.debug_unwrap(logits) is not logits or logits.dtype == torch.float64
        applies = self.gradient == "partial" and self.smoothing > 0 and not plain
        return applies if self.implementation == "auto" else self.implementation == "fused"

    def weight_of_kl(self, batch: Tensor) -> float:
        """Return the weight of the KL for logits ``[M, B, K]`` of the batch."""
        _, items, classes = batch.shape
        # A larger batch in validation is no training step.
        self.full_batch = max(self.full_batch, items if torch.is_grad_enabled() else 0)
        size = self.batch_size or self.full_batch or items or 1
        weight = 1.0 / size if self.kl_weight == "batch" else self.kl_weight
        if not self._warned and items > 1:  # a single item may be the rest of a training set
            self._warned = True
            on_batch = sum(term.weight for term in self.terms if term.measurement.includes_batch)
            warn_if_flat(weight * on_batch, classes)
        return weight


def _as_terms(measurement: MeasurementLike | Sequence[Term] | None) -> tuple[Term, ...]:
    """Convert the argument ``measurement`` to a tuple of terms."""
    if not isinstance(measurement, Sequence):
        return (Term(as_measurement_set(measurement)),)
    if not measurement or not all(isinstance(term, Term) for term in measurement):
        raise InputTypeError(
            "measurement must be a measurement set, or a sequence of felbo.Term(set, weight, "
            f"prior) with at least one; got {measurement!r}."
        )
    for term in measurement:
        check_weight("The weight of a term", term.weight)
    return tuple(t._replace(measurement=as_measurement_set(t.measurement)) for t in measurement)
