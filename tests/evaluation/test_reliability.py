import pytest
import torch

from felbo.evaluation import calibration_error, reliability

from .samples import overconfident


def test_a_constructed_diagram():
    probs = torch.tensor([[0.95, 0.05], [0.85, 0.15], [0.92, 0.08], [0.4, 0.6]])
    found = reliability(probs, torch.tensor([0, 1, 1, 1]), bins=10)
    assert found.count == (1, 1, 2)
    assert found.low == pytest.approx((0.6, 0.8, 0.9))
    assert found.high == pytest.approx((0.7, 0.9, 1.0))
    assert found.confidence == pytest.approx((0.6, 0.85, 0.935))
    assert found.accuracy == (1.0, 0.0, 0.5)


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_its_error_is_the_calibration_error(binning):
    probs, labels = overconfident()
    found = reliability(probs, labels, binning=binning)
    assert sum(found.count) == len(labels)
    assert found.ece == pytest.approx(calibration_error(probs, labels, binning=binning))


def test_bins_of_equal_mass_reach_from_their_least_to_their_largest_confidence():
    probs, labels = overconfident(size=300)
    found = reliability(probs, labels, binning="mass", bins=10)
    assert found.count == (30,) * 10
    slices = probs.amax(-1).sort().values.view(10, 30)
    assert found.low == pytest.approx(slices[:, 0].tolist())
    assert found.high == pytest.approx(slices[:, -1].tolist())
