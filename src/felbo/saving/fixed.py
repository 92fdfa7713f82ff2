"""Models whose draws are fixed: the same functions in every call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from felbo.errors import ExportError
from felbo.inputs import Inputs, cloned, run
from felbo.layers import ActiveDropout, Rank1Layer
from felbo.models import (
    MAP,
    ConcentrationNetwork,
    Ensemble,
    MCDropout,
    MeanField,
    Radial,
    Rank1,
    StochasticClassifier,
    Tempered,
    TemperedMean,
)
from felbo.models.dropout import dropping_inside
from felbo.random import torch_seed
from felbo.saving.dropout import inserted


class FixedDraws(nn.Module):
    """M networks drawn once: ``[B, ...]`` to logits ``[M, B, K]``."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return the logits of all draws."""
        # On copies: a network that overwrites its input would leave another one for the next.
        copies = (cloned(x) for _ in self.networks)
        return torch.stack([run(*pair) for pair in zip(self.networks, copies, strict=True)])


class _Recorder:
    """Record the random tensors of one run, and replay them in the same order in later runs.

    Args:
        draw: forward of dropout, or of the factors of a rank-1 layer.
    """

    def __init__(self, draw: Callable[..., Tensor]) -> None:
        self.draw, self.recording = draw, True
        self.tensors: list[Tensor] = []
        self.calls = 0

    def __call__(self, *inputs: Tensor) -> Tensor:
        if self.recording:
            # Dropout of ones is its mask; of a single item, since all items share it.
            self.tensors.append(self.draw(*(torch.ones_like(x[:1]) for x in inputs)))
        tensor = self.tensors[self.calls % len(self.tensors)]
        self.calls += 1
        return inputs[0] * tensor if inputs else tensor


def with_fixed_draws(model: StochasticClassifier, example: Inputs, seed: int) -> nn.Module:
    """Return a copy of a model that always makes the draws of ``felbo.predict(..., seed=seed)``.

    MC Dropout with a mask per item gets masks that all items share: of each prediction the
    distribution is the same.

    Raises:
        ExportError: if the draws of this model cannot be fixed.
    """
    own = copy.deepcopy(model).eval()
    if isinstance(own, Tempered):
        if isinstance(own, TemperedMean) and own.draws is not None:
            own.model.evaluation_samples, own.draws = own.draws, None
        own.model = cast(StochasticClassifier, with_fixed_draws(own.model, example, seed))
        return own
    if isinstance(own, MAP | ConcentrationNetwork):
        # Its checks ask for the number of inputs, which a graph leaves open.
        own.checked = _unchecked  # type: ignore[method-assign]
        return own
    if isinstance(own, Ensemble):
        return FixedDraws([own.member(index) for index in range(own.training_samples)])
    if isinstance(own, MeanField | Radial):
        return _drawn(own, seed)
    if isinstance(own, Rank1):
        return _members(own, example, seed)
    if isinstance(own, MCDropout):
        _recorded(own, example, seed)
        return own
    raise ExportError(
        f"The draws of a {type(model).__name__} cannot be exported. Export the network inside it "
        "as felbo.MAP(network), which has no epistemic uncertainty."
    )


def _drawn(model: MeanField | Radial, seed: int) -> FixedDraws:
    networks = []
    with torch_seed(seed), torch.no_grad():
        for _ in range(model.evaluation_samples):
            network = copy.deepcopy(model.network)
            for name, weight in model.draw_weights().items():
                network.get_parameter(name).copy_(weight)
            networks.append(network)
    return FixedDraws(networks)


def _members(model: Rank1, example: Inputs, seed: int) -> FixedDraws:
    """Return the members of a rank-1 model as plain networks with weights ``W ∘ (u vᵀ)``."""
    model.evaluation_samples = model.members
    recorders = _recorded(model, example, seed)

    def plain(layer: Rank1Layer, member: int) -> nn.Module:
        v, u = (recorders[part].tensors[0][member] for part in (layer.input, layer.output))
        own = copy.deepcopy(layer.shared)
        weight: Tensor = own.get_parameter("weight")
        outputs, inputs = weight.shape[:2]
        # Each group of a convolution has inputs of its own.
        groups = v.view(-1, inputs).repeat_interleave(outputs * inputs // len(v), 0)
        factors = (u[:, None] * groups).view(outputs, inputs, *[1] * (weight.dim() - 2))
        own.weight = nn.Parameter(weight * factors)
        own.bias = None if layer.bias is None else nn.Parameter(layer.bias[member])
        return own

    members = range(model.members)
    return FixedDraws([_replaced(model.network, partial(plain, member=m)) for m in members])


def _replaced(network: nn.Module, plain: Callable[[Rank1Layer], nn.Module]) -> nn.Module:
    """Return a copy of a network with plain layers in place of rank-1 layers."""
    memo = {id(part): plain(part) for part in network.modules() if isinstance(part, Rank1Layer)}
    return copy.deepcopy(network, memo)


def _recorded(model: Rank1 | MCDropout, example: Inputs, seed: int) -> dict[nn.Module, _Recorder]:
    """Fix all random tensors of a model, in place; return what holds them."""
    _refuse_inner_dropout(model)
    recorders = {part: _Recorder(part.forward) for part in random_parts(model)}
    for part, recorder in recorders.items():
        part.forward = recorder
    with torch_seed(seed), torch.no_grad():
        model(example)
    for recorder in recorders.values():
        recorder.recording, recorder.calls = False, 0
    return recorders


def random_parts(model: nn.Module) -> set[nn.Module]:
    """Return everything in a model that draws random numbers."""
    before = [inserted(layer) for layer in model.modules()]
    parts: list[nn.Module] = [dropout for dropout in before if dropout is not None]
    for layer in model.modules():
        if isinstance(layer, Rank1Layer):
            parts += [layer.input, layer.output]
        elif isinstance(layer, ActiveDropout):
            parts.append(layer)
    return set(parts)


def _refuse_inner_dropout(model: nn.Module) -> None:
    for name, (part, rate) in dropping_inside(model).items():
        if getattr(part, rate) > 0:
            raise ExportError(f"The dropout of {name}, {type(part).__name__}, cannot be exported.")


def with_shared_masks(model: StochasticClassifier) -> StochasticClassifier:
    """Return a copy of a model in which all items of a batch share their dropout masks."""
    own = copy.deepcopy(model)
    for part in random_parts(own):
        if isinstance(part, ActiveDropout):
            part.mask = "draw"
    return own


def _unchecked(draws: Tensor) -> Tensor:
    return draws
