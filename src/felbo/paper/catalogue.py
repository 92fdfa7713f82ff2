"""The experiments by name."""

from __future__ import annotations

from felbo.paper import hypercube, rotated_mnist
from felbo.paper.study import Study

STUDIES: dict[str, Study] = {
    study.name: study for study in (rotated_mnist.STUDY, hypercube.HYPERCUBE, hypercube.BETAS)
}
