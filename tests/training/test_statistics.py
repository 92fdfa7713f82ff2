"""Running statistics are restored exactly, whatever buffers a layer has."""

import pytest
import torch
from torch import nn

import felbo
from felbo.training.statistics import RunningStatistics


class WithFurtherBuffers(nn.BatchNorm2d):
    """Batch normalisation with buffers of other kinds, one of them not contiguous."""

    def __init__(self) -> None:
        super().__init__(3)
        self.register_buffer("grid", torch.arange(12.0).view(3, 4).t())
        self.register_buffer("seen", torch.zeros(2, 2, dtype=torch.bool))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.grid += 1.0
        self.seen.fill_(True)
        return super().forward(x)


def test_statistics_after_a_forward_pass_are_put_back() -> None:
    model = nn.Sequential(nn.BatchNorm2d(3), WithFurtherBuffers())
    statistics = RunningStatistics(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    copies = statistics.copy()
    model(torch.randn(4, 3, 5, 5))
    changed = {n for n, value in model.state_dict().items() if not torch.equal(value, before[n])}
    assert {"0.running_mean", "0.num_batches_tracked", "1.grid", "1.seen"} <= changed
    statistics.put_back(copies)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_copies_do_not_follow_the_model() -> None:
    model = nn.BatchNorm1d(2)
    statistics = RunningStatistics(model)
    copies = statistics.copy()
    model.running_mean.fill_(7.0)
    model.num_batches_tracked.fill_(7)
    statistics.put_back(copies)
    assert model.running_mean.tolist() == [0.0, 0.0]
    assert model.num_batches_tracked == 0


def test_layers_in_evaluation_mode_and_without_statistics_have_none() -> None:
    frozen, plain = nn.BatchNorm1d(2).eval(), nn.Linear(2, 2)
    assert RunningStatistics(nn.Sequential(frozen, plain, nn.InstanceNorm1d(2))).copy() == []


def test_buffers_that_were_replaced_between_two_epochs_are_put_back_too() -> None:
    model = felbo.MAP(nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 3)))
    norm, x = model.network[0], torch.randn(8, 2)

    def reset(epoch: felbo.Epoch) -> None:
        norm.running_mean = torch.full((2,), 7.0)
        x[:] = torch.nan

    with pytest.raises(felbo.errors.NonFiniteInputError):
        felbo.fit(
            model,
            felbo.NegativeLogLikelihood(),
            (x, torch.arange(8) % 3),
            epochs=2,
            on_epoch=reset,
            progress=False,
        )
    assert norm.running_mean.tolist() == [7.0, 7.0]
