r"""What a set of draws says about its Dirichlet: the mean, and the spread around it.

.. math::
    \bar a = \tfrac1M \sum_m f_m, \qquad \bar l = \tfrac1M \sum_m \log f_m, \qquad
    D = \sum_k \bar a_k (\log \bar a_k - \bar l_k) \ge 0

The likelihood of the precision depends on the draws through these only. D is zero when all draws
agree, and infinite when one draw rules out a class that another one allows. A class with mean zero
adds nothing to it.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Stands in for a mean of zero where it is divided by or its logarithm taken.
TINY = 1e-300
# Elements per thread to work on at a time: temporaries of this size stay in the cache. Calls are
# the same for either dtype, and count more against the faster one.
BLOCK = {torch.float64: 32768, torch.float32: 131072}


def items_per_block(elements_per_item: int, dtype: torch.dtype, like: Tensor) -> int:
    """Return how many items to work on at a time in ``dtype``; all of them on an accelerator."""
    if like.device.type != "cpu":
        return max(like.numel(), 1)
    return max(BLOCK[dtype] * torch.get_num_threads() // elements_per_item, 1)


def spread_of_draws(probs: Tensor) -> tuple[Tensor, Tensor]:
    r"""Reduce draws to their mean and spread, in float64 whatever their dtype.

    With the ratio :math:`r = f / \bar a`, of mean one, D is the mean of
    :math:`\bar a (r - 1 - \log r)`. Every term is a square to first order: nothing cancels when the
    draws nearly agree, and a rounding of the mean, or of the sum of a draw, has an effect of second
    order only.

    Args:
        probs: Draws, ``[M, ..., K]``.

    Returns:
        The mean ``[..., K]`` and D ``[...]``.
    """
    draws, classes = probs.shape[0], probs.shape[-1]
    size = items_per_block(draws * classes, torch.float64, probs)
    items = probs.reshape(draws, -1, classes)
    blocks = [_block(block) for block in torch.split(items, size, dim=1)]
    mean, spread = blocks[0] if len(blocks) == 1 else map(torch.cat, zip(*blocks, strict=True))
    return mean.reshape(probs.shape[1:]), spread.reshape(probs.shape[1:-1])


def _block(probs: Tensor) -> tuple[Tensor, Tensor]:
    draws = probs.double()
    mean = draws.mean(0)
    ratio = draws / mean.clamp(min=TINY)
    log_ratio = ratio.log()
    per_class = ratio.sub_(1.0).sub_(log_ratio).mean(0).masked_fill_(mean == 0.0, 0.0)
    return mean, per_class.mul_(mean).sum(-1)


def spread_of_statistics(mean: Tensor, mean_log: Tensor) -> Tensor:
    r"""Return D ``[...]`` from :math:`\bar a` and :math:`\bar l`, both ``[..., K]``, float64."""
    per_class = mean.clamp(min=TINY).log_().sub_(mean_log).masked_fill_(mean == 0.0, 0.0)
    # Rounding in the statistics of draws that agree can leave a D below zero, where it cannot be.
    return per_class.mul_(mean).sum(-1).clamp_(min=0.0)
