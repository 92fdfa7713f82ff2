"""Hooks of pytest: only absent data may skip a test."""

import pytest


def _fail_unless_data_are_absent(report):
    """Turn a skip into a failure, except where the publishers' files are not on this machine.

    A test that is skipped for any other reason, such as a package that is not installed, is a test
    that nobody runs.
    """
    reason = str(report.longrepr)
    absent = "FELBO_" in reason or "felbo data fetch" in reason
    if report.skipped and not hasattr(report, "wasxfail") and not absent:
        report.outcome = "failed"
        report.longrepr = (
            f"{reason}\nOnly absent files may skip a test, with a reason that says how to get "
            "them: a variable such as FELBO_DATA, or `felbo data fetch`."
        )
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return _fail_unless_data_are_absent((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return _fail_unless_data_are_absent((yield))
