"""Values that need no graph, computed as if autograd did not exist."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

_BELOW_AUTOGRAD: Any = getattr(torch._C, "_AutoDispatchBelowAutograd", torch.no_grad)


def without_autograd() -> AbstractContextManager[Any]:
    """Return a context like ``torch.no_grad()`` that does not even ask whether to record.

    That spares every operation a layer of calls, which counts for small ones. ``enable_grad`` has
    no effect inside, so nothing that belongs to a user may run there. Where this PyTorch has no
    such context, it is ``torch.no_grad()``.
    """
    context: AbstractContextManager[Any] = _BELOW_AUTOGRAD()
    return context
