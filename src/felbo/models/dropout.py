"""MC Dropout: dropout stays active in evaluation, so each forward pass is a draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from felbo._numbers import refuse_booleans, whole_number
from felbo.errors import SettingError
from felbo.inputs import Inputs
from felbo.layers import ActiveDropout
from felbo.layers.dropout import MaskSharing
from felbo.models._conversion import (
    WEIGHT_LAYERS,
    check_batch_first,
    replace_layers,
    selected_layers,
)
from felbo.models._wrapping import own_copy
from felbo.models.base import StochasticClassifier

_DropoutLayer = nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d
# Modules that apply dropout of their own, in training mode only, and the name of its rate.
OWN_RATES: dict[type[nn.Module], str] = {
    nn.MultiheadAttention: "dropout",
    nn.RNNBase: "dropout",
    nn.AlphaDropout: "p",
    nn.FeatureAlphaDropout: "p",
}


class MCDropout(StochasticClassifier):
    """A network whose dropout stays active, so that each forward pass is a draw.

    A network that has dropout keeps it where it is: dropout layers, alpha dropout, and the dropout
    inside ``nn.MultiheadAttention``, transformers and recurrent layers. One that has none gets
    dropout before every linear and convolutional layer, the first included, as in the original MC
    Dropout, and on the inputs of ``nn.MultiheadAttention``. Calls of
    ``torch.nn.functional.dropout`` inside the network are not detected.

    Args:
        network: any module that maps ``[B, ...]`` to logits ``[B, K]``. It is copied.
        rate: dropout rate. ``None`` keeps the rates of the network's own dropout, and uses 0.2
            where dropout is inserted.
        skip: names of layers (or of modules that hold them) before which no dropout is inserted.
        mask: ``"item"`` draws a mask per item, ``"draw"`` shares one mask over the batch, so that a
            draw is one function.
        evaluation_samples: draws in evaluation mode.

    Attributes:
        without_dropout: names of the modules that could not get dropout: with ``mask="draw"`` those
            that apply dropout internally, which cannot share a mask, so their rate is set to 0;
            where dropout is inserted, the layers inside ``nn.MultiheadAttention``.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MCDropout(felbo.networks.mlp(2, (25, 25), 3), rate=0.2)
        >>> model(torch.zeros(4, 2), num_samples=7).shape
        torch.Size([7, 4, 3])
    """

    # In evaluation mode these apply no dropout, or skip the dropout layers inside them.
    always_training = (*OWN_RATES, nn.TransformerEncoderLayer)
    reason_for_equal_draws = (
        "Likely its dropout never runs: the network uses the weights of its layers without calling "
        "them, or its forward was compiled by a decorator."
    )

    def __init__(
        self,
        network: nn.Module,
        rate: float | None = None,
        *,
        skip: Sequence[str] = (),
        mask: MaskSharing = "item",
        evaluation_samples: int = 10,
    ) -> None:
        super().__init__()
        refuse_booleans(rate=rate)
        self.network = own_copy(network)
        self.evaluation_samples = whole_number("evaluation_samples", evaluation_samples)
        if mask == "draw":
            check_batch_first(self.network, "mask='draw'")
        own_rates, self.without_dropout = _take_over_dropout(self.network, rate, mask)
        if own_rates and skip:
            raise SettingError(
                f"skip={skip!r} says where no dropout is inserted, but the network has dropout "
                "layers of its own and none is inserted; omit skip."
            )
        if not own_rates:
            own_rates = [0.2 if rate is None else rate]
            self.without_dropout = _insert_dropout(self.network, own_rates[0], mask, skip)
        if self.without_dropout and rate != 0 and not any(own_rates):
            raise SettingError(
                f"All dropout of the network lies inside {', '.join(self.without_dropout)}, where "
                "no mask can be shared over the batch, so that its draws would be equal: use "
                "mask='item', or set their dropout to 0, so that dropout is inserted instead."
            )
        if rate is None and not any(own_rates):
            raise SettingError(
                "All dropout of the network has rate 0, so that its draws would be equal: give the "
                "rate, e.g. MCDropout(network, rate=0.1)."
            )
        self._drops = any(own_rates)
        self.draws_weights = mask == "draw"
        self._take_mode_of(self.network)

    @property
    def is_random(self) -> bool:
        """True if any dropout rate is above 0."""
        return self._drops

    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return logits ``[M, B, K]``, a fresh mask for each draw."""
        samples = self.resolve_samples(num_samples)
        draws = [self.run_network(self.network, x) for _ in range(samples)]
        return self.checked(torch.stack(draws))


