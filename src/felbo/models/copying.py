"""Deep copies of modules that keep results of their last call."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


def deep_copy(module: Module) -> Module:
    """Return a deep copy of a module.

    Results of the last call that its parts keep as attributes (a computed weight, as in
    ``torch.nn.utils.weight_norm``, or features) are copied without their graph, which
    ``copy.deepcopy`` refuses.
    """
    kept = [value for part in module.modules() for value in vars(part).values()]
    results = [value for value in kept if isinstance(value, Tensor) and not value.is_leaf]
    return copy.deepcopy(module, {id(result): result.detach().clone() for result in results})
