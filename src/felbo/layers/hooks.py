"""Tell whether a module has hooks, which code that goes around its call would pass over."""

from __future__ import annotations

from torch import nn


def has_hooks(module: nn.Module) -> bool:
    """Whether anything is registered to run before or after the module, or in its backward pass."""
    # A module does not tell; the handle of a new hook knows where the others are.
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