class _DropInputs:
    """Forward pre-hook that applies dropout to a layer's inputs without changing the layer."""

    def __init__(self, dropout: ActiveDropout, names: Sequence[str]) -> None:
        self.dropout = dropout
        self.names = names

    def __call__(
        self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if len(args) == 1 and not kwargs:  # fast path for most layers
            return (self.dropout(args[0]),), kwargs
        count = len(self.names)
        given = {**dict(zip(self.names, args, strict=False)), **kwargs}
        # Self-attention gets the same tensor three times: all three share one mask.
        dropped = {id(given[name]): self.dropout(given[name]) for name in self.names}
        named = {name: dropped[id(given[name])] for name in self.names if name in kwargs}
        positional = [dropped[id(value)] for value in args[:count]]
        return (*positional, *args[count:]), {**kwargs, **named}


def _insert_dropout(
    network: nn.Module, rate: float, mask: MaskSharing, skip: Sequence[str]
) -> tuple[str, ...]:
    """Insert dropout before every layer; return the names of layers that are never called."""
    dropout, kinds = ActiveDropout(rate, mask), (*WEIGHT_LAYERS, nn.MultiheadAttention)
    called = selected_layers(network, kinds, skip, called=True)
    for layer in called.values():
        attention = isinstance(layer, nn.MultiheadAttention)
        names = ("query", "key", "value") if attention else ("input",)
        layer.register_forward_pre_hook(_DropInputs(dropout, names), with_kwargs=True)
    return tuple(name for name in selected_layers(network, kinds, skip) if name not in called)


def _take_over_dropout(
    network: nn.Module, rate: float | None, mask: MaskSharing
) -> tuple[list[float], tuple[str, ...]]:
    """Keep the network's own dropout always active; return its rates and where it cannot be."""

    def activate(layer: nn.Module) -> ActiveDropout:
        assert isinstance(layer, _DropoutLayer)
        own_rate = layer.p if rate is None else rate
        return ActiveDropout(own_rate, mask, whole_maps=not isinstance(layer, nn.Dropout))

    found: dict[str, nn.Module] = {
        n: m for n, m in network.named_modules() if isinstance(m, _DropoutLayer)
    }
    inside = {n: f for n, f in dropping_inside(network).items() if getattr(*f) > 0 and _drops(f[0])}
    replace_layers(network, found, activate)
    rates = [m.rate for m in network.modules() if isinstance(m, ActiveDropout)]
    for module, attribute in inside.values():
        own_rate = getattr(module, attribute) if rate is None else rate
        rates.append(0.0 if mask == "draw" else own_rate)
        setattr(module, attribute, rates[-1])
    return rates, tuple(inside) if mask == "draw" else ()


def _drops(module: nn.Module) -> bool:
    """Return False for a recurrent module of one layer: its dropout lies between layers."""
    return not isinstance(module, nn.RNNBase) or module.num_layers > 1


def dropping_inside(network: nn.Module) -> dict[str, tuple[nn.Module, str]]:
    """Return the modules that apply dropout of their own by name, and the name of their rate."""
    return {
        name: (module, attribute)
        for name, module in network.named_modules()
        for kind, attribute in OWN_RATES.items()
        if isinstance(module, kind)
    }
