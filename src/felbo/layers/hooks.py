"""Detect hooks on a module, which code that bypasses ``module(...)`` would skip."""

from __future__ import annotations

from torch import nn


def has_hooks(module: nn.Module) -> bool:
    """Return True if the module has a forward or backward hook, or a pre-hook of either."""
    # Modules have no public list of their hooks; the handle of a new hook refers to that list.
    handles = [
        module.register_forward_pre_hook(lambda *_: None),
        module.register_forward_hook(lambda *_: None),
        module.register_full_backward_pre_hook(lambda *_: None),
        module.register_full_backward_hook(lambda *_: None),
    ]
    found = any(len(handle.hooks_dict_ref() or ()) > 1 for handle in handles)
    for handle in handles:
        handle.remove()
    return found
