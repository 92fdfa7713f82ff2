"""Training loop, fine-tuning, and selection of the prior's strength."""

from felbo.training.batches import TensorBatches
from felbo.training.before_after import BeforeAfter, compare_before_after
from felbo.training.finetune import finetune
from felbo.training.loop import History, fit
from felbo.training.strength import StrengthChoice, choose_strength

__all__ = [
    "BeforeAfter",
    "History",
    "StrengthChoice",
    "TensorBatches",
    "choose_strength",
    "compare_before_after",
    "finetune",
    "fit",
]
