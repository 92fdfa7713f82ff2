"""A network that predicts the concentration parameters of a Dirichlet."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from felbo.errors import InputTypeError, SettingError
from felbo.inputs import Inputs
from felbo.models._wrapping import own_copy
from felbo.models.base import StochasticClassifier
from felbo.models.unwrap import unwrap

Link = Literal["exp", "relu"]

# log α equals the logit up to this magnitude: α from 4.5e-5 to 22,026.
KNEE = 10.0


class ConcentrationNetwork(StochasticClassifier):
    """A network that predicts a Dirichlet over class probabilities: ``x -> α(x)``.

    ``"exp"``: log α = logit where ``|logit| ≤ 10``, and ``±(10 + log(1 + |logit| − 10))`` beyond.
    The logarithmic tails keep exp from overflowing: α stays finite and its gradient never
    vanishes.

    ``"relu"``: α = relu(logit) + 1.

    As a stochastic classifier it has one draw, the mean of its Dirichlet, with logits log α:
    ``softmax(log α) = α / z``. So it trains and predicts like every other model; the objectives for
    concentrations use α itself, and :func:`felbo.predict` reports it instead of fitting one.

    Args:
        network: any module that maps ``[B, ...]`` to ``[B, K]``. It is copied.
        link: maps the network's output to α; ``"exp"`` for Belief Matching and Prior Networks,
            ``"relu"`` for evidential learning as published (zero gradient where all logits are
            below 0).

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
    gives_concentration = True

    def __init__(self, network: nn.Module, link: Link = "exp") -> None:
        super().__init__()
        if link not in ("exp", "relu"):
            raise SettingError(f"link must be 'exp' or 'relu', got {link!r}.")
        self.network = own_copy(network)
        self.link: Link = link
        self._take_mode_of(self.network)

    @property
    def is_random(self) -> bool:
        """False: every draw is the mean of the Dirichlet."""
        return False

    def settings(self) -> dict[str, Any]:
        """Return the link: the same weights with another link are another model."""
        return {"link": self.link}

    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return log α as logits ``[M, B, K]``, the same for all M draws."""
        samples = self.resolve_samples(num_samples)
        log_alpha = self.log_concentration(x)
        return log_alpha.unsqueeze(0).expand(samples, -1, -1)

    def log_concentration(self, x: Inputs) -> Tensor:
        """Return log α ``[B, K]``."""
        logits = self.checked(self.run_network(self.network, x))
        if self.link == "relu":
            return logits.relu().log1p()
        excess = (logits.abs() - KNEE).clamp(min=0)
        return logits.clamp(-KNEE, KNEE) + logits.sign() * excess.log1p()


def concentration_of(model: nn.Module, x: Inputs) -> Tensor:
    """Return α ``[B, K]`` in float64, for objectives in closed form.

    The terms of the KL between Dirichlets grow like ``z log z`` and cancel to the order of log z;
    in float32 too few digits are left once z exceeds a few thousand.

    Args:
        model: a model that predicts a concentration, or a wrapper around it (Fabric, DDP). Only
            ``model(...)`` is called, so that a wrapper's hooks run.
        x: inputs ``[B, ...]``.

    Raises:
        TypeError: if the model does not predict a concentration.
    """
    inner = unwrap(model)
    if not inner.gives_concentration:
        raise InputTypeError(
            "This objective trains a network whose outputs are concentrations, got "
            f"{type(inner).__name__}: wrap the network as felbo.ConcentrationNetwork(network)."
        )
    log_alpha: Tensor = model(x, 1)
    return log_alpha.squeeze(0).to(torch.float64).exp()
