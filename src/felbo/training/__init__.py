"""The training loop."""

from felbo.training.adam import Adam
from felbo.training.batches import TensorBatches
from felbo.training.finetune import finetune
from felbo.training.loop import History, fit

__all__ = ["Adam", "History", "TensorBatches", "finetune", "fit"]
