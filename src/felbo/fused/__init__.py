"""What exists only for speed: the plain functions once more, with the same signatures.

Without this package the library still works: each function has a plain form to take its place.
"""

from felbo.fused.kl import function_space_kl
from felbo.fused.softmax import softmax

__all__ = ["function_space_kl", "softmax"]
