"""Subnetwork Laplace: a Gaussian posterior over some weights of a trained, linearised network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import accumulate
from threading import Lock
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.func import jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import DataLoader

from felbo._numbers import whole_number
from felbo.errors import SettingError, StateError
from felbo.inputs import Inputs
from felbo.models._conversion import last_layer
from felbo.models._laplace_torch import full_posterior
from felbo.models._wrapping import own_copy, with_weights
from felbo.models.base import StochasticClassifier

Subnetwork = Literal["last", "largest"]

# torch counts the levels of forward-mode differentiation for the process: one thread at a time.
_FORWARD_MODE = Lock()


class SubnetworkLaplace(StochasticClassifier):
    """Linearised Laplace approximation over a subset of a trained network's weights.

    ``logits = φ(x; w*) + J(x) ε``,  ``ε ~ N(0, (H + λ I)⁻¹)``

    J is the Jacobian of the logits with respect to the chosen weights at the trained weights w*, H
    the full generalised Gauss-Newton matrix of the chosen weights over the training data and λ the
    prior precision that maximises the marginal likelihood (Daxberger et al., 2021, "Bayesian Deep
    Learning via Subnetwork Inference"). A draw is one function: all inputs of a call share its ε. J
    is never formed for predictions: a draw costs one Jacobian-vector product (``torch.func.jvp``).

    :meth:`fit` uses the laplace-torch package (``pip install felbo[laplace]``). Its memory is the
    Jacobian of a few items for every parameter tensor that contains a chosen weight, that of one
    batch for the chosen weights, and a matrix of ``size × size``. The network always stays in
    evaluation mode.

    Args:
        network: a trained module that maps ``[B, ...]`` to logits ``[B, K]``. It is copied.
        subnetwork: ``"largest"`` takes the weights of largest magnitude in the whole network,
            ``"last"`` all of the last linear or convolutional layer.
        size: how many weights ``"largest"`` takes; all, if there are fewer.
        evaluation_samples: draws.

    Attributes:
        indices: positions of the chosen weights in the network's flattened parameters.

    Example:
        >>> import torch, felbo
        >>> trained = felbo.networks.mlp(2, (8,), 3)
        >>> model = felbo.SubnetworkLaplace(trained, subnetwork="last")
        >>> len(model.indices)
        27
    """

    # Their fast paths for evaluation do not support forward-mode differentiation.
    always_training = (nn.MultiheadAttention, nn.TransformerEncoderLayer)

    indices: Tensor
    scale: Tensor
    prior_precision: Tensor
    fitted: Tensor

    def __init__(
        self,
        network: nn.Module,
        subnetwork: Subnetwork = "largest",
        size: int = 1000,
        *,
        evaluation_samples: int = 10,
    ) -> None:
        super().__init__()
        if subnetwork not in ("last", "largest"):
            raise SettingError(f"subnetwork must be 'last' or 'largest', got {subnetwork!r}.")
        size = whole_number("size", size)
        samples = whole_number("evaluation_samples", evaluation_samples)
        # laplace-torch flattens weights with `view`, which channels_last does not allow. Any, since
        # torch's annotations leave out memory_format by itself.
        copied: Any = own_copy(network)
        self.network: nn.Module = copied.to(memory_format=torch.contiguous_format)
        for part in self.network.modules():
            if isinstance(part, nn.MultiheadAttention):
                part.dropout = 0.0
        self.train(network.training)
        self.training_samples = self.evaluation_samples = samples
        chosen = _last(self.network) if subnetwork == "last" else _largest(self.network, size)
        count = len(chosen)
        self.register_buffer("indices", chosen)
        self.register_buffer("scale", torch.zeros(count, count, device=chosen.device))
        self.register_buffer("prior_precision", torch.ones((), device=chosen.device))
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool, device=chosen.device))

    def fit(self, loader: DataLoader[Any]) -> Self:
        """Compute H over a ``DataLoader`` and choose λ; return the model itself.

        Args:
            loader: gives pairs ``(x, y)``, or dicts with the labels under ``"labels"``.
        """
        parameters = list(self.network.parameters())
        flags = [parameter.requires_grad for parameter in parameters]
        tensors = list(self._tensors())
        starts = accumulate([weight.numel() for _, weight, _, _ in tensors[:-1]], initial=0)
        local = [t[2] + start for t, start in zip(tensors, starts, strict=True)]
        try:
            # Only tensors with a chosen weight are differentiated; indices are relative to those.
            self.network.requires_grad_(False)
            for _, weight, _, _ in tensors:
                weight.requires_grad_(True)
            with self._without_autocast():
                scale, precision = full_posterior(self.network, torch.cat(local), loader)
            self.scale.copy_(scale)
            self.prior_precision.copy_(precision)
        finally:
            for parameter, flag in zip(parameters, flags, strict=True):
                parameter.requires_grad_(flag)
                parameter.grad = None
            self.train(self.training)
        self.fitted.fill_(True)
        return self

    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return logits ``[M, B, K]``, a fresh ε for each draw."""
        samples = self.resolve_samples(num_samples)
        if not self.fitted:
            raise StateError("This model has no posterior yet: call model.fit(loader) first.")
        noise = torch.randn(
            samples, len(self.indices), dtype=self.scale.dtype, device=self.scale.device
        )
        with self._without_autocast():
            draws: Tensor = vmap(lambda step: self.linearised(x, step))(noise @ self.scale.T)
        return self.checked(draws)

    def linearised(self, x: Inputs, step: Tensor) -> Tensor:
        """Return φ(x; w*) + J(x) ε ``[B, K]`` for ``step`` ε ``[size]``."""
        weights, tangents = {}, {}
        for name, weight, positions, chosen in self._tensors():
            flat = step.new_zeros(weight.numel()).index_copy(0, positions, step[chosen])
            weights[name], tangents[name] = weight, flat.view_as(weight)

        def network(moved: dict[str, Tensor]) -> Tensor:
            return self.run_network(with_weights(self.network, moved), x)

        alone = nullcontext() if torch.compiler.is_compiling() else _FORWARD_MODE
        # The only backend with forward-mode differentiation.
        with alone, sdpa_kernel(SDPBackend.MATH):
            logits, change = jvp(network, (weights,), (tangents,))[:2]
        return torch.add(logits, change)

    def _without_autocast(self) -> torch.autocast:
        """Derivatives need the type of the weights throughout, and a Hessian more than 8 bits."""
        return torch.autocast(self.scale.device.type, enabled=False)

    def train(self, mode: bool = True) -> Self:
        """Set the mode; the network itself stays in evaluation mode, in which it is linearised."""
        super().train(mode)
        self.network.eval()
        self._keep_in_training()
        return self

    def _tensors(self) -> Iterator[tuple[str, nn.Parameter, Tensor, Tensor]]:
        """Yield each tensor with chosen weights: name, tensor, their indices in it and in ε."""
        named = list(self.network.named_parameters())
        sizes = torch.tensor([weight.numel() for _, weight in named], device=self.indices.device)
        ends = sizes.cumsum(0)
        owner = torch.searchsorted(ends, self.indices, right=True)
        for number in sorted(set(owner.tolist())):
            chosen = (owner == number).nonzero().squeeze(-1)
            start = ends[number] - sizes[number]
            yield *named[number], self.indices[chosen] - start, chosen


def _largest(network: nn.Module, size: int) -> Tensor:
    flat = torch.cat([weight.detach().reshape(-1) for weight in network.parameters()])
    return flat.abs().topk(min(size, len(flat))).indices.sort().values


def _last(network: nn.Module) -> Tensor:
    _, layer = last_layer(network)
    own = {id(parameter) for parameter in layer.parameters()}
    mask = [torch.full((p.numel(),), id(p) in own) for p in network.parameters()]
    device = next(layer.parameters()).device
    return torch.cat(mask).nonzero().squeeze(-1).to(device)
