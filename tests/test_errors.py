"""Every error of felbo is a FelboError, and of the built-in kind that fits."""

import ast
import builtins
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import felbo

# Signals between parts of the library, or to a caller who asked for them.
NO_ERRORS = {"StopTraining", "Stop", "TrainingInterrupted", "UnknownNetworkError"}
BUILT_IN = (ValueError, TypeError, RuntimeError, OSError, ArithmeticError)
# Where a built-in error is right: Python's protocols, and what is caught one call further up and
# told with the name of the file. Studies of the paper keep the text that their results are kept by.
PLAIN = {
    "AttributeError": {"__init__.py", "lightning/__init__.py"},
    "ImportError": {
        "evaluation/prediction_tables.py",
        "lightning/package.py",
        "models/_laplace_torch.py",
    },
    "IndexError": {"evaluation/indexing.py", "models/ensemble.py"},
    "FileNotFoundError": {"paper/results.py", "paper/runner.py", "studies/tuned_resnets.py"},
    "TypeError": {
        "paper/cells.py",
        "saving/networks.py",
        "training/slices.py",  # of len()
        "training/trees.py",
    },
    "ValueError": {
        "_arrays.py",
        "networks/resnet_cifar.py",
        "paper/cells.py",
        "paper/results.py",
        "paper/rotated_mnist.py",
        "saving/values.py",
        "workflow/folder.py",
    },
}


def exceptions():
    for module in pkgutil.walk_packages(felbo.__path__, "felbo."):
        for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            own = kind.__module__ == module.name and issubclass(kind, BaseException)
            if own and not issubclass(kind, Warning) and name not in NO_ERRORS:
                yield kind


def test_all_derive_from_one_base_and_from_a_built_in():
    found = set(exceptions()) - {felbo.FelboError}
    assert len(found) > 12
    for kind in found:
        assert issubclass(kind, felbo.FelboError), kind
        assert issubclass(kind, BUILT_IN), kind


def test_no_built_in_error_is_raised_where_a_named_one_fits():
    found: dict[str, set[str]] = {}
    root = Path(felbo.__path__[0])
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            raised = node.exc if isinstance(node, ast.Raise) else None
            raised = raised.func if isinstance(raised, ast.Call) else raised
            kind = getattr(builtins, raised.id, None) if isinstance(raised, ast.Name) else None
            if kind is not None and issubclass(kind, Exception):
                found.setdefault(raised.id, set()).add(path.relative_to(root).as_posix())
    assert found == PLAIN


@pytest.mark.parametrize(
    "call",
    [
        lambda: felbo.measurement.Grid([(0.0, 1.0)], step=-1.0),
        lambda: felbo.FunctionSpaceELBO(felbo.UniformPrior(3), 10, smoothing=2.0),
        lambda: felbo.predict(felbo.MAP(felbo.networks.mlp(2, (4,), 2)), batch_size=1),
        lambda: felbo.ModelPrior(felbo.MAP(felbo.networks.mlp(2, (4,), 2))),
        lambda: felbo.FunctionSpaceClassifier(epochs=1).fit([[0.0], [1.0]], [1, 1]),
        lambda: felbo.load("nothing.safetensors"),
        lambda: felbo.Ensemble(felbo.networks.mlp(2, (4,), 2), 3),
    ],
    ids=["measurement", "objective", "predict", "prior", "classifier", "file", "model"],
)
def test_wrong_arguments_are_refused_by_a_named_error(call):
    with pytest.raises(felbo.FelboError) as caught:
        call()
    assert isinstance(caught.value, (ValueError, TypeError, FileNotFoundError))


def test_an_interruption_is_not_swallowed_as_an_error():
    assert issubclass(felbo.TrainingInterrupted, KeyboardInterrupt)
    assert not issubclass(felbo.TrainingInterrupted, Exception)


def test_a_step_is_named_once_it_is_known():
    error = felbo.errors.DivergedError("The loss became nan.", "kl")
    assert str(error) == "The loss became nan."
    error.step = 7
    assert str(error) == "Step 7: The loss became nan."
    with pytest.raises(FloatingPointError):
        raise error
