import math

import numpy as np
import pytest
import torch

from felbo import Prediction, evaluate, score

from .samples import overconfident


def predictions(size=500, classes=10):
    return (part.numpy() for part in overconfident(size, classes))


def scored(probs, labels, **options):
    return score(torch.as_tensor(np.asarray(probs)), torch.as_tensor(np.asarray(labels)), **options)


def ece_by_hand(probs, labels, bins):
    """Σ_b (n_b / n) |accuracy_b − confidence_b| over bins of equal width, the last one closed."""
    confidence, right = probs.max(1), probs.argmax(1) == labels
    error = 0.0
    for b in range(bins):
        low, high = b / bins, (b + 1) / bins
        inside = (confidence >= low) & ((confidence < high) | (b == bins - 1))
        if inside.any():
            error += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return error


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("bins", [15, 7])
def test_against_transcriptions(classes, bins):
    probs, labels = predictions(classes=classes)
    found = scored(probs, labels, bins=bins)
    rows = np.arange(len(labels))
    assert found.accuracy == pytest.approx(100 * (probs.argmax(1) == labels).mean())
    smoothed = (1 - 1e-4) * probs[rows, labels] + 1e-4 / classes
    assert found.log_likelihood == pytest.approx(np.log(smoothed).mean(), abs=1e-9)
    one_hot = np.eye(classes)[labels]
    assert found.brier == pytest.approx(((probs - one_hot) ** 2).sum(1).mean(), abs=1e-9)
    assert found.ece == pytest.approx(ece_by_hand(probs, labels, bins), abs=1e-5)
    assert found.ece > 0.02


def test_fifteen_bins_unless_told():
    probs, labels = predictions()
    assert scored(probs, labels).ece == scored(probs, labels, bins=15).ece
    assert scored(probs, labels).ece != scored(probs, labels, bins=14).ece


def test_a_confident_mistake_counts_no_less_than_the_floor():
    probs = torch.eye(10)[:1]
    found = score(probs, torch.tensor([3]))
    assert found.log_likelihood == pytest.approx(math.log(1e-5), abs=1e-5)
    assert found.log_likelihood == pytest.approx(-11.51, abs=0.005)
    assert score(probs, torch.tensor([3]), smoothing=0.0).log_likelihood == -math.inf
    assert found.brier == pytest.approx(2.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_calibration_error_is_that_of_evaluate_also_at_the_edges_of_bins(dtype):
    """Votes of five trees: every confidence, 3/5, 4/5 and 1, is an edge of the 15 bins."""
    generator = torch.Generator().manual_seed(0)
    votes = torch.randint(6, (300,), generator=generator)
    probs = torch.stack([votes, 5 - votes], -1).to(dtype) / 5
    labels = torch.randint(2, (300,), generator=generator)
    confidence, right = probs.amax(-1), probs.argmax(-1) == labels
    groups = [confidence == value for value in confidence.unique()]
    gaps = [(right[g].double().mean() - confidence[g].double().mean()).abs() for g in groups]
    expected = sum(float(g.double().mean() * gap) for g, gap in zip(groups, gaps, strict=True))
    assert score(probs, labels).ece == pytest.approx(expected, abs=1e-6)
    found = evaluate(Prediction(probs, probs + 1), labels, resamples=1).test
    assert score(probs, labels).ece == found.ece.value
    assert score(probs, labels).accuracy == pytest.approx(found.accuracy.value, abs=1e-12)


def test_certainty_falls_into_the_last_bin():
    """Items at 1 and just below share a bin, so that errors of opposite sign cancel in it."""
    probs = torch.tensor([[1.0, 0.0], [0.95, 0.05], [0.95, 0.05], [0.95, 0.05]])
    labels = torch.tensor([1, 0, 0, 0])
    assert score(probs, labels).ece == pytest.approx(abs(0.75 - 3.85 / 4), abs=1e-6)


def test_rounding_above_one_is_not_taken_for_logits():
    probs = torch.tensor([[1.0000001, 0.0], [0.3, 0.7]])
    assert score(probs, torch.tensor([0, 1])).ece == pytest.approx(0.15, abs=1e-6)


def test_perfect_and_uniform_predictions():
    labels = torch.arange(10)
    perfect = score(torch.eye(10), labels, smoothing=0.0)
    assert perfect == pytest.approx((100.0, 0.0, 0.0, 0.0), abs=1e-6)
    uniform = score(torch.full((10, 10), 0.1), labels)
    assert uniform.log_likelihood == pytest.approx(-math.log(10), abs=1e-6)
    assert uniform.brier == pytest.approx(0.9, abs=1e-6)


def test_predictions_arrays_and_labels_of_any_integer_type():
    probs, labels = predictions(50)
    expected = scored(probs, labels)
    probs = torch.as_tensor(probs)
    assert score(Prediction(probs, probs), torch.as_tensor(labels)) == expected
    assert score(probs.numpy(), labels) == expected
    for dtype in (torch.uint8, torch.int16, torch.int32, torch.float32):
        assert score(probs, torch.as_tensor(labels).to(dtype)) == expected
    assert score(probs.tolist(), labels.tolist()) == expected


HALF, NAN = torch.full((3, 2), 0.5), torch.full((3, 2), 0.5)
NAN[1, 0] = torch.nan


@pytest.mark.parametrize(
    ("probs", "labels", "message"),
    [
        (HALF[:, 0], torch.zeros(3), r"B ≥ 1 and K ≥ 2; got \[3\]"),
        (HALF, torch.zeros(2), r"one label per input, shape \[3\], got \[2\]"),
        (HALF, HALF, r"not integers"),
        (HALF[:0], torch.zeros(0), r"B ≥ 1.*got \[0, 2\]"),
        (10 * HALF, torch.zeros(3), "pass probabilities, not logits"),
        (torch.tensor([[1.5, -0.5]]), torch.zeros(1), "not negative, got -0.5"),
        (NAN, torch.zeros(3), "probabilities of item 1 hold NaN"),
        (Prediction(NAN, NAN), torch.zeros(3), "probabilities of item 1 hold NaN"),
        (HALF, torch.tensor([0, 2, 1]), "0 … 1.*from 0 to 2"),
        (HALF, torch.tensor([0, -1, 1]), "from -1 to 1"),
        (HALF, torch.tensor([0.0, 0.5, 1.0]), "values that are not integers"),
        (HALF, torch.tensor([0.0, torch.nan, 1.0]), "values that are not integers"),
        (HALF, np.array(["a", "b", "a"]), "LabelEncoder"),
    ],
)
def test_what_is_no_prediction_or_no_label_is_refused(probs, labels, message):
    with pytest.raises((ValueError, TypeError), match=message):
        score(probs, labels)
