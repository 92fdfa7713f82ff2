"""Every error of felbo is a FelboError, and of the built-in kind that fits."""

import importlib
import inspect
import pkgutil

import pytest

import felbo

# Signals between parts of the library, or to a caller who asked for them.
NO_ERRORS = {"StopTraining", "Stop", "TrainingInterrupted", "UnknownNetworkError"}
BUILT_IN = (ValueError, TypeError, RuntimeError, OSError, ArithmeticError)


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
