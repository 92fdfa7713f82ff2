"""``felbo.export``: a model as a file that runs without felbo."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from felbo._files import write_atomically
from felbo._numbers import refuse_booleans
from felbo.errors import ExportError, SettingError
from felbo.evaluation import Prediction, predict
from felbo.evaluation.predict import bound_of_precision
from felbo.inputs import Inputs, batch_size, concatenate, map_tensors, tensors
from felbo.models import StochasticClassifier, unwrap
from felbo.saving.fixed import with_fixed_draws, with_shared_masks
from felbo.saving.graph import Numbers, PredictionGraph
from felbo.saving.store import is_estimator

if TYPE_CHECKING:
    from felbo.estimator import FunctionSpaceClassifier

SUFFIXES = (".pt2", ".onnx")
# Largest difference to felbo.predict, of probabilities and of uncertainties in nats.
TOLERANCE = 1e-4


def export(
    model: nn.Module | FunctionSpaceClassifier,
    path: str | PathLike[str],
    example: Any = None,
    *,
    num_data: int | None = None,
    smoothing: float = 1e-4,
    seed: int = 0,
    prepare: nn.Module | None = None,
) -> Path:
    """Write a model as a graph from inputs to ``probabilities [B, K]`` and ``epistemic [B]``.

    The draws of a random model are fixed: those of ``felbo.predict(model, x, seed=seed)``. The file
    is run on the example and compared with the model before it is given its name. Any number of
    inputs can be predicted at once.

    Args:
        model: a stochastic classifier; or a fitted :class:`felbo.FunctionSpaceClassifier` on
            numbers, whose preprocessing is included.
        path: ``.pt2`` for ``torch.export``, ``.onnx`` for ONNX (``pip install 'felbo[onnx]'``).
        example: inputs ``[B, ...]`` that the model takes, or a tuple or dict of such tensors; their
            values do not matter. The graph takes them in the same form, or one by one in ONNX, in
            the same order. A fitted classifier needs none.
        num_data: upper bound of the precision; ``None`` is that of the model, as in
            :func:`felbo.predict`. A fitted classifier has its own.
        smoothing: as in :func:`felbo.predict`, above 0.
        seed: of the draws; a fitted classifier has its own.
        prepare: a module from a user's inputs to the model's, which becomes part of the graph.

    Raises:
        ExportError: if the model cannot be exported, or the file differs from it.

    Example:
        >>> import felbo, tempfile, torch
        >>> model = felbo.Ensemble(lambda: felbo.networks.mlp(2, (8,), 3), members=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = felbo.export(model, f"{folder}/model.pt2", torch.zeros(1, 2), num_data=100)
        ...     probabilities, epistemic = torch.export.load(path).module()(torch.ones(5, 2))
        >>> probabilities.shape, epistemic.shape
        (torch.Size([5, 3]), torch.Size([5]))
    """
    target = Path(path)
    if target.suffix not in SUFFIXES:
        raise SettingError(f"A model is exported to {' or '.join(SUFFIXES)}; got {target}.")
    refuse_booleans(smoothing=smoothing, num_data=num_data)
    if smoothing <= 0:
        raise SettingError(f"smoothing must be above 0 in an exported model, got {smoothing}.")
    if is_estimator(model):
        learner = model.learner_
        prepare, seed, inner = _numbers(model), learner.seed, learner.model
        cap = max(1, round(learner.num_data))
        example = np.zeros((1, model.n_features_in_)) if example is None else example
        x = torch.as_tensor(np.asarray(example, dtype=np.float64))
    elif example is None:
        raise SettingError("A graph is traced with inputs: pass example, such as x[:1].")
    else:
        inner, x = unwrap(model), _inputs(example)
        cap = bound_of_precision(model) if num_data is None else num_data
    # The graph is made for any number of inputs, unless it sees exactly one.
    x = x if batch_size(x) > 1 else concatenate([x, x])
    graph = _graph(inner, x, cap, smoothing, seed, prepare or nn.Identity())
    program = _traced(graph, x)
    content = _torch_file(program) if target.suffix == ".pt2" else _onnx_file(program)
    expected = _reference(inner, graph.prepare(x), cap, smoothing, seed)
    _check(target.suffix, content, x, expected)
    write_atomically(target, content)
    return target


def _inputs(example: Any) -> Inputs:
    """Return inputs of a model: as they are, or an array or lists of numbers as a tensor."""
    if isinstance(example, Mapping):
        return map_tensors(lambda part: part, example)
    if isinstance(example, tuple | list) and any(isinstance(part, Tensor) for part in example):
        return map_tensors(lambda part: part, tuple(example))
    return torch.as_tensor(example)


def _graph(
    model: StochasticClassifier,
    x: Inputs,
    num_data: int,
    smoothing: float,
    seed: int,
    prepare: nn.Module,
) -> PredictionGraph:
    draws = with_fixed_draws(with_shared_masks(model), prepare(x), seed)
    return (
        PredictionGraph(
            draws,
            num_data=num_data,
            smoothing=smoothing,
            gives_concentration=model.gives_concentration,
            is_random=model.is_random,
            prepare=prepare,
        )
        .eval()
        .requires_grad_(False)
    )


def _traced(graph: PredictionGraph, x: Inputs) -> Any:
    batch: Any = {0: torch.export.Dim("batch")}
    try:
        with torch.no_grad():
            shapes = (map_tensors(lambda part: batch, x),)
            return torch.export.export(graph, (x,), dynamic_shapes=shapes)
    except Exception as error:  # torch raises errors of many kinds
        raise ExportError(f"torch.export cannot trace this model: {error}") from error


def _torch_file(program: Any) -> bytes:
    packed = io.BytesIO()
    with _without_remarks("torch.export"):
        torch.export.save(program, packed)
    return packed.getvalue()


def _onnx_file(program: Any) -> bytes:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ExportError(
            f"ONNX needs the package {error.name}: pip install 'felbo[onnx]'."
        ) from error
    names = ["probabilities", "epistemic"]
    with _without_remarks("torch.onnx"):
        made = torch.onnx.export(
            program, dynamo=True, input_names=["x"], output_names=names, verbose=False
        )
    assert made is not None
    return bytes(made.model_proto.SerializeToString())


@contextmanager
def _without_remarks(name: str) -> Iterator[None]:
    """Context manager: suppress warnings and log messages below errors of a package.

    Whether the export is correct is checked afterwards, by comparing the file with the model.
    """
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _run(suffix: str, content: bytes, x: Inputs) -> tuple[Tensor, Tensor]:
    """Return what an exported file gives for some inputs."""
    if suffix == ".pt2":
        loaded = torch.export.load(io.BytesIO(content)).module()
        with torch.no_grad():
            probs, epistemic = loaded(x)
        return probs, epistemic
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [part.name for part in session.get_inputs()]
    given = {name: part.numpy() for name, part in zip(names, tensors(x), strict=True)}
    probs, epistemic = session.run(None, given)
    return torch.as_tensor(probs), torch.as_tensor(epistemic)


def _reference(
    model: StochasticClassifier, x: Inputs, num_data: int, smoothing: float, seed: int
) -> Prediction:
    same = with_shared_masks(model)
    return predict(
        same, x, num_data=num_data, smoothing=smoothing, seed=seed, batch_size=batch_size(x)
    )


def _check(suffix: str, content: bytes, x: Inputs, expected: Prediction) -> None:
    """Raise unless a file gives what the model predicts."""
    probs, epistemic = _run(suffix, content, x)
    pairs = [("probabilities", probs, expected.probs)]
    if expected.is_random:
        pairs.append(("epistemic uncertainty", epistemic, expected.epistemic))
    for name, ours, theirs in pairs:
        difference = float((ours - theirs.to(ours.dtype)).abs().max())
        if not difference <= TOLERANCE:
            raise ExportError(
                f"The exported model differs from the original: its {name} by up to "
                f"{difference:.2g}. It was not written."
            )


def _numbers(classifier: FunctionSpaceClassifier) -> nn.Module:
    """Return the preprocessing of a table of numbers as a module."""
    from felbo.estimator.tables import NumberTable
    from felbo.saving.tables import describe_table
    from felbo.saving.values import unpack_array

    table = classifier.learner_.table
    if isinstance(table, NumberTable):
        return nn.Identity()
    if table.categories:
        raise ExportError(
            "A graph takes numbers, and this classifier has columns of categories. Export "
            "classifier.learner_.model, and pass it classifier.learner_.table.transform(X)."
        )
    found = describe_table(table)
    scaler = found["scaler"]
    parts = [found["medians"], scaler["mean"], scaler["scale"]]
    return Numbers(*(torch.from_numpy(unpack_array(part)) for part in parts))
