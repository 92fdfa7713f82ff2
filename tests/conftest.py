"""Settings for every test: one thread per worker, a fixed seed, and no silent skips."""

import pytest

from .settings import pytest_addoption, pytest_collection_modifyitems, pytest_pyfunc_call
from .skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = [
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_make_collect_report",
    "pytest_pyfunc_call",
    "pytest_runtest_makereport",
]

pytest_plugins = ["pytester"]  # for tests/test_skips.py


# torch is imported in the fixtures: the process that only hands out tests can do without it.
@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _fixed_seed():
    import felbo

    felbo.seed_everything(0)
