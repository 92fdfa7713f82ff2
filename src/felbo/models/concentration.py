"""A network whose outputs are the concentration of a Dirichlet."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Tensor, nn

from felbo.models.base import StochasticClassifier

Link = Literal["exp", "relu"]

# Up to here log α is the logit itself: α from 4.5e-5 to 22,026.
KNEE = 10.0


class ConcentrationNetwork(StochasticClassifier):
    """A network that gives a Dirichlet over class probabilities in one pass: ``x -> α(x)``.

    ``"exp"``: log α = logit where ``|logit| ≤ 10``, and ``±(10 + log(1 + |logit| − 10))`` beyond.
    The logarithmic tails take exp's place before it overflows: α stays finite and its gradient
    never dies.

    ``"relu"``: α = relu(logit) + 1.

    As a stochastic classifier it has one function, the mean of its Dirichlet, with logits log α:
    ``softmax(log α) = α / z``. So it trains and predicts like every other model; the objectives for
    concentrations read all of α, and :func:`felbo.predict` reports it instead of fitting one.

    Args:
        network: any module that maps ``[B, ...]`` to ``[B, K]``. It is copied.
        link: from the network's output to α; ``"exp"`` for Belief Matching and Prior Networks,
            ``"relu"`` for evidential learning as published (dead where all logits start below 0).

    Example:
        >>> import torch, felbo
        >>> model = felbo.ConcentrationNetwork(felbo.networks.mlp(2, (25, 25), 3))
        >>> model.concentration(torch.zeros(4, 2)).shape
        torch.Size([4, 3])
        >>> model(torch.zeros(4, 2)).shape
        torch.Size([1, 4, 3])
    """

    training_samples = 1
    evaluation_samples = 1

    def __init__(self, network: nn.Module, link: Link = "exp") -> None:
        super().__init__()
        if link not in ("exp", "relu"):
            raise ValueError(f"link must be 'exp' or 'relu', got {link!r}.")
        self.network = copy.deepcopy(network)
        self.link: Link = link

    def forward(self, x: Tensor, num_samples: int | None = None) -> Tensor:
        """Return log α as logits ``[M, B, K]``, the same for all M draws."""
        samples = self.resolve_samples(num_samples)
        log_alpha = self.log_concentration(x)
        return log_alpha.unsqueeze(0).expand(samples, *log_alpha.shape)

    def log_concentration(self, x: Tensor) -> Tensor:
        """Return log α ``[B, K]``."""
        logits: Tensor = self.network(x)
        if self.link == "relu":
            return logits.relu().log1p()
        excess = (logits.abs() - KNEE).clamp(min=0)
        return logits.clamp(-KNEE, KNEE) + logits.sign() * excess.log1p()

    def concentration(self, x: Tensor) -> Tensor:
        """Return α ``[B, K]``."""
        return self.log_concentration(x).exp()


def concentration_of(model: nn.Module, x: Tensor) -> Tensor:
    """Return α ``[B, K]`` in float64, for an objective with a closed form.

    The terms of a divergence between Dirichlets grow like ``z log z`` and cancel to the size of
    log z, which float32 does not survive from z of a few thousand on.

    Args:
        model: a :class:`ConcentrationNetwork`, or a wrapper (Fabric, DDP) that shows it as
            ``module``. It is called, never its methods, so that a wrapper sees the pass.
        x: inputs ``[B, ...]``.

    Raises:
        TypeError: if the model is of another kind.
    """
    inner = model
    while not isinstance(inner, ConcentrationNetwork):
        wrapped = getattr(inner, "module", None)
        if not isinstance(wrapped, nn.Module):
            raise TypeError(
                "This objective trains a network whose outputs are concentrations, got "
                f"{type(inner).__name__}: wrap the network as felbo.ConcentrationNetwork(network)."
            )
        inner = wrapped
    log_alpha: Tensor = model(x, 1)
    return log_alpha.squeeze(0).to(torch.float64).exp()
