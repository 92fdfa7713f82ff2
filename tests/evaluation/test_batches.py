"""Batches of a prediction: how many inputs go through the network at a time."""

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import felbo
from felbo.evaluation.batches import usual_size


@pytest.mark.parametrize(
    ("shape", "on_cpu", "on_accelerator"),
    [
        ((5000, 30), 2048, 2048),  # a table
        ((5000, 784), 2048, 2048),
        ((5000, 1, 28, 28), 334, 2048),
        ((5000, 3, 32, 32), 85, 2048),
        ((5000, 3, 224, 224), 8, 222),  # 2048 such images take 1.2 GB
        ((0, 4), 8, 8),
    ],
)
def test_large_inputs_go_in_small_batches(shape, on_cpu, on_accelerator):
    x = torch.empty(shape, device="meta")  # of no memory
    assert usual_size(x, torch.device("cpu")) == on_cpu
    assert usual_size(x, torch.device("cuda")) == on_accelerator
    assert usual_size({"a": x, "b": x[:, :0]}, torch.device("cpu")) == on_cpu


def test_tokens_go_in_small_batches_too():
    tokens = {"ids": torch.zeros(5000, 512, dtype=torch.int64)}  # a network makes vectors of them
    assert usual_size(tokens, torch.device("cpu")) == 512


class Recording(nn.Module):
    """Notes how many inputs it is given."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3 * 32 * 32, 4)
        self.sizes = []

    def forward(self, x):
        self.sizes.append(len(x))
        return self.linear(x.flatten(1))


def test_every_prediction_takes_such_batches():
    x, y = torch.randn(200, 3, 32, 32), torch.arange(200) % 4
    model = felbo.MAP(Recording()).eval()

    def sizes(function, *arguments, **options):
        model.network.sizes.clear()
        function(model, *arguments, **options)
        return model.network.sizes

    felbo.predict(model, x[:1])  # the first call also looks whether inputs are overwritten
    assert sizes(felbo.predict, x) == [85, 85, 30]
    assert sizes(felbo.predict, TensorDataset(x, y)) == [128, 72]
    assert sizes(felbo.predict, x, batch_size=150) == [150, 50]
    assert sizes(felbo.evaluate, (x, y)) == [85, 85, 30]
    assert sizes(felbo.evaluate, TensorDataset(x, y)) == [128, 72]
    assert sizes(felbo.evaluate, (x, y), batch_size=150) == [150, 50]
    assert sizes(felbo.calibrate, (x, y)) == [85, 85, 30]
