"""Prior that is the Dirichlet predicted by a trained model, such as that of an earlier task."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributions import Dirichlet

from felbo import dirichlet
from felbo._numbers import refuse_booleans
from felbo.errors import DataError, SettingError
from felbo.inputs import Inputs, batch_size, map_tensors, tensors
from felbo.models import unwrap
from felbo.models.copying import deep_copy
from felbo.models.unwrap import UNKNOWN_SIZE, known_size
from felbo.random import torch_seed


class ModelPrior:
    """The Dirichlet that a trained model predicts at x.

    ``β(x) = min(1, max_precision / Σ_k α_k) · α(x)``

    α(x) is the concentration of :func:`felbo.predict`: the Dirichlet fitted to the model's draws,
    with a precision of at most N, its number of training examples. So the prior is strong where the
    model knew, and weak where it did not. The posterior of one training becomes the prior of the
    next, as in continual learning.

    The model is copied, and the copy is in evaluation mode: training the model further does not
    change the prior. It is called in every step; a model with ten draws costs ten forward passes at
    the measurement points.

    Args:
        model: a trained stochastic classifier, also inside a wrapper (averaged, compiled).
        max_precision: upper bound of the prior's precision. Small values let new data overrule
            the old model; ``None`` keeps the fitted precision. Required for a model with a single
            draw that does not know its number of training examples.
        num_samples: draws; ``None`` takes the model's evaluation default.
        smoothing: γ with which draws are smoothed before the fit.
        seed: of the draws in every call; ``None`` is torch's global generator.

    Attributes:
        model: the copy.
        max_precision: changes take effect at the next call.

    Example:
        >>> import torch, felbo
        >>> x, y = torch.randn(64, 2), torch.arange(64) % 2
        >>> model = felbo.MAP(felbo.networks.mlp(2, (8,), 2))
        >>> history = felbo.fit(model, felbo.NegativeLogLikelihood(), (x, y), epochs=1,
        ...                     progress=False)
        >>> prior = felbo.ModelPrior(model, max_precision=20)
        >>> prior(x[:3]).concentration.sum(-1)
        tensor([20., 20., 20.])
    """

    def __init__(
        self,
        model: nn.Module,
        max_precision: float | None = None,
        *,
        num_samples: int | None = None,
        smoothing: float = 1e-4,
        seed: int | None = None,
    ) -> None:
        inner = unwrap(model)
        refuse_booleans(max_precision=max_precision, smoothing=smoothing)
        if max_precision is not None and not 0 < max_precision < float("inf"):
            raise SettingError(f"max_precision must be positive and finite, got {max_precision}.")
        if not 0.0 < smoothing < 1.0:
            raise SettingError(f"smoothing must lie in (0, 1), got {smoothing}.")
        one_draw = not inner.is_random and not inner.gives_concentration
        if one_draw and max_precision is None and known_size(model) is None:
            raise SettingError(
                f"This {type(inner).__name__} gives one draw, which has no precision, and does not "
                "know its number of training examples: pass max_precision, or train it with "
                "felbo.fit, which sets model.num_data."
            )
        self.model = deep_copy(model).eval().requires_grad_(False)
        self.max_precision = max_precision
        self.num_samples = num_samples
        self.smoothing = smoothing
        self.seed = seed

    @torch.no_grad()
    def __call__(self, x: Inputs) -> Dirichlet:
        """Return the prior at ``x [S, ...]``, batch shape [S]."""
        given = next(tensors(x)).device
        like = next(self.model.parameters(), torch.empty(0, device=given))

        def placed(part: torch.Tensor) -> torch.Tensor:
            cast = part.is_floating_point() and like.is_floating_point()
            return part.to(like.device, like.dtype if cast else part.dtype)

        points = map_tensors(placed, x)
        with torch_seed(self.seed):
            alpha = self._concentration(points)
        if self.max_precision is not None:
            alpha = alpha * (self.max_precision / alpha.sum(-1, keepdim=True)).clamp(max=1.0)
        return Dirichlet(alpha.to(given), validate_args=False)

    def _concentration(self, points: Inputs) -> torch.Tensor:
        """Return α ``[S, K]``."""
        inner = unwrap(self.model)
        samples = 1 if inner.gives_concentration else self.num_samples
        logits = self.model(points, num_samples=samples)
        _check_finite(logits, batch_size(points))
        if inner.gives_concentration:
            alpha: torch.Tensor = logits[0].exp()
            return alpha
        # All draws of a model without randomness are the same one.
        logits = logits if inner.is_random else logits[:1]
        probs = logits.double().softmax(-1)
        cap = float(max(known_size(self.model) or UNKNOWN_SIZE, probs.shape[-1]))
        fitted = dirichlet.fit(
            dirichlet.smooth(probs, self.smoothing), max_precision=cap, validate=False
        )
        return fitted.concentration.to(torch.promote_types(logits.dtype, torch.float32))


def _check_finite(logits: torch.Tensor, items: int) -> None:
    if not bool(logits.isfinite().all()):
        raise DataError(
            f"The prior's model gave logits that are not finite at some of {items} points: do the "
            "points hold NaN, or the model a weight that does?"
        )
