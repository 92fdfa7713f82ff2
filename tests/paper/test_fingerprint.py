"""What counts as a change of a study's code, on a package that is written and rewritten here."""

import importlib
import linecache
import sys

import pytest

from felbo.paper import catalogue, newton_iterations, rotated_mnist
from felbo.paper.fingerprint import fingerprint

FIRST = '''
"""A study."""
from shelf.tools import half
from shelf import deep
import math

SIZE = 10
TABLE = {"a": lambda: SIZE}
TABLE["b"] = None

def run(model):
    """Train."""
    # quickly
    return half(len(TABLE)) + deep.value() + helper()

def helper():
    return 1

def draw():
    return "red"

STUDY = (run, draw)
'''
TOOLS = """
def half(x):
    return x / FACTOR

FACTOR = 2

def never_called():
    return 0
"""
DEEP = """
from shelf.tools import half

def value():
    return half(8)
"""


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A function that writes the package with some words exchanged and hashes its ``run``."""
    monkeypatch.syspath_prepend(tmp_path)
    files = {"__init__": "", "first": FIRST, "tools": TOOLS, "deep": DEEP}
    (tmp_path / "shelf").mkdir()

    def write_and_hash(old="", new=""):
        for name, text in files.items():
            (tmp_path / "shelf" / f"{name}.py").write_text(text.replace(old, new) if old else text)
        for name in [name for name in sys.modules if name.partition(".")[0] == "shelf"]:
            monkeypatch.delitem(sys.modules, name)
        importlib.invalidate_caches()
        linecache.clearcache()
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            return fingerprint(importlib.import_module("shelf.first").run)
        finally:
            sys.dont_write_bytecode = before

    return write_and_hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+ helper()", "- helper()"),
        ("return 1", "return 2"),
        ("SIZE = 10", "SIZE = 11"),
        ('"a": lambda', '"c": lambda'),
        ('TABLE["b"] = None', 'TABLE["b"] = 1'),
        ("FACTOR = 2", "FACTOR = 3"),
        ("half(8)", "half(9)"),
    ],
)
def test_whatever_run_reaches_counts(shelf, old, new):
    before = shelf()
    assert len(before) == 16
    assert shelf(old, new) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Train."""', '"""Train well."""'),
        ("# quickly", "# slowly"),
        ("return 1\n", "return (1)\n\n"),
        ('"red"', '"blue"'),
        ("return 0", "return 1000"),
        ('"""A study."""', '"""The study."""'),
        ("STUDY = (run, draw)", "STUDY = (run, draw, 3)"),
    ],
)
def test_whatever_it_does_not_reach_and_words_for_readers_do_not(shelf, old, new):
    assert shelf() == shelf(old, new)


def test_functions_inside_others_and_without_a_name():
    def outer():
        return 1

    assert len(fingerprint(outer)) == 16
    assert len(fingerprint(lambda: 1)) == 16
    assert fingerprint(eval("lambda: 1", {"__name__": "__main__"})) == fingerprint(
        eval("lambda: 2", {"__name__": "__main__"})
    )


@pytest.mark.parametrize("study", catalogue.STUDIES.values(), ids=lambda study: study.name)
def test_every_study_has_one(study):
    assert len(fingerprint(study.run)) == 16


def test_studies_of_one_function_share_it_and_others_do_not():
    assert fingerprint(rotated_mnist.STUDY.run) == fingerprint(rotated_mnist.OTHER.run)
    assert fingerprint(rotated_mnist.STUDY.run) != fingerprint(newton_iterations.STUDY.run)
