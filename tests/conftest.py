"""Settings for every test: one thread per worker, and a fixed seed."""

import pytest
import torch

import felbo

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _fixed_seed():
    felbo.seed_everything(0)
