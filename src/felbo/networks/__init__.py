"""Plain networks: they give logits and know nothing of uncertainty."""

from felbo.networks.mlp import mlp
from felbo.networks.resnet import resnet18

__all__ = ["mlp", "resnet18"]
