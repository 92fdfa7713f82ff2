"""Find the package that Lightning is installed as: ``lightning`` or ``pytorch_lightning``."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

# The same code under two names. Their classes are not the same: a Trainer of one package refuses
# a module of the other.
NAMES = ("lightning.pytorch", "pytorch_lightning")


def lightning_package() -> Any:
    """Return the package that is imported already, else the one that is installed.

    Raises:
        ImportError: if neither is installed.
    """
    imported = [name for name in NAMES if sys.modules.get(name) is not None]
    installed = [name for name in NAMES if _installed(name.split(".")[0])]
    for name in imported + installed:
        return import_module(name)
    raise ImportError(
        "felbo.lightning.FunctionSpaceModule needs Lightning, which is not installed: "
        "pip install 'felbo[lightning]' (or pip install pytorch-lightning). Without it, felbo.fit "
        "trains any model."
    )


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # switched off by sys.modules[name] = None
        return False
