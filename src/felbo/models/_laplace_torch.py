"""Laplace posterior over a subset of weights, computed with the laplace-torch package."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jacrev, vmap
from torch.utils.data import DataLoader

from felbo.inputs import Inputs, cloned, map_tensors, run, split_labels
from felbo.models._wrapping import with_weights

# Bytes of parameter gradients per class in memory at a time; more leaves the cache and is slower.
BLOCK = 2**21


def full_posterior(
    network: nn.Module, indices: Tensor, loader: DataLoader[Any]
) -> tuple[Tensor, Tensor]:
    """Fit N(w*, (H + λ I)⁻¹) to the chosen weights; λ maximises the marginal likelihood.

    Args:
        network: in evaluation mode, at the trained weights w*.
        indices: positions of the chosen weights among the parameters that require a gradient.
        loader: yields batches ``(x, y)``, or dicts with the labels under ``"labels"``.

    Returns:
        A square root of the covariance, ``[size, size]``, and λ.
    """
    laplace = _import_laplace()
    posterior = laplace.FullSubnetLaplace(
        _OfItems(network),
        "classification",
        subnetwork_indices=indices.cpu(),
        backend=_backend(laplace),
    )
    posterior.fit(_Batches(loader))
    with warnings.catch_warnings():
        # The warning concerns the softmax approximation in prediction; we sample instead.
        warnings.filterwarnings("ignore", message="By default `link_approx`")
        posterior.optimize_prior_precision(method="marglik")
    return posterior.posterior_scale, posterior.prior_precision.squeeze()


def _backend(laplace: Any) -> type:
    """Return laplace-torch's backend with Jacobians that are computed item by item.

    Its own take the gradient of every logit of a batch with respect to all items of the batch:
    time and memory grow with the square of the batch size.
    """

    class ByItem(laplace.curvature.CurvlinopsGGN):  # type: ignore[misc]
        def jacobians(self, x: _Items, enable_backprop: bool = False) -> tuple[Tensor, Tensor]:
            return item_jacobians(self.model.network, x.x, self.subnetwork_indices)

    return ByItem


def item_jacobians(network: nn.Module, x: Inputs, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Return the Jacobian of each item's logits ``[B, K, size]``, and the logits ``[B, K]``.

    Args:
        network: in evaluation mode, so that items do not depend on each other.
        x: inputs ``[B, ...]``.
        indices: positions of the chosen weights among the parameters that require a gradient.
    """
    weights = {n: w.detach() for n, w in network.named_parameters() if w.requires_grad}

    def logits(moved: dict[str, Tensor], item: Inputs) -> tuple[Tensor, Tensor]:
        # A copy: a network that overwrites its input may not change what is differentiated.
        batch = map_tensors(lambda part: part.unsqueeze(0).clone(), item)
        found = run(with_weights(network, moved), batch).squeeze(0)
        return found, found

    def chosen(item: Inputs) -> tuple[Tensor, Tensor]:
        rows, found = jacrev(logits, has_aux=True)(weights, item)
        flat = torch.cat([row.flatten(1) for row in rows.values()], dim=1)
        return flat[:, indices.to(flat.device)], found

    size = sum(weight.nbytes for weight in weights.values())
    with torch.no_grad():
        jacobians, found = vmap(chosen, chunk_size=max(1, BLOCK // size))(x)
    return jacobians, found


class _Items:
    """Wrap inputs of any structure in one object with ``.to``, all that laplace-torch calls."""

    def __init__(self, x: Inputs) -> None:
        self.x = x

    def to(self, device: torch.device) -> _Items:
        return _Items(map_tensors(lambda part: part.to(device), self.x))


class _Batches:
    """A ``DataLoader`` whose inputs are wrapped as ``_Items``."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader, self.dataset = loader, loader.dataset

    def __iter__(self) -> Iterator[tuple[_Items, Tensor]]:
        for x, y in map(split_labels, self.loader):
            yield _Items(x), y


class _OfItems(nn.Module):
    """A network that takes ``_Items``."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, items: _Items) -> Tensor:
        return run(self.network, cloned(items.x))


def _import_laplace() -> Any:
    try:
        import laplace
        import laplace.curvature
    except ImportError as error:
        raise ImportError(
            f"SubnetworkLaplace.fit uses the laplace-torch package, and {error.name!r} is missing: "
            "pip install felbo[laplace]"
        ) from error
    return laplace
