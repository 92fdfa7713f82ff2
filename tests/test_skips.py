"""Only absent data may skip a test."""

from pathlib import Path

HOOKS = Path(__file__).with_name("skips.py")

TESTS = """
import pytest

def test_package():
    pytest.importorskip("no_such_package")

@pytest.mark.skipif(True, reason="no time")
def test_marked():
    pass

def test_data():
    pytest.skip("needs mnist; set FELBO_DATA")

@pytest.mark.xfail(reason="known")
def test_expected():
    raise AssertionError

def test_fine():
    pass
"""


def test_skips_fail_unless_data_are_absent(pytester):
    pytester.makeconftest(HOOKS.read_text(encoding="utf-8"))
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1, errors=1, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(["*Only absent files may skip a test*"])


def test_a_module_that_skips_itself_fails(pytester):
    pytester.makeconftest(HOOKS.read_text(encoding="utf-8"))
    pytester.makepyfile("import pytest\npytest.importorskip('no_such_package')")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
