"""Predictions of two-class models over a plane, one panel per model, with the training points."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import NDArray

from felbo.report.style import PALETTE, new_figure, save

Array = NDArray[np.floating[Any]]

CLASS_COLOURS = (PALETTE[0], PALETTE[1])
# Darker tones of the same colours, so that points stand out where the plane is saturated.
POINT_COLOURS = ("#003553", "#6A2F00")
POINT_MARKERS = ("o", "^")
# White is probability 0.5. Discrete bands can be counted like contour lines, and keep files small.
COLOUR_MAP = LinearSegmentedColormap.from_list(
    "two_classes", [CLASS_COLOURS[0], "#FFFFFF", CLASS_COLOURS[1]], N=21
)


def draw_planes(
    planes: Sequence[Sequence[Array]],
    stem: str,
    *,
    bounds: Sequence[tuple[float, float]],
    points: Array,
    labels: NDArray[np.integer[Any]],
    columns: Sequence[str],
    rows: Sequence[str],
) -> Path:
    """Draw the probability of class 1 over a plane, one panel each, and write PNG and SVG.

    Args:
        planes: panels by row; each ``[width, height]``, the probability at the points of a grid
            whose second coordinate varies fastest.
        stem: path of the files without their endings.
        bounds: ``(low, high)`` of both coordinates.
        points: the training points ``[N, 2]``.
        labels: their classes, 0 or 1.
        columns: a title for each column.
        rows: a label for each row; may be empty.

    Returns:
        The path of the PNG file.
    """
    (left, right), (bottom, top) = bounds
    width = 2.5
    height = width * (top - bottom) / (right - left)
    figure, axes = new_figure(
        len(rows),
        len(columns),
        figsize=(width * len(columns) + 1.0, height * len(rows) + 0.5),
        squeeze=False,
        layout="constrained",
    )
    for row, axis_row in zip(planes, axes, strict=True):
        for plane, axis in zip(row, axis_row, strict=True):
            image = axis.imshow(
                plane.T,
                origin="lower",
                extent=(left, right, bottom, top),
                cmap=COLOUR_MAP,
                vmin=0.0,
                vmax=1.0,
                interpolation="bilinear",
                interpolation_stage="data",
            )
            _draw_points(axis, points, labels)
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set(visible=True, color="0.6", linewidth=0.6)
    for axis, title in zip(axes[0], columns, strict=True):
        axis.set_title(title, fontsize=11)
    for axis, label in zip(axes[:, 0], rows, strict=True):
        axis.set_ylabel(label, fontsize=11)
    bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.015, ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.outline.set(edgecolor="0.6", linewidth=0.6)
    bar.set_label("probability of class 1")
    save(figure, stem)
    return Path(f"{stem}.png")


def _draw_points(axis: Any, points: Array, labels: NDArray[np.integer[Any]]) -> None:
    for label, (colour, marker) in enumerate(zip(POINT_COLOURS, POINT_MARKERS, strict=True)):
        chosen = points[labels == label]
        axis.scatter(
            *chosen.T, s=15, marker=marker, color=colour, edgecolors="white", linewidths=0.6
        )
