"""Base class of the mean-field and radial posteriors: weights w = μ + σ ⊙ noise."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from felbo._numbers import refuse_booleans, whole_number
from felbo.errors import SettingError
from felbo.inputs import Inputs
from felbo.models._conversion import (
    WEIGHT_LAYERS,
    last_layer,
    selected_layers,
    unselected_modules,
)
from felbo.models._wrapping import own_copy, with_weights
from felbo.models.base import StochasticClassifier

_LAYERS = (*WEIGHT_LAYERS, nn.MultiheadAttention)
_PROJECTIONS = ("in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight", "v_proj_weight")
_KINDS = ("weight", "bias", *_PROJECTIONS)


class LayerPosterior(NamedTuple):
    """Location and scale of one layer's weights, each a list over its parameters."""

    names: list[str]
    mean: list[Tensor]
    scale: list[Tensor]


class LocationScale(StochasticClassifier):
    """A network whose converted layers have weights ``w = μ + σ ⊙ noise``, σ = softplus(ρ).

    A draw runs the copied network with sampled weights (``torch.func.functional_call``), so a layer
    keeps its stride, groups, dilation and padding. The weights are shared by the whole batch: a
    draw is one function. A subclass defines the distribution of the noise and the KL of one layer.

    μ are the copied network's own parameters; ``rho`` mirrors their names, so ρ of
    ``network.layer1.0.conv1.weight`` is ``rho.layer1.0.conv1.weight`` in the state dict.

    Args:
        network: any module that maps ``[B, ...]`` to logits ``[B, K]``. It is copied, and its
            weights initialise μ.
        skip: names of layers, or of modules that hold them, to keep deterministic.
        rho: initial value of every ρ.
        prior_std: standard deviation of the weight prior N(0, prior_std²).
        evaluation_samples: draws in evaluation mode.

    Attributes:
        converted: names of the layers with random weights.
        not_converted: names of the modules whose parameters stay deterministic.
    """

    draws_weights = True

    def __init__(
        self,
        network: nn.Module,
        *,
        skip: Sequence[str] = (),
        rho: float = -5.0,
        prior_std: float = 0.1,
        evaluation_samples: int = 10,
    ) -> None:
        super().__init__()
        check_scales(rho, prior_std)
        self.network = own_copy(network)
        layers = selected_layers(self.network, _LAYERS, skip)
        self.converted = tuple(layers)
        self.not_converted = unselected_modules(self.network, layers)
        self.prior_std = prior_std
        self.evaluation_samples = whole_number("evaluation_samples", evaluation_samples)
        self.rho = nn.Module()
        seen: set[nn.Parameter] = set()
        for prefix, layer in layers.items():
            for kind, location in layer.named_parameters(recurse=False):
                # A parameter tied between layers gets one ρ, and so one value per draw.
                if kind in _KINDS and location not in seen:
                    seen.add(location)
                    scale = torch.full_like(location, rho)
                    _register(self.rho, _joined(prefix, kind), scale, location.requires_grad)
        self._take_mode_of(self.network)

    @abstractmethod
    def noise(self, size: int, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw the noise ``[size]`` of one layer, with the dtype and device of ``like``."""

    @abstractmethod
    def layer_kl(self, mean: Tensor, scale: Tensor) -> Tensor:
        """KL[q || p] of one layer whose weights have these means and scales, both ``[D]``."""

    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return logits ``[M, B, K]``, fresh weights for each draw."""
        samples = self.resolve_samples(num_samples)
        # A loop instead of vmap: batch normalisation must update its running statistics, and
        # layers need not support batched weights.
        networks = (with_weights(self.network, self.draw_weights()) for _ in range(samples))
        draws = [self.run_network(network, x) for network in networks]
        return self.checked(torch.stack(draws) if samples > 1 else draws[0].unsqueeze(0))

    def draw_weights(self, *, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """Draw the weights of all converted layers, by their names in the network."""
        weights: dict[str, Tensor] = {}
        for layer in self.layer_posteriors():
            sizes = [mean.numel() for mean in layer.mean]
            noise = self.noise(sum(sizes), layer.mean[0], generator)
            parts = torch.split_with_sizes(noise, sizes)
            for name, mean, scale, part in zip(*layer, parts, strict=True):
                weights[name] = torch.addcmul(mean, scale, part.view(mean.shape))
        return weights

    def last_layer_parameters(self) -> list[nn.Parameter]:
        """μ and ρ of the last linear or convolutional layer."""
        means = list(last_layer(self.network)[1].parameters())
        own = {id(mean) for mean in means}
        rhos = self.rho.named_parameters()
        return means + [rho for name, rho in rhos if id(self.network.get_parameter(name)) in own]

    def weight_kl(self) -> Tensor:
        """KL[q(w) || p(w)], summed over all weights of the converted layers; a scalar."""
        divergences = [
            self.layer_kl(_flat(layer.mean), _flat(layer.scale))
            for layer in self.layer_posteriors()
        ]
        return torch.stack(divergences).sum()

    def layer_posteriors(self) -> Iterator[LayerPosterior]:
        """Iterate over the converted layers that have parameters of their own."""
        rhos = dict(self.rho.named_parameters())
        for layer in self.converted:
            kinds = [kind for kind in _KINDS if _joined(layer, kind) in rhos]
            if kinds:
                names = [_joined(layer, kind) for kind in kinds]
                # getattr, since get_parameter refuses the plain tensors that torch.func puts there.
                mean = [getattr(self.network.get_submodule(layer), kind) for kind in kinds]
                yield LayerPosterior(names, mean, [softplus(rhos[name]) for name in names])


def check_scales(rho: float, prior_std: float) -> None:
    """Raise unless ρ is finite and the prior's standard deviation is positive and finite."""
    refuse_booleans(rho=rho, prior_std=prior_std)
    if not math.isfinite(rho):
        raise SettingError(f"rho must be finite, got {rho}. For a deterministic network use MAP.")
    if not (math.isfinite(prior_std) and prior_std > 0):
        raise SettingError(f"prior_std must be positive and finite, got {prior_std}.")


def _joined(layer: str, kind: str) -> str:
    return f"{layer}.{kind}" if layer else kind


def _register(root: nn.Module, name: str, value: Tensor, trainable: bool) -> None:
    """Register a parameter under a dotted name, creating empty modules along the path."""
    *path, leaf = name.split(".")
    for part in path:
        if part not in dict(root.named_children()):
            root.add_module(part, nn.Module())
        root = root.get_submodule(part)
    root.register_parameter(leaf, nn.Parameter(value, trainable))


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])
