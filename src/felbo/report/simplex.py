"""Draws of class probabilities, their mean and the fitted Dirichlet on the 2-simplex."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import Patch
from matplotlib.tri import Triangulation, UniformTriRefiner
from numpy.typing import NDArray
from scipy.stats import dirichlet

from felbo.report.style import PALETTE, new_figure, save

Array = NDArray[np.floating[Any]]

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]])
# Probability mass inside each density contour.
SHARES = (0.95, 0.8, 0.5, 0.2)
SHADES = ("#F0F0F0", "#DDDDDD", "#C6C6C6", "#A8A8A8")


@dataclass(frozen=True)
class Triangle:
    """One panel: draws and the Dirichlet fitted to them.

    Attributes:
        title: above the panel.
        draws: class probabilities ``[M, 3]``.
        concentration: α ``[3]`` of the Dirichlet fitted to them.
    """

    title: str
    draws: Array
    concentration: Array


def draw_simplex(triangles: Sequence[Triangle], stem: str) -> Path:
    """Draw one triangle per set of draws and write ``stem.png`` and ``stem.svg``.

    Dots are draws, the cross is their mean, the shades are the regions of highest density of the
    fitted Dirichlet that hold 20, 50, 80 and 95 % of its probability.

    Returns:
        The path of the PNG file.
    """
    count = len(triangles)
    figure, axes = new_figure(1, count, figsize=(3.1 * count, 3.6), squeeze=False)
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.1, top=0.84, wspace=0.03)
    for axis, triangle in zip(axes[0], triangles, strict=True):
        _draw_triangle(axis, triangle)
    handles, names = axes[0][0].get_legend_handles_labels()
    handles += [Patch(facecolor=shade, edgecolor="0.5", linewidth=0.5) for shade in SHADES]
    names += [f"{share:.0%} of the fitted Dirichlet" for share in SHARES[:1]]
    names += [f"{share:.0%}" for share in SHARES[1:]]
    figure.legend(handles, names, loc="lower center", ncols=len(names), frameon=False)
    save(figure, stem)
    return Path(f"{stem}.png")


def _draw_triangle(axis: Any, triangle: Triangle) -> None:
    mesh, inside = _mesh()
    density = dirichlet.pdf(inside.T, triangle.concentration)
    levels = [*_levels(density), np.inf]
    axis.tricontourf(mesh, density, levels=levels, colors=SHADES)
    axis.tricontour(mesh, density, levels=levels[:-1], colors="0.5", linewidths=0.5)
    axis.plot(*np.vstack([CORNERS, CORNERS[:1]]).T, color="0.2", linewidth=1.0)
    axis.scatter(
        *(triangle.draws @ CORNERS).T,
        s=26,
        color=PALETTE[0],
        edgecolors="white",
        linewidths=0.6,
        zorder=3,
        label="draws",
    )
    axis.scatter(
        *(triangle.draws.mean(0) @ CORNERS),
        s=70,
        marker="X",
        color=PALETTE[1],
        edgecolors="white",
        linewidths=0.8,
        zorder=4,
        label="their mean",
    )
    _label(axis, triangle)


def _label(axis: Any, triangle: Triangle) -> None:
    alpha = ", ".join(f"{value:.1f}" for value in triangle.concentration)
    axis.set_title(f"{triangle.title}\n$\\alpha$ = ({alpha})", fontsize=11)
    for position, (corner, shift) in enumerate(
        zip(CORNERS, ((-0.02, -0.05), (0.02, -0.05), (0.0, 0.04)), strict=True), start=1
    ):
        axis.text(*(corner + shift), f"class {position}", ha="center", va="center", fontsize=9)
    axis.set_aspect("equal")
    axis.set(xlim=(-0.12, 1.12), ylim=(-0.1, 0.95), xticks=[], yticks=[])
    axis.spines[:].set_visible(False)


def _mesh() -> tuple[Triangulation, Array]:
    """Return a fine triangulation, and its nodes as probabilities moved off the edges."""
    mesh = UniformTriRefiner(Triangulation(*CORNERS.T)).refine_triangulation(subdiv=7)
    upper = mesh.y / CORNERS[2, 1]
    right = mesh.x - upper / 2
    probs = np.stack([1 - right - upper, right, upper], axis=1).clip(1e-4)
    return mesh, probs / probs.sum(1, keepdims=True)


def _levels(density: Array) -> list[float]:
    """Return the density levels whose superlevel sets hold ``SHARES`` of the probability."""
    ordered = np.sort(density)[::-1]
    held = np.cumsum(ordered) / ordered.sum()
    return [float(ordered[np.searchsorted(held, share)]) for share in SHARES]
