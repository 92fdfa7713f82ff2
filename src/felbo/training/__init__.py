"""The training loop."""

from felbo.training.batches import TensorBatches
from felbo.training.finetune import finetune
from felbo.training.loop import History, fit

__all__ = ["History", "TensorBatches", "finetune", "fit"]
