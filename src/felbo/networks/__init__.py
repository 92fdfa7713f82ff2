"""Plain networks that return logits: MLP and ResNets."""

from felbo.networks.compact import compact
from felbo.networks.mlp import mlp
from felbo.networks.resnet import resnet18
from felbo.networks.resnet_cifar import load_resnet_cifar, resnet_cifar

__all__ = ["compact", "load_resnet_cifar", "mlp", "resnet18", "resnet_cifar"]
