"""Brightness, contrast and saturation, in closed form.

With V = max(R, G, B) and m = min(R, G, B), a colour has value V and saturation S = (V − m) / V. At
a fixed hue each channel is V (1 − S t), where t = (V − channel) / (V − m) depends on the hue alone.
Changing V or S therefore needs no conversion to HSV and back. Grey has no hue and is given that of
red, t = (0, 1, 1), as the usual conversions do.
"""

import torch
from torch import Generator, Tensor

__all__ = ["brightness", "contrast", "saturate"]

BRIGHTNESS_SHIFT = (0.05, 0.1, 0.15, 0.2, 0.3)
CONTRAST_FACTOR = (0.75, 0.5, 0.4, 0.3, 0.15)
# In the published order: severities 1 and 2 desaturate, 3 to 5 saturate.
SATURATION_FACTOR_AND_SHIFT = ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2))


def brightness(x: Tensor, severity: int, generator: Generator | None = None) -> Tensor:
    """Raise V by a constant, up to 1, at fixed hue and saturation. Not random."""
    value = x.amax(1, keepdim=True)
    raised = (value + BRIGHTNESS_SHIFT[severity - 1]).clamp(max=1.0)
    # Black has no colour to keep: it becomes grey of the raised value.
    return torch.where(value > 0, x * (raised / value.clamp(min=1e-9)), raised)


def contrast(x: Tensor, severity: int, generator: Generator | None = None) -> Tensor:
    """x̄ + c (x − x̄), x̄ the mean of the channel over the image. Not random."""
    mean = x.mean((2, 3), keepdim=True)
    return mean + CONTRAST_FACTOR[severity - 1] * (x - mean)


def saturate(x: Tensor, severity: int, generator: Generator | None = None) -> Tensor:
    """S' = clip(a S + b, 0, 1) at fixed hue and value. Not random.

    From b > 0 on (severities 4 and 5) grey turns reddish, as in the benchmark.
    """
    factor, shift = SATURATION_FACTOR_AND_SHIFT[severity - 1]
    value, darkest = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    spread = value - darkest
    saturation = spread / value.clamp(min=1e-9)
    tint = torch.where(
        spread > 0,
        (value - x) / spread.clamp(min=1e-9),
        torch.tensor([0.0, 1.0, 1.0]).view(1, 3, 1, 1),
    )
    return value * (1.0 - (factor * saturation + shift).clamp(0.0, 1.0) * tint)
