"""MC Dropout: each draw multiplies the weights by a random mask."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from felbo.layers import ActiveDropout
from felbo.layers.dropout import MaskSharing
from felbo.models._conversion import WEIGHT_LAYERS, selected_layers
from felbo.models.base import StochasticClassifier

# Each with the number of trailing axes that share a mask.
_DROPOUT_LAYERS: dict[type[nn.Module], int] = {
    nn.Dropout: 0,
    nn.Dropout1d: 1,
    nn.Dropout2d: 2,
    nn.Dropout3d: 3,
}


class MCDropout(StochasticClassifier):
    """A network whose dropout stays active, so that each forward pass is a draw.

    A network that has dropout layers keeps them where they are. One that has none gets dropout
    before every linear and convolutional layer, the first included, as in the original MC Dropout.

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
        self.mask: MaskSharing = mask
        self.evaluation_samples = evaluation_samples
        if not _take_over_dropout(self.network, rate, mask):
            inserted = ActiveDropout(0.2 if rate is None else rate, mask)
            for layer in selected_layers(self.network, WEIGHT_LAYERS, skip).values():
                layer.register_forward_pre_hook(_DropInputs(inserted))

    def forward(self, x: Tensor, num_samples: int | None = None) -> Tensor:
        """Return logits ``[M, B, K]``, a fresh mask for each draw."""
        samples = self.resolve_samples(num_samples)
        if samples == 1:
            logits: Tensor = self.network(x)
            return logits.unsqueeze(0)
        if self.mask == "draw":
            return torch.stack([self.network(x) for _ in range(samples)])
        # Masks differ from item to item anyway, so all draws run as one large batch.
        folded: Tensor = self.network(x.repeat(samples, *[1] * (x.dim() - 1)))
        return folded.view(samples, len(x), -1)


class _DropInputs:
    """Forward pre-hook: drops values of a layer's input without changing the layer itself."""

    def __init__(self, dropout: ActiveDropout) -> None:
        self.dropout = dropout

    def __call__(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (self.dropout(inputs[0]), *inputs[1:])


def _take_over_dropout(network: nn.Module, rate: float | None, mask: MaskSharing) -> bool:
    """Replace the network's own dropout layers by active ones; tell whether there were any."""
    found = False
    for parent in list(network.modules()):
        for name, child in parent.named_children():
            if type(child) in _DROPOUT_LAYERS:
                own_rate = child.p if rate is None else rate
                setattr(parent, name, ActiveDropout(own_rate, mask, _DROPOUT_LAYERS[type(child)]))
                found = True
    return found
