"""Temperature scaling of a model on held-out data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from felbo.errors import DataError
from felbo.evaluation.labelled import LabelledData, labelled_batches
from felbo.inputs import explained, map_tensors
from felbo.models import evaluation_mode, unwrap
from felbo.models.tempered import Tempered, TemperedMean, log_mean
from felbo.objectives.checks import check_choice, check_label_range
from felbo.objectives.forward import checked
from felbo.random import torch_seed

Of = Literal["draws", "mean"]

# Search grid of temperatures, in units of the range of the logits.
_LOWEST, _HIGHEST, _GRID = 1e-4, 1e4, 65


@torch.no_grad()
def calibrate(
    model: nn.Module,
    held_out: LabelledData,
    *,
    of: Of = "draws",
    num_samples: int | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
) -> Tempered:
    """Return the model with the temperature that maximises the likelihood of held-out labels.

    ``T = argmin −mean_i log p_T(y_i | x_i)`` (Guo et al., 2017), with

    - ``of="draws"``: ``p_T = mean_m softmax(logits_m / T)``. The model keeps its draws and its
      epistemic uncertainty;
    - ``of="mean"``: ``p_T ∝ (mean_m softmax(logits_m))^{1/T}``. The result has a single draw.

    For a single draw both are the same. The most probable class of the mean never changes with
    ``"mean"``, and of each draw never with ``"draws"``. The likelihood of a single function is
    concave in 1 / T, and the search is over log T: on a grid, then between the neighbours of its
    best point.

    Args:
        model: a trained stochastic classifier; the result shares its weights.
        held_out: ``(x, y)``, a ``DataLoader`` or a ``Dataset``, **not** seen in training: a model
            is more confident, and more often right, on data that it was trained on.
        of: temper each draw, or the mean prediction.
        num_samples: draws; ``None`` takes the model's evaluation default.
        batch_size: inputs per forward pass; ``None`` is that of :func:`felbo.predict`. All logits
            ``[M, B, K]`` are held in memory.
        seed: of the draws; ``None`` is torch's global generator.

    Returns:
        :class:`Tempered` or :class:`TemperedMean`: a model like any other, for
        :func:`felbo.predict`, :func:`felbo.evaluate` and attacks, with the attribute
        ``temperature``.

    Raises:
        ValueError: if the best temperature is 0 (no held-out item is misclassified) or infinite
            (the model is no better than chance).

    Example:
        A network that is three times as confident as it should be.

        >>> import torch, felbo
        >>> logits = torch.randn(2000, 4, generator=torch.Generator().manual_seed(0))
        >>> y = torch.distributions.Categorical(logits=logits).sample()
        >>> calibrated = felbo.calibrate(felbo.MAP(torch.nn.Identity()), (3 * logits, y))
        >>> abs(float(calibrated.temperature) - 3) < 0.3
        True
    """
    check_choice("of", of, ("draws", "mean"))
    inner = unwrap(model)
    samples = 1 if inner.gives_concentration else num_samples
    with evaluation_mode([model]), torch_seed(seed):
        logits, labels = _logits(model, held_out, samples, batch_size)
    if of == "mean":
        temperature = best_temperature(log_mean(logits).unsqueeze(0), labels)
        return TemperedMean(inner, temperature, num_samples)
    return Tempered(inner, best_temperature(logits, labels))


def best_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return ``argmin_T −mean_i log mean_m softmax(logits_m / T)_{y_i}``.

    Args:
        logits: of M draws ``[M, B, K]``.
        labels: ``[B]``.

    Example:
        Three of four right at a logit of 2 for two classes: ``2 / T = log 3``.

        >>> import torch
        >>> logits = torch.tensor([[[2.0, 0.0]]]).expand(1, 4, 2)
        >>> round(best_temperature(logits, torch.tensor([0, 0, 0, 1])) * math.log(3), 6)
        2.0
    """
    # Imported lazily, like every part of scipy.
    from scipy.optimize import minimize_scalar

    logits = logits.double()
    unit = float((logits.amax(-1) - logits.amin(-1)).mean())
    if not 0.0 < unit < math.inf:
        raise DataError(
            "There is no best temperature: the logits "
            + ("are all equal." if unit == 0.0 else "are not finite.")
        )
    loss = tempered_nll(logits / unit, labels)
    grid = torch.linspace(math.log(_LOWEST), math.log(_HIGHEST), _GRID).tolist()
    values = [loss(point) for point in grid]
    best = min(range(len(grid)), key=values.__getitem__)
    _check_inside(best, values)
    found = minimize_scalar(
        loss, bounds=(grid[best - 1], grid[best + 1]), method="bounded", options={"xatol": 1e-9}
    )
    return unit * math.exp(float(found.x))


def tempered_nll(
    logits: Tensor, labels: Tensor, weights: Tensor | None = None
) -> Callable[[float], float]:
    """Return ``log T ↦ −mean_i log mean_m softmax(logits_m / T)_{y_i}``.

    Args:
        logits: of M draws ``[M, B, K]``.
        labels: ``[B]``.
        weights: how much each item counts in the mean ``[B]``; ``None`` is equally.
    """
    index = labels.expand(logits.shape[:2]).unsqueeze(-1)
    shares = None if weights is None else weights / weights.sum()

    def negative_log_likelihood(log_temperature: float) -> float:
        log_probs = (logits * math.exp(-log_temperature)).log_softmax(-1)
        of_label = log_probs.gather(-1, index).squeeze(-1).logsumexp(0)
        mean = of_label.mean() if shares is None else shares @ of_label
        return math.log(len(logits)) - float(mean)

    return negative_log_likelihood


def _check_inside(best: int, values: list[float]) -> None:
    """Raise if the best temperature is at an end of the grid."""
    if best == 0:
        raise DataError(
            "There is no best temperature: the likelihood grows as T goes to 0, since the model "
            "misclassifies no held-out item. Hold out more data, or leave the model as it is."
        )
    if best == len(values) - 1:
        raise DataError(
            "There is no best temperature: the likelihood grows as T goes to infinity, since the "
            "model does no better than chance on the held-out data. Do labels and classes agree?"
        )


def _logits(
    model: nn.Module, data: LabelledData, num_samples: int | None, batch_size: int | None
) -> tuple[Tensor, Tensor]:
    """Return logits ``[M, B, K]`` and labels ``[B]``; raise if logits are not finite."""
    device = next(model.parameters(), torch.empty(0)).device
    logits, labels = [], []
    for x, y in labelled_batches(data, batch_size, model):
        x = map_tensors(lambda part: part.to(device), x)
        with explained(x, model):
            batch = checked(model(x, num_samples), len(y))
        check_label_range(y.cpu(), batch.shape[-1])
        logits.append(batch.cpu())
        labels.append(y.cpu().long())
    if not labels:
        raise DataError("The held-out data are empty: there is nothing to calibrate on.")
    joined = torch.cat(logits, dim=1)
    if not bool(joined.isfinite().all()):
        raise DataError(
            "The model's logits on the held-out data are not finite: do the inputs hold NaN?"
        )
    return joined, torch.cat(labels)
