"""Dirichlets fitted to draws on the simplex: equal means, different precision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from felbo import dirichlet
from felbo._files import require_writable
from felbo.report.simplex import Triangle, draw_simplex

SEED = 123
DRAWS = 20

# Concentration from which the draws of each panel are sampled. The first two have the same mean and
# differ in their spread.
SOURCES: dict[str, tuple[float, float, float]] = {
    "draws that agree": (40.0, 30.0, 30.0),
    "draws that disagree": (2.0, 1.5, 1.5),
    "draws near a corner": (24.0, 2.5, 2.5),
}


def simplex(out: Path, jobs: int = 1) -> Path:
    """Draw three sets of draws with the Dirichlets fitted to them; one process is enough."""
    require_writable(out)
    generator = np.random.default_rng(SEED)
    triangles = []
    for title, concentration in SOURCES.items():
        draws = generator.dirichlet(concentration, DRAWS)
        fitted = dirichlet.fit(torch.from_numpy(draws)).concentration
        triangles.append(Triangle(title, draws, fitted.numpy()))
    return draw_simplex(triangles, str(out / "simplex"))
