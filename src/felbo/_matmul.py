"""Matrix products as a fast way to sum."""

from __future__ import annotations

import torch


def sums_in_full(device_type: str) -> bool:
    """Whether a product of float32 matrices is one: not under autocast, nor if told to round."""
    reduced = torch.is_autocast_enabled(device_type)
    return not reduced and torch.get_float32_matmul_precision() == "highest"
