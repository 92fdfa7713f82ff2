"""Figure of a sweep of :func:`felbo.choose_strength`: loss on validation data against AUROC."""

from __future__ import annotations

from typing import Any

from felbo.report.style import PALETTE, new_figure, save
from felbo.training.strength import StrengthChoice


def draw_strength(choice: StrengthChoice, stem: str) -> None:
    """Draw loss on validation data against AUROC elsewhere; write ``stem.png`` and ``stem.svg``.

    Left: the log-likelihood lost against the AUROC of points elsewhere, one dot per strength; dots
    right of the dashed line lose more than allowed. Right: the same for accuracy. The chosen
    strength is circled.
    """
    figure, axes = new_figure(1, 2, figsize=(9.2, 4.0), sharey=True)
    limits = {
        "nats": ("log-likelihood lost (nats)", choice.max_nats),
        "points": ("accuracy lost (%)", choice.max_points),
    }
    for axis, (column, (label, limit)) in zip(axes, limits.items(), strict=True):
        _draw(axis, choice, column)
        axis.axvline(limit, color="grey", linestyle="--", linewidth=1)
        axis.set(xlabel=f"{label} on validation data")
    axes[0].set(ylabel="AUROC of points elsewhere")
    figure.suptitle(f"Chosen strength: {choice.strength:g}")
    figure.tight_layout()
    save(figure, stem)


def _draw(axis: Any, choice: StrengthChoice, column: str) -> None:
    x = [getattr(trial, column) for trial in choice.trials]
    y = [trial.auroc for trial in choice.trials]
    axis.plot(x, y, color=PALETTE[0], marker="o", linewidth=1)
    for trial, across, up in zip(choice.trials, x, y, strict=True):
        axis.annotate(
            f"{trial.strength:g}", (across, up), textcoords="offset points", xytext=(5, -11)
        )
        if trial.strength == choice.strength:
            axis.plot(
                [across], [up], marker="o", markersize=14, markerfacecolor="none", color=PALETTE[1]
            )
