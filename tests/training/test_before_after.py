"""Rows before and after agree with what they are made of."""

import math

import torch

import felbo
from felbo.training.before_after import BeforeAfter, Row, compare_before_after


def linear(scale):
    network = torch.nn.Linear(2, 2)
    torch.nn.init.eye_(network.weight)
    torch.nn.init.zeros_(network.bias)
    network.weight.data *= scale
    return network


def test_rows_are_scores_of_the_two_models():
    x, y = torch.tensor([[3.0, 0.0], [0.0, 2.0], [1.0, 0.0]]), torch.tensor([0, 1, 1])
    before, after = linear(4.0), felbo.MAP(linear(0.5))
    rows = compare_before_after(before, after, (x, y), {"near": (x / 2, y), "far": 10 * x})
    assert [row[:2] for row in rows] == [
        (inputs, model) for inputs in ("data", "near", "far") for model in ("before", "after")
    ]
    for row, model in zip(rows[:2], (felbo.MAP(before), after), strict=True):
        prediction = felbo.predict(model, x)
        expected = felbo.score(prediction, y)
        assert row[2:5] == (expected.accuracy, expected.log_likelihood, expected.ece)
        assert row.confidence == float(prediction.confidence.mean())
        assert math.isnan(row.auroc)
    near, far = rows[3], rows[5]
    assert near.accuracy == rows[1].accuracy
    assert near.auroc > 0.5 > far.auroc
    assert math.isnan(far.accuracy)


def test_points_elsewhere_are_made_from_the_data_and_repeatable():
    x, y = torch.randn(20, 2), torch.arange(20) % 2
    model = felbo.MAP(linear(1.0))
    first, again = (compare_before_after(model, model, (x, y)) for _ in range(2))
    assert [row.inputs for row in first] == ["data", "data"] + ["points elsewhere"] * 2
    assert str(first) == str(again)
    assert first[2][2:] != first[0][2:]


def test_the_table_shows_dashes_for_what_is_not_known():
    row = Row("far", "after", math.nan, math.nan, math.nan, 0.5, 0.987)
    header, line = str(BeforeAfter([row])).splitlines()
    assert header.split()[-1] == "AUROC"
    assert line.split() == ["far", "after", "–", "–", "–", "0.50", "0.987"]
    assert len(header) == len(line)
