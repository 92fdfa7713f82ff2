"""One sheet with every corruption at every severity."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from torch import Tensor

from felbo._files import write_atomically
from felbo.data import BENCHMARK_CORRUPTIONS, CORRUPTIONS, SEVERITIES
from felbo.report.style import new_figure

__all__ = ["draw_corruptions"]

GAP = 2  # white pixels between pictures
LABEL_INCHES = 1.75
PICTURE_INCHES = 0.44


def draw_corruptions(sheet: dict[tuple[str, int], Tensor], clean: Tensor, path: Path) -> Path:
    """Draw a row for each corruption: a few images clean, then at severities 1 to 5.

    Args:
        sheet: (corruption, severity) to uint8 images [n, 3, H, W], the same n images in each.
        clean: These images before any corruption.
        path: The image file; its suffix sets the format.

    Returns:
        `path`.
    """
    titles = ["clean", *(f"severity {severity}" for severity in SEVERITIES)]
    width = LABEL_INCHES + len(titles) * (len(clean) * PICTURE_INCHES + 0.06)
    height = 0.35 + len(CORRUPTIONS) * (PICTURE_INCHES + 0.03)
    figure, axes = new_figure(len(CORRUPTIONS), len(titles), figsize=(width, height))
    for row, corruption in zip(axes, CORRUPTIONS, strict=True):
        strips = [clean, *(sheet[corruption, severity] for severity in SEVERITIES)]
        for axis, images in zip(row, strips, strict=True):
            axis.imshow(_strip(images), interpolation="nearest")
            axis.axis("off")
        extra = "" if corruption in BENCHMARK_CORRUPTIONS else " (extra)"
        label = corruption.replace("_", " ") + extra
        row[0].text(-0.05, 0.5, label, transform=row[0].transAxes, ha="right", va="center")
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=9)
    left, top = LABEL_INCHES / width, 1.0 - 0.3 / height
    figure.subplots_adjust(left, 0.005, 0.995, top, wspace=0.04, hspace=0.06)
    # High quality: JPEG artefacts are one of the corruptions shown and must not be added here.
    options = {"quality": 90, "subsampling": 0} if path.suffix in (".jpg", ".jpeg") else {}
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix[1:] or "png", dpi=100, pil_kwargs=options)
    write_atomically(path, picture.getvalue())
    return path


def _strip(images: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Images [n, 3, H, W] side by side as [H, n (W + gap) − gap, 3]."""
    count, _, height, width = images.shape
    strip = np.full((height, count * (width + GAP) - GAP, 3), 255, dtype=np.uint8)
    for number, image in enumerate(images):
        left = number * (width + GAP)
        strip[:, left : left + width] = image.permute(1, 2, 0).numpy()
    return strip
