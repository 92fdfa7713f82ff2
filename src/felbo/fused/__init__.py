"""Optimised versions of plain functions, with the same signatures.

This package exists only for speed: each function has a plain version that can replace it.
"""

from felbo.fused.kl import function_space_kl
from felbo.fused.short_rows import cross_entropy, softmax
from felbo.fused.terms import bound

__all__ = ["bound", "cross_entropy", "function_space_kl", "softmax"]
