"""``felbo.save`` and ``felbo.load``."""

from __future__ import annotations

import sys
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from torch import nn

from felbo._container import SavedFileError, read, write
from felbo._files import OutputFolderError
from felbo.errors import InputTypeError
from felbo.models import StochasticClassifier, unwrap
from felbo.saving.models import Networks, build_model, describe_model

if TYPE_CHECKING:
    from felbo.estimator import FunctionSpaceClassifier


def save(model: nn.Module | FunctionSpaceClassifier, path: str | PathLike[str]) -> Path:
    """Save a model or a fitted classifier to one file, without pickle.

    The file is in the format of safetensors: the weights, and a description of the model as JSON,
    with a format version and a checksum of both. A network of :mod:`felbo.networks`, or any
    ``nn.Sequential`` of torch's common layers, is described completely; of another one only the
    weights are saved, and :func:`load` asks for the network.

    Args:
        model: a stochastic classifier, also inside a wrapper (compiled, averaged, distributed); or
            a fitted :class:`felbo.FunctionSpaceClassifier`.
        path: of the file; an existing one is replaced once the new one is complete.

    Example:
        >>> import felbo, tempfile, torch
        >>> model = felbo.MeanField(felbo.networks.mlp(2, (8,), 3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     same = felbo.load(felbo.save(model, f"{folder}/model.safetensors"))
        >>> torch.equal(same.rho.get_parameter("1.weight"), model.rho.get_parameter("1.weight"))
        True
    """
    from felbo import __version__

    target = Path(path)
    if target.is_dir():
        raise OutputFolderError(f"{target} is a folder; give the name of a file in it.")
    if is_estimator(model):
        from felbo.saving.classifier import describe_classifier

        content, tensors = describe_classifier(model)
        what = "classifier"
    elif isinstance(model, nn.Module):
        inner: StochasticClassifier = unwrap(model)
        content, tensors, what = describe_model(inner), inner.state_dict(), "model"
    else:
        raise InputTypeError(
            "felbo.save takes a stochastic classifier or a fitted FunctionSpaceClassifier, got "
            f"{type(model).__name__}."
        )
    write(target, {"felbo": __version__, "what": what, what: content}, tensors)
    return target


def load(path: str | PathLike[str], *, network: Networks | None = None) -> Any:
    """Load what :func:`save` wrote, on the CPU; no code in the file is run.

    Args:
        path: of the file.
        network: the network inside the model, for one that felbo cannot build itself: built as the
            saved one was, with any weights; or a function that builds it. For an ensemble of
            different networks, a list of them.

    Returns:
        The :class:`felbo.StochasticClassifier` or :class:`felbo.FunctionSpaceClassifier`.

    Raises:
        SavedFileError: if the file is damaged, from a newer felbo, or needs ``network``.
    """
    source = Path(path)
    content, tensors = read(source)
    try:
        if content["what"] == "classifier":
            from felbo.saving.classifier import build_classifier

            return build_classifier(content["classifier"], tensors, network)
        return build_model(content["model"], tensors, network)
    except SavedFileError:
        raise
    except Exception as error:
        if network is not None and not isinstance(error, KeyError | IndexError | AttributeError):
            raise  # it may come from the network that was passed
        raise SavedFileError(
            f"{source} does not describe a model that this felbo can build: {error!r}."
        ) from error


def is_estimator(model: Any) -> TypeGuard[FunctionSpaceClassifier]:
    """Return True for a FunctionSpaceClassifier; its room is loaded if there is one."""
    room = sys.modules.get("felbo.estimator")
    return room is not None and isinstance(model, room.FunctionSpaceClassifier)
