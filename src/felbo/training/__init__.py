"""Training loop, fine-tuning, and selection of the prior's strength."""

from felbo.training.batches import TensorBatches
from felbo.training.before_after import BeforeAfter, compare_before_after
from felbo.training.checkpoint import Checkpoint
from felbo.training.finetune import finetune
from felbo.training.fit import fit
from felbo.training.history import Epoch, History, ValidationScores
from felbo.training.interrupts import TrainingInterrupted
from felbo.training.loop import Training, train
from felbo.training.stopping import StopTraining
from felbo.training.strength import StrengthChoice, choose_strength

__all__ = [
    "BeforeAfter",
    "Checkpoint",
    "Epoch",
    "History",
    "StopTraining",
    "StrengthChoice",
    "TensorBatches",
    "Training",
    "TrainingInterrupted",
    "ValidationScores",
    "choose_strength",
    "compare_before_after",
    "finetune",
    "fit",
    "train",
]
