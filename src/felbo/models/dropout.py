"""MC Dropout: each draw multiplies the weights by a random mask."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from felbo.layers import ActiveDropout
from felbo.layers.dropout import MaskSharing
from felbo.models._conversion import WEIGHT_LAYERS, replace_layers, selected_layers
from felbo.models.base import StochasticClassifier

_DropoutLayer = nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d


class MCDropout(StochasticClassifier):
    """A network whose dropout stays active, so that each forward pass is a draw.

    A network that has dropout layers keeps them where they are. One that has none gets dropout
    before every linear and convolutional layer, the first included, as in the original MC Dropout.
    A call of ``torch.nn.functional.dropout`` inside the network is no layer and cannot be seen.

    Args:
        network: any module that maps ``[B, ...]`` to logits ``[B, K]``. It is copied.
        rate: dropout rate. ``None`` keeps the rates of the network's own dropout layers, and takes
            0.2 where dropout is inserted.
        skip: names of layers (or of modules that hold them) before which none is inserted.
        mask: ``"item"`` draws a mask per item, ``"draw"`` shares one mask over the batch, so that a
            draw is one function.
        evaluation_samples: draws in evaluation mode.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MCDropout(felbo.networks.mlp(2, (25, 25), 3), rate=0.2)
        >>> model(torch.zeros(4, 2), num_samples=7).shape
        torch.Size([7, 4, 3])
    """

    def __init__(
        self,
        network: nn.Module,
        rate: float | None = None,
        *,
        skip: tuple[str, ...] = (),
        mask: MaskSharing = "item",
        evaluation_samples: int = 10,
    ) -> None:
        super().__init__()
        self.network = copy.deepcopy(network)
        self.evaluation_samples = evaluation_samples
        if _take_over_dropout(self.network, rate, mask):
            if skip:
                raise ValueError(
                    f"skip={skip!r} says where no dropout is inserted, but the network has dropout "
                    "layers of its own and none is inserted; leave skip away."
                )
            return
        inserted = ActiveDropout(0.2 if rate is None else rate, mask)
        for layer in selected_layers(self.network, WEIGHT_LAYERS, skip).values():
            layer.register_forward_pre_hook(_DropInputs(inserted))

    def forward(self, x: Tensor, num_samples: int | None = None) -> Tensor:
        """Return logits ``[M, B, K]``, a fresh mask for each draw."""
        return torch.stack([self.network(x) for _ in range(self.resolve_samples(num_samples))])


class _DropInputs:
    """Forward pre-hook: drops values of a layer's input without changing the layer itself."""

    def __init__(self, dropout: ActiveDropout) -> None:
        self.dropout = dropout

    def __call__(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (self.dropout(inputs[0]), *inputs[1:])


def _take_over_dropout(network: nn.Module, rate: float | None, mask: MaskSharing) -> bool:
    """Replace the network's own dropout layers by active ones; tell whether there were any."""

    def activate(layer: nn.Module) -> ActiveDropout:
        assert isinstance(layer, _DropoutLayer)
        own_rate = layer.p if rate is None else rate
        return ActiveDropout(own_rate, mask, whole_maps=not isinstance(layer, nn.Dropout))

    found: dict[str, nn.Module] = {
        n: m for n, m in network.named_modules() if isinstance(m, _DropoutLayer)
    }
    replace_layers(network, found, activate)
    return bool(found)
