"""Settings for every test: one thread per worker, a fixed seed, and no silent skips."""

import pytest
import torch

import felbo

from .settings import pytest_addoption, pytest_collection_modifyitems, pytest_pyfunc_call
from .skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = [
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_make_collect_report",
    "pytest_pyfunc_call",
    "pytest_runtest_makereport",
]

torch.set_num_threads(1)

pytest_plugins = ["pytester"]  # for tests/test_skips.py


@pytest.fixture(autouse=True)
def _fixed_seed():
    felbo.seed_everything(0)
