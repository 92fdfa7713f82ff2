"""The examples in the docstrings run and give what they show."""

import doctest
import importlib
import pkgutil

import pytest

import felbo

MODULES = ["felbo", *(m.name for m in pkgutil.walk_packages(felbo.__path__, prefix="felbo."))]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_examples_run_as_shown(name):
    module = importlib.import_module(name)
    # As pages of documentation show them: the names of the module itself are at hand.
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_the_walk_finds_the_examples():
    finder = doctest.DocTestFinder()
    found = finder.find(importlib.import_module("felbo.training.loop"))
    assert sum(len(test.examples) for test in found) >= 5
    assert "felbo.objectives.function_space" in MODULES
