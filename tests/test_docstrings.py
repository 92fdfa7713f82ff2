"""The examples in the docstrings run and give what they show."""

import doctest
import importlib
from pathlib import Path

import pytest

import felbo

SOURCE = Path(felbo.__file__).parent
MODULES = [
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run_as_shown(name):
    module = importlib.import_module(name)
    # As pages of documentation show them: the names of the module itself are at hand.
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0


def test_the_search_finds_the_examples():
    assert {"felbo.training.loop", "felbo.objectives.function_space"} <= set(MODULES)
