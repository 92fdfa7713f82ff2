"""Ensembles whose members are divided among processes, also of several machines."""

from felbo.distributed.ensemble import ShardedEnsemble
from felbo.distributed.grid import Grid

__all__ = ["Grid", "ShardedEnsemble"]
