"""Rank-1 posterior: members share their weights and differ by random rank-1 factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from felbo._numbers import whole_number
from felbo.errors import SettingError, ShapeError
from felbo.inputs import Inputs, batch_size, map_tensors, run
from felbo.layers import Rank1Layer
from felbo.layers.rank1 import Batch
from felbo.models._conversion import (
    WEIGHT_LAYERS,
    check_batch_first,
    replace_layers,
    selected_layers,
    unselected_modules,
)
from felbo.models._location_scale import check_scales
from felbo.models._wrapping import own_copy
from felbo.models.base import StochasticClassifier
from felbo.models.modes import evaluation_mode
from felbo.random import torch_seed


class Rank1(StochasticClassifier):
    """R members with weights ``W ∘ (u vᵀ)``: W is shared, u and v are Gaussian per member.

    Linear and convolutional layers become :class:`felbo.layers.Rank1Layer`, with biases per
    member; everything else (batch normalisation, embeddings, the projections inside
    ``nn.MultiheadAttention``) is shared and listed in ``not_converted``.

    In training mode the batch is split over the members, item i going to member ``i % R``: one
    draw at the cost of the plain network. In evaluation mode every member sees every input: R
    draws. With ``num_samples = c R``, in either mode, every member sees every input c times, with
    new factors each time.

    The network must keep the batch as the first axis throughout; running one that merges another
    axis into it, or moves it, raises an error. Where another axis has as many rows as the batch,
    the first call also runs the network on one item less, in evaluation mode, to tell them apart.

    Args:
        network: any module that maps ``[B, ...]`` to logits ``[B, K]``. It is copied.
        members: R.
        skip: names of layers, or of modules that hold them, to keep deterministic.
        rho: initial value of every ρ; σ = softplus(ρ) is the standard deviation of a factor, whose
            mean is initialised at 1.
        prior_std: standard deviation of the prior N(1, prior_std²) of the factors.

    Attributes:
        converted: names of the layers with random factors.
        not_converted: names of the modules whose parameters stay deterministic.

    Example:
        >>> import torch, felbo
        >>> model = felbo.Rank1(felbo.networks.mlp(2, (25, 25), 3), members=4)
        >>> model(torch.zeros(8, 2)).shape
        torch.Size([1, 8, 3])
        >>> model.eval()(torch.zeros(8, 2)).shape
        torch.Size([4, 8, 3])
    """

    # Its fast path for evaluation reads weights that a rank-1 layer does not have.
    always_training = (nn.TransformerEncoderLayer,)
    draws_weights = True
    _tried = False

    def __init__(
        self,
        network: nn.Module,
        members: int = 4,
        *,
        skip: Sequence[str] = (),
        rho: float = -3.0,
        prior_std: float = 0.1,
    ) -> None:
        super().__init__()
        check_scales(rho, prior_std)
        members = whole_number("members", members)
        own = own_copy(network)
        check_batch_first(own, "Rank1")
        layers = selected_layers(own, WEIGHT_LAYERS, skip, called=True)
        self.converted = tuple(layers)
        self.not_converted = unselected_modules(own, layers)
        self._batch = Batch()
        self.network = replace_layers(
            own, layers, lambda layer: Rank1Layer(layer, members, rho, self._batch)
        )
        self.members = members
        self.prior_std = prior_std
        self.evaluation_samples = self.smallest_batch = members
        self._take_mode_of(self.network)

    def forward(self, x: Inputs, num_samples: int | None = None) -> Tensor:
        """Return logits: ``[1, B, K]`` in training mode, ``[R, B, K]`` in evaluation mode.

        Args:
            x: inputs ``[B, ...]``; at least R of them where the batch is split.
            num_samples: a multiple of R, draw ``c R + r`` being member r; or 1 in training mode.
        """
        samples = self.resolve_samples(num_samples)
        if self.training and samples == 1:
            batch = batch_size(x)
            if batch < self.members:
                raise ShapeError(
                    f"A batch of {batch} cannot be split over {self.members} members. Use larger "
                    "batches (drop_last=True for the last one) or fewer members."
                )
            return self.checked(self._run(x).unsqueeze(0))
        if samples % self.members:
            raise SettingError(
                f"This model has {self.members} members and gives a multiple of that many draws"
                f"{', or 1' if self.training else ''}; got num_samples={samples}."
            )
        # Copies of an item are adjacent, so that position modulo R is the member.
        copies = map_tensors(lambda part: part.repeat_interleave(self.members, dim=0), x)
        draws = [self._every_member(copies) for _ in range(samples // self.members)]
        return self.checked(torch.cat(draws))

    def evaluation_draws(self, wanted: int) -> int:
        """Return ``wanted``, rounded up to a multiple of R."""
        return -(-wanted // self.members) * self.members

    def settings(self) -> dict[str, Any]:
        """Return the number of members."""
        return {"members": self.members}

    def weight_kl(self) -> Tensor:
        """KL of the factors to their prior, summed over factors and averaged over members.

        The posterior is a mixture of R equally likely members, whose KL has no closed form. By
        convexity it is at most the mean of the members' KLs (and at least that minus log R), which
        matches a likelihood that is also a mean over the members. W and the biases have no
        posterior: weight decay is their prior.
        """
        layers = [layer for layer in self.network.modules() if isinstance(layer, Rank1Layer)]
        return torch.stack([layer.kl(self.prior_std) for layer in layers]).sum()

    def _run(self, x: Inputs) -> Tensor:
        if torch.compiler.is_compiling():
            return run(self.network, x)
        self._batch.items = items = batch_size(x)
        try:
            logits = self.run_network(self.network, x)
            if self._batch.ambiguous and not self._tried and items > 1:
                self._tried = True
                self._try_one_item_less(x, items)
        finally:
            self._batch.items = None  # the network may be called by itself
        return logits

    def _try_one_item_less(self, x: Inputs, items: int) -> None:
        """Raise if a layer does not receive as many rows as there are items."""
        # Evaluation mode, no gradient, generators restored: the network stays as it is.
        with torch.no_grad(), torch_seed(0), evaluation_mode([self]):
            self._batch.items = items - 1
            try:
                run(self.network, map_tensors(lambda part: part[: items - 1], x))
            except ShapeError:
                raise
            except Exception:  # a network for one batch size only: nothing is known about it
                return

    def _every_member(self, copies: Inputs) -> Tensor:
        logits = self._run(copies)
        return logits.reshape(-1, self.members, logits.shape[-1]).transpose(0, 1)
