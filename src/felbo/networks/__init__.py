"""Plain networks: they give logits and know nothing of uncertainty."""

from felbo.networks.mlp import mlp

__all__ = ["mlp"]
