"""Predictions with known flaws, shared by the tests of this folder."""

import numpy as np
import torch


def overconfident(size=400, classes=4, seed=0, scale=2.0):
    """Probabilities ``[B, K]``, and labels that follow a flatter law than predicted."""
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(size, classes))
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    flatter = probs**0.5 / (probs**0.5).sum(-1, keepdims=True)
    labels = (flatter.cumsum(-1) < rng.random((size, 1))).sum(-1)
    return torch.tensor(probs), torch.tensor(np.minimum(labels, classes - 1))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)
