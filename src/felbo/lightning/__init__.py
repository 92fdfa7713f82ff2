"""felbo for users of the Lightning ``Trainer``.

``lightning`` and ``pytorch_lightning`` are imported when ``FunctionSpaceModule`` is first used, and
nothing else of felbo needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from felbo.lightning.module import FunctionSpaceModule

__all__ = ["FunctionSpaceModule"]


def __getattr__(name: str) -> Any:
    if name == "FunctionSpaceModule":
        return import_module("felbo.lightning.module").FunctionSpaceModule
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
