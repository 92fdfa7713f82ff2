"""All experiments by name: those of the paper and our own."""

from __future__ import annotations

from felbo.paper.catalogue import PICTURES
from felbo.paper.catalogue import STUDIES as PAPER_STUDIES
from felbo.paper.study import Study
from felbo.studies import (
    finetune_cifar,
    finetune_rates,
    mixtures,
    parts,
    strengths,
    tables,
    unknown_shift,
)

OWN: dict[str, Study] = {
    study.name: study
    for study in (
        mixtures.STUDY,
        parts.STUDY,
        strengths.STUDY,
        unknown_shift.MNIST,
        unknown_shift.FASHION,
        tables.STUDY,
        finetune_cifar.STUDY,
        finetune_rates.STUDY,
    )
}
STUDIES: dict[str, Study] = {**PAPER_STUDIES, **OWN}

__all__ = ["OWN", "PICTURES", "STUDIES"]
