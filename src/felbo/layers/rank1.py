"""Linear or convolutional layer shared by members that differ by random rank-1 factors."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from felbo._numbers import refuse_booleans, whole_number
from felbo.errors import InputTypeError, ShapeError
from felbo.layers.gaussian import gaussian_kl


class GaussianFactors(nn.Module):
    """One Gaussian vector per member: ``mean + σ ⊙ ε``, σ = softplus(ρ), means initialised at 1.

    Args:
        members: R.
        size: D, values per vector.
        rho: starting value of every ρ.
        like: a tensor whose dtype and device are used.
    """

    def __init__(self, members: int, size: int, rho: float, like: Tensor) -> None:
        super().__init__()
        self.mean = nn.Parameter(like.new_ones(members, size))
        self.rho = nn.Parameter(like.new_full((members, size), rho))

    def forward(self) -> Tensor:
        """Draw all members' vectors, ``[R, D]``."""
        return torch.addcmul(self.mean, softplus(self.rho), torch.randn_like(self.mean))

    def kl(self, prior_std: float) -> Tensor:
        """KL to N(1, prior_std²), summed over the D values and averaged over the members."""
        return gaussian_kl(self.mean, softplus(self.rho), 1.0, prior_std) / len(self.mean)


@dataclass
class Batch:
    """The batch that a model runs on, shared by all of its layers.

    Attributes:
        items: number of items, ``None`` if unknown.
        ambiguous: True once a layer saw as many rows in another axis, which may be the batch.
    """

    items: int | None = None
    ambiguous: bool = False


class Rank1Layer(nn.Module):
    """R linear or convolutional layers with one weight: ``y = (W (x ∘ v)) ∘ u + b``.

    Member r has a Gaussian v on its inputs, a Gaussian u on its outputs (on channels, for a
    convolution), both around 1, and a deterministic bias b of its own, as in Dusenberry et al.,
    2020, "Efficient and Scalable Bayesian Neural Nets with Rank-1 Factors". This is a layer with
    the weight W ∘ (u vᵀ), without ever building that weight.

    Item i of the batch belongs to member ``i % R``. The rule depends on nothing but the position,
    so a network must keep the batch as its first axis and may not merge other axes into it. Each
    call draws u and v once per member.

    Args:
        layer: ``nn.Linear``, ``nn.Conv1d`` or ``nn.Conv2d``. Its weight is shared, not copied; its
            bias is the initial value of every member's bias. It is not changed.
        members: R.
        rho: starting value of every ρ, with σ = softplus(ρ) the spread of the factors.
        batch: the batch that the model runs on; inputs with another number of rows are refused.
    """

    def __init__(
        self, layer: nn.Module, members: int, rho: float = -3.0, batch: Batch | None = None
    ) -> None:
        super().__init__()
        refuse_booleans(rho=rho)
        members = whole_number("members", members)
        if isinstance(layer, nn.Linear):
            inputs, outputs, self.spatial_dims = layer.in_features, layer.out_features, None
        elif isinstance(layer, nn.Conv1d | nn.Conv2d):
            inputs, outputs = layer.in_channels, layer.out_channels
            self.spatial_dims = len(layer.kernel_size)
        else:
            raise InputTypeError(
                f"Expected nn.Linear, nn.Conv1d or nn.Conv2d, got {type(layer).__name__}."
            )
        self.members = members
        self.batch = batch or Batch()
        # The memo entry makes deepcopy share the weight, so that tied weights stay tied.
        self.shared = copy.deepcopy(layer, {id(layer.weight): layer.weight})
        self.shared.bias = None
        self.input = GaussianFactors(members, inputs, rho, layer.weight)
        self.output = GaussianFactors(members, outputs, rho, layer.weight)
        bias = layer.bias
        self.bias = None
        if bias is not None:
            self.bias = nn.Parameter(bias.detach().repeat(members, 1), bias.requires_grad)

    # The name of the argument is that of the layers of torch, which may be called by it.
    def forward(self, input: Tensor) -> Tensor:
        """Map ``input [B, ...]`` as the plain layer would, item i by member ``i % R``."""
        self._check_axes(input)
        y: Tensor = self.shared(input * self._per_item(self.input(), input))
        y = y * self._per_item(self.output(), input)
        return y if self.bias is None else y + self._per_item(self.bias, input)

    def kl(self, prior_std: float) -> Tensor:
        """KL of the factors to N(1, prior_std²), averaged over the members; a scalar."""
        return self.input.kl(prior_std) + self.output.kl(prior_std)

    def _per_item(self, vectors: Tensor, x: Tensor) -> Tensor:
        """Give item i of ``x`` the vector of member i % R, shaped to broadcast over other axes."""
        rounds = -(-len(x) // self.members)
        # repeat, unlike indexing, has a gradient that is a plain sum.
        per_item = vectors.repeat(rounds, 1)[: len(x)]
        if self.spatial_dims is None:
            return per_item.view(len(x), *[1] * (x.dim() - 2), vectors.shape[1])
        return per_item.view(len(x), vectors.shape[1], *[1] * self.spatial_dims)

    def _check_axes(self, x: Tensor) -> None:
        if self.spatial_dims is None and x.dim() < 2:
            raise ShapeError(f"Expected inputs [B, ..., features], got shape {tuple(x.shape)}.")
        if self.spatial_dims is not None and x.dim() != self.spatial_dims + 2:
            raise ShapeError(
                f"Expected inputs [B, channels, ...] with {self.spatial_dims + 2} axes, "
                f"got shape {tuple(x.shape)}."
            )
        if torch.compiler.is_compiling() or self.batch.items is None:
            return
        self.batch.ambiguous |= len(x) in x.shape[1:]
        if len(x) != self.batch.items:
            raise ShapeError(
                f"A rank-1 layer received {len(x)} rows (shape {tuple(x.shape)}) in a batch of "
                f"{self.batch.items} items: the network merges another axis into the batch, or "
                "moves it, so that rows no longer tell members apart. Keep the batch as it is and "
                "as the first axis (nn.Linear takes [B, T, D]), or leave the layer out with skip."
            )
