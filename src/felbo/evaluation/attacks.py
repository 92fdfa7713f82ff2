"""Adversarial attacks (FGSM, PGD) on the mean prediction of a stochastic classifier.

Both attacks maximise the log odds against the label under the mean predictive
``p̄(y | x) = mean_m softmax(logits_m)_y``,

``L(x) = log (1 − p̄(y | x)) − log p̄(y | x)``,

whose gradient has the sign of that of the negative log-likelihood ``−log p̄(y | x)``, but does not
vanish where a confident model's p̄ rounds to 1. It averages the gradients of the draws (expectation
over transformation: Athalye et al., 2018, "Obfuscated Gradients Give a False Sense of Security"),
so that random weights do not mask the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from felbo._numbers import refuse_booleans, whole_number
from felbo.errors import DataError, InputTypeError, SettingError
from felbo.evaluation._ball import PerChannel, ball_around
from felbo.models import StochasticClassifier
from felbo.models.modes import evaluation_mode
from felbo.objectives.checks import check_label_kind, check_label_range
from felbo.random import torch_seed


@torch.inference_mode(False)
@torch.enable_grad()
def fgsm(
    model: StochasticClassifier,
    x: Tensor,
    y: Tensor,
    epsilon: float,
    *,
    std: PerChannel | None = None,
    low: PerChannel | None = None,
    high: PerChannel | None = None,
    num_samples: int | None = None,
    batch_size: int = 256,
    seed: int | None = None,
) -> Tensor:
    """Fast gradient sign method: ``x + ε sign ∇L(x)`` (Goodfellow et al., 2015).

    The model runs in evaluation mode; its modes, gradients and running statistics are restored.

    Args:
        model: a stochastic classifier; wrap a plain network as ``felbo.MAP(network)``.
        x: inputs ``[B, C, ...]``.
        y: their labels ``[B]``.
        epsilon: ε, the change of every value, in the units of x, or in those of the pixels before
            normalisation if ``std`` is given. 0 returns x unchanged.
        std: the standard deviations by which pixels were divided, one per channel: every value then
            changes by ``ε / std_c``.
        low: smallest valid value in the units of x, one for all or one per channel; ``None``: any.
        high: largest valid value.
        num_samples: draws per gradient; ``None`` takes the model's evaluation default.
        batch_size: inputs per pass.
        seed: of the draws, those of ``felbo.predict`` with the same seed and batch size; ``None``
            is torch's global generator.

    Returns:
        New inputs ``[B, C, ...]`` on the model's device, without gradient.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MAP(felbo.networks.mlp(2, (8,), 3))
        >>> x, y = torch.rand(5, 2), torch.tensor([0, 1, 2, 0, 1])
        >>> adversarial = fgsm(model, x, y, 0.1, low=0.0, high=1.0)
        >>> bool((adversarial - x).abs().max() <= 0.1 + 1e-6)
        True

        In units of CIFAR-10's pixels in [0, 1], for a model of normalised images:

        >>> info = felbo.data.dataset_info("cifar10")
        >>> black = [-mean / std for mean, std in zip(info.mean, info.std)]
        >>> white = [(1 - mean) / std for mean, std in zip(info.mean, info.std)]
        >>> settings = {"std": info.std, "low": black, "high": white}
        >>> model = felbo.MAP(felbo.networks.compact(10, width=2))
        >>> image = torch.zeros(1, 3, 32, 32)
        >>> adversarial = fgsm(model, image, torch.tensor([3]), 8 / 255, **settings)
    """
    target = _target(model, x, y, num_samples, batch_size)
    ball = ball_around(x.to(target.y.device), epsilon, std, low, high)
    if epsilon == 0:
        return ball.centre.clone()
    with evaluation_mode([model]), torch_seed(seed):
        return ball.move(ball.centre, target.ascent(ball.centre), epsilon)


@torch.inference_mode(False)
@torch.enable_grad()
def pgd(
    model: StochasticClassifier,
    x: Tensor,
    y: Tensor,
    epsilon: float,
    *,
    steps: int = 20,
    step_size: float | None = None,
    restarts: int = 3,
    std: PerChannel | None = None,
    low: PerChannel | None = None,
    high: PerChannel | None = None,
    num_samples: int | None = None,
    batch_size: int = 256,
    seed: int | None = None,
) -> Tensor:
    """Projected gradient ascent in the ℓ∞ ball of radius ε (Madry et al., 2018).

    ``x ← clip(x + η sign ∇L(x))``, from a random point of the ball, with fresh draws in every step.

    For every item the point with the largest L among the results of all restarts and of
    :func:`fgsm` is returned. L is compared on the draws that ``felbo.predict`` takes with the same
    seed and batch size, so that on these PGD is at least as strong as FGSM; on other draws, only
    nearly so.

    Args:
        model: a stochastic classifier; it runs in evaluation mode, and its state is restored.
        x: inputs ``[B, C, ...]``.
        y: their labels ``[B]``.
        epsilon: ε, the radius, in the units of x, or of the pixels if ``std`` is given.
        steps: steps from each starting point.
        step_size: η in the units of ε; ``None`` takes ``2.5 ε / steps``, which reaches the boundary
            from anywhere in the ball.
        restarts: random starting points.
        std: as for :func:`fgsm`, like the remaining arguments.
        low: smallest valid value.
        high: largest valid value.
        num_samples: draws per gradient.
        batch_size: inputs per pass.
        seed: of starting points and draws; ``None`` takes one from torch's global generator.

    Returns:
        New inputs ``[B, C, ...]`` on the model's device, without gradient.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MCDropout(felbo.networks.mlp(2, (8,), 3))
        >>> x, y = torch.rand(5, 2), torch.tensor([0, 1, 2, 0, 1])
        >>> pgd(model, x, y, 0.1, steps=5, seed=0).shape
        torch.Size([5, 2])
    """
    target = _target(model, x, y, num_samples, batch_size)
    ball = ball_around(x.to(target.y.device), epsilon, std, low, high)
    step = 2.5 * epsilon / max(steps, 1) if step_size is None else step_size
    _check_search(steps, step, restarts, epsilon)
    if epsilon == 0:
        return ball.centre.clone()
    # Candidates are compared on the same draws, which requires a seed.
    seed = int(torch.randint(2**62, ())) if seed is None else seed
    with evaluation_mode([model]), torch_seed(seed):
        worst = ball.move(ball.centre, target.ascent(ball.centre), epsilon)
        highest = target.log_odds(worst, seed)
        for _ in range(restarts):
            point = ball.move(ball.centre, 2 * torch.rand_like(ball.centre) - 1, epsilon)
            for _ in range(steps):
                point = ball.move(point, target.ascent(point), step)
            found = target.log_odds(point, seed)
            better = (found > highest).view(-1, *[1] * (x.ndim - 1))
            worst, highest = torch.where(better, point, worst), torch.maximum(found, highest)
    return worst


class _Target(NamedTuple):
    """Target of an attack: the mean predictive of a model for given labels."""

    model: StochasticClassifier
    y: Tensor
    num_samples: int | None
    batch_size: int

    def ascent(self, points: Tensor) -> Tensor:
        """Return sign ∇L at ``points``, on fresh draws."""
        return self._batched(points, self._gradient).sign()

    def log_odds(self, points: Tensor, seed: int) -> Tensor:
        """Return L at ``points``, ``[B]``, on the draws of a seed."""
        with torch.no_grad(), torch_seed(seed):
            return self._batched(points, self._loss)

    def _batched(self, points: Tensor, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        batches = zip(
            torch.split(points, self.batch_size), torch.split(self.y, self.batch_size), strict=True
        )
        return torch.cat([function(x, y) for x, y in batches])

    def _gradient(self, x: Tensor, y: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        # Only with respect to x: the parameters' own .grad are not touched.
        (gradient,) = torch.autograd.grad(self._loss(x, y).sum(), x)
        if not gradient.isfinite().all():
            raise DataError(
                "The gradient with respect to the inputs is not finite. Check that x and the "
                "model's logits are finite."
            )
        return gradient

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        logits: Tensor = self.model(x, self.num_samples)
        check_label_range(y, logits.shape[-1])
        return _log_odds_against(logits, y)


def _log_odds_against(logits: Tensor, y: Tensor) -> Tensor:
    """Return ``log (1 − p̄_y) − log p̄_y``, ``[B]``, for draws of logits ``[M, B, K]``."""
    log_probs = logits.float().log_softmax(-1) if logits.itemsize < 4 else logits.log_softmax(-1)
    label = y.expand(logits.shape[:2]).unsqueeze(-1)
    right = log_probs.gather(-1, label).squeeze(-1)
    wrong = log_probs.scatter(-1, label, -math.inf)
    # Both are sums over draws instead of means; the factor 1 / M cancels.
    return wrong.logsumexp((0, 2)) - right.logsumexp(0)


def _target(
    model: StochasticClassifier, x: Tensor, y: Tensor, num_samples: int | None, batch_size: int
) -> _Target:
    if not isinstance(model, StochasticClassifier):
        raise InputTypeError(
            f"Attacks need a stochastic classifier, got {type(model).__name__}. Pass "
            "felbo.MAP(network), or felbo.Ensemble.from_networks(networks) for several."
        )
    if x.ndim < 2 or not x.is_floating_point():
        raise InputTypeError(
            "Expected inputs [B, C, ...] of a floating-point type, normalised as the model takes "
            f"them; got shape {list(x.shape)} of {x.dtype}."
        )
    check_label_kind(y, len(x))
    batch_size = whole_number("batch_size", batch_size)
    # A clone, since labels created in inference mode cannot be used with autograd.
    labels = y.to(next(model.parameters(), x).device, torch.int64).clone()
    return _Target(model, labels, num_samples, batch_size)


def _check_search(steps: int, step_size: float, restarts: int, epsilon: float) -> None:
    whole_number("steps", steps)
    whole_number("restarts", restarts)
    refuse_booleans(step_size=step_size)
    if not (math.isfinite(step_size) and (step_size > 0 or epsilon == 0)):
        raise SettingError(f"step_size must be positive and finite, got {step_size}.")
