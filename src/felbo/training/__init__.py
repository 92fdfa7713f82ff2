"""The training loop, fine-tuning, and the choice of a prior's strength."""

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
