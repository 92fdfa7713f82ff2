import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import multiclass_calibration_error

from felbo import score
from felbo.evaluation import calibration_error
from felbo.evaluation.calibration import by_mass, by_width, cells, error_of

from .samples import overconfident, seeded


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("bins", [15, 4])
def test_top_label_with_equal_widths_against_torchmetrics(norm, bins):
    probs, labels = overconfident()
    oracle = float(multiclass_calibration_error(probs, labels, 4, n_bins=bins, norm=norm))
    found = calibration_error(probs, labels, norm=norm, bins=bins)
    assert found == pytest.approx(oracle, abs=1e-6)
    assert found > 0.02


def test_the_plain_error_is_that_of_score():
    probs, labels = overconfident()
    assert calibration_error(probs, labels) == pytest.approx(score(probs, labels).ece, abs=1e-6)


def binned_gaps(stated, happened, groups):
    """Pairs of share and gap of each group of items."""
    return [
        (len(group) / len(stated), abs(stated[group].mean() - happened[group].mean()))
        for group in groups
        if len(group)
    ]


def test_equal_mass_against_sorted_slices():
    probs, labels = overconfident(size=300)
    stated, happened = probs.numpy().max(1), (probs.argmax(1) == labels).numpy()
    gaps = binned_gaps(stated, happened, np.array_split(np.argsort(stated), 15))
    l1 = sum(share * gap for share, gap in gaps)
    l2 = np.sqrt(sum(share * gap**2 for share, gap in gaps))
    assert calibration_error(probs, labels, binning="mass") == pytest.approx(l1, abs=1e-12)
    assert calibration_error(probs, labels, binning="mass", norm="l2") == pytest.approx(l2)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_classwise_is_the_mean_over_classes(norm):
    probs, labels = overconfident(classes=3)
    errors = []
    for k in range(3):
        stated, happened = probs[:, k].numpy(), (labels == k).numpy()
        index = np.minimum((stated * 15).astype(int), 14)
        gaps = binned_gaps(stated, happened, [np.flatnonzero(index == b) for b in range(15)])
        errors.append(
            {
                "l1": sum(share * gap for share, gap in gaps),
                "l2": np.sqrt(sum(share * gap**2 for share, gap in gaps)),
                "max": max(gap for _, gap in gaps),
            }[norm]
        )
    found = calibration_error(probs, labels, event="class", norm=norm)
    assert found == pytest.approx(np.mean(errors), abs=1e-12)


def test_constructed_errors():
    """Confidence 0.9 right 6 of 10 times, confidence 0.6 right 9 of 10 times: gaps of 0.3."""
    probs = torch.tensor([[0.9, 0.1]] * 10 + [[0.6, 0.4]] * 10)
    labels = torch.tensor([0] * 6 + [1] * 4 + [0] * 9 + [1])
    for norm in ("l1", "l2", "max"):
        assert calibration_error(probs, labels, norm=norm) == pytest.approx(0.3, abs=1e-6)
    # In one bin the two cancel.
    assert calibration_error(probs, labels, bins=1) == pytest.approx(0.0, abs=1e-6)
    assert calibration_error(probs, labels, binning="mass", bins=2) == pytest.approx(0.3, abs=1e-6)


def test_widths_are_closed_on_the_left_and_the_last_on_both_sides():
    stated = torch.tensor([0.0, 0.1, 0.25, 0.5, 0.74, 0.75, 1.0]).double()
    assert by_width(stated, 4).tolist() == [0, 0, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("bins", [3, 5, 10, 15, 20, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_probability_at_an_edge_falls_into_the_bin_above_whatever_its_rounding(bins, dtype):
    edges = torch.tensor([i / bins for i in range(bins + 1)], dtype=dtype)
    beside = torch.nextafter(edges, torch.tensor(0.0, dtype=dtype))
    expected = [*range(bins), bins - 1]
    assert by_width(edges.double(), bins).tolist() == expected
    assert by_width(beside.double(), bins).tolist() == expected


def test_equal_probabilities_share_a_bin_of_equal_mass():
    stated = torch.tensor([[0.3], [0.3], [0.3], [0.3], [0.6], [0.9]]).double()
    assert by_mass(stated, 3).flatten().tolist() == [0, 0, 0, 0, 2, 2]
    distinct = torch.arange(12.0).double()[:, None]
    assert by_mass(distinct, 4).flatten().tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3


@pytest.mark.parametrize("event", ["top", "class"])
@pytest.mark.parametrize("binning", ["width", "mass"])
def test_the_order_of_items_does_not_matter(event, binning):
    probs, labels = overconfident(size=100)
    probs = (probs * 8).round() / 8  # ties
    probs = probs / probs.sum(-1, keepdim=True)
    order = torch.randperm(100, generator=seeded())
    same = {"event": event, "binning": binning}
    first = calibration_error(probs, labels, **same)
    assert calibration_error(probs[order], labels[order], **same) == pytest.approx(first, abs=1e-12)


@pytest.mark.parametrize("event", ["top", "class"])
@pytest.mark.parametrize("binning", ["width", "mass"])
def test_weights_multiply_gaps_and_leave_the_counts_of_the_data(event, binning):
    probs, labels = overconfident(size=60)
    weights = torch.rand(3, 60, generator=seeded(), dtype=torch.float64) - 0.5
    found = cells(probs, labels, event, binning)
    sums = torch.zeros(3, found.size, dtype=torch.float64)
    for item, event_cells in enumerate(found.cell):
        for cell, gap in zip(event_cells, found.gap[item], strict=True):
            sums[:, cell] += weights[:, item] * gap
    gap = sums.abs() / torch.bincount(found.cell.flatten(), minlength=found.size).clamp(min=1)
    share = torch.bincount(found.cell.flatten(), minlength=found.size) / 60
    by_event = {
        "l1": (share * gap).view(3, -1, 15).sum(-1),
        "l2": (share * gap**2).view(3, -1, 15).sum(-1).sqrt(),
        "max": gap.view(3, -1, 15).amax(-1),
    }
    for norm, expected in by_event.items():
        assert torch.allclose(error_of(found, weights, norm), expected.mean(-1), atol=1e-12), norm


@pytest.mark.parametrize(
    "settings", [{"event": "any"}, {"binning": "equal"}, {"norm": "l3"}, {"bins": 0}, {"bins": 1.5}]
)
def test_unknown_settings_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        calibration_error(*overconfident(10), **settings)
