"""Find the stochastic classifier inside a wrapper such as DDP or ``torch.compile``."""

from __future__ import annotations

from torch import nn

from felbo.errors import InputTypeError
from felbo.models.base import StochasticClassifier

# Upper bound of a precision where the number of training examples is not known.
UNKNOWN_SIZE = 1_000_000


def known_size(model: nn.Module) -> int | None:
    """Return N, the number of training examples of a model; ``None`` if it is not known.

    A wrapper (compiled, averaged, tempered) has that of the model inside.
    """
    parts = (part for part in model.modules() if isinstance(part, StochasticClassifier))
    return next((part.num_data for part in parts if part.num_data is not None), None)


def unwrap(model: nn.Module) -> StochasticClassifier:
    """Return the stochastic classifier inside a wrapper, or ``model`` itself if it is one.

    Every wrapper (Fabric, DDP, ``torch.compile``, ``AveragedModel``) registers the wrapped model as
    a submodule, which is searched for.

    Raises:
        TypeError: if there is no stochastic classifier inside, or more than one.

    Example:
        >>> import torch, felbo
        >>> model = felbo.MAP(felbo.networks.mlp(2, (8,), 3))
        >>> average = torch.optim.swa_utils.AveragedModel(model)
        >>> unwrap(average) is average.module
        True
    """
    if isinstance(model, StochasticClassifier):
        return model
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"Expected a stochastic classifier, got {type(model).__name__}.")
    found = [part for part in model.modules() if isinstance(part, StochasticClassifier)]
    # A classifier may hold another one, as Tempered does; the outer one comes first.
    inside = set(found[0].modules()) - {found[0]} if found else set()
    found = [part for part in found if part not in inside]
    if len(found) == 1:
        return found[0]
    if found:
        kinds = ", ".join(type(part).__name__ for part in found)
        raise InputTypeError(
            f"{type(model).__name__} holds {len(found)} stochastic classifiers ({kinds}): pass one."
        )
    raise InputTypeError(
        f"{type(model).__name__} is a plain network with one prediction per input. Wrap it first, "
        "for instance as felbo.MAP(network)."
    )
