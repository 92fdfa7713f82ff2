import json

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo.evaluation import detection, quality

from .samples import seeded

X = torch.randn(120, 2, generator=seeded())
Y = (X[:, 0] > 0).long() + (X[:, 1] > 0.5).long()
SHIFTED = X + 0.4
FAR = 8 + X
FEW = {"resamples": 50, "seed": 0}


@pytest.fixture(scope="module")
def model():
    felbo.seed_everything(0)
    model = felbo.Ensemble(lambda: felbo.networks.mlp(2, (16,), 3), members=3)
    objective = felbo.NegativeLogLikelihood()
    felbo.fit(model, objective, (X, Y), epochs=40, learning_rate=0.02, progress=False)
    model.num_data = None  # a bound of 120 would make ties of the largest precisions
    return model


@pytest.fixture(scope="module")
def found(model):
    data = {"ood": {"far": FAR, "same": X}, "shifts": {"moved": (SHIFTED, Y)}}
    return felbo.evaluate(model, (X, Y), **data, generator=seeded(), **FEW)


def test_every_part_is_what_its_own_function_gives(model, found):
    here, moved, far = (felbo.predict(model, x) for x in (X, SHIFTED, FAR))
    assert found.test == quality(here, Y, resamples=50, generator=seeded())
    scores = felbo.score(moved, Y)
    assert found.shifts["moved"].accuracy.value == pytest.approx(scores.accuracy, abs=1e-4)
    assert found.shifts["moved"].accuracy.value < found.test.accuracy.value
    assert found.ood["far"]["precision"] == detection(-here.precision, -far.precision)
    assert found.ood["far"]["total"] == detection(here.total, far.total)
    assert set(found.ood["far"]) == {"confidence", "total", "epistemic", "precision"}


def test_data_cannot_be_told_from_themselves(found):
    for score, measured in found.ood["same"].items():
        assert measured.auroc == pytest.approx(0.5, abs=1e-6), score
        assert measured.fpr95 == pytest.approx(0.95, abs=0.01), score


def test_predictions_give_the_same_as_the_model(model, found):
    here, moved, far = (felbo.predict(model, x) for x in (X, SHIFTED, FAR))
    again = felbo.evaluate(
        here,
        Y,
        ood={"far": far, "same": here},
        shifts={"moved": (moved, Y)},
        resamples=50,
        generator=seeded(),
    )
    assert again == found


def test_loaders_in_any_order(model, found):
    loader = DataLoader(TensorDataset(X, Y), 32, shuffle=True, generator=seeded(1))
    again = felbo.evaluate(model, loader, ood={"far": DataLoader(TensorDataset(FAR), 50)}, **FEW)
    assert again.test.log_likelihood.value == pytest.approx(found.test.log_likelihood.value)
    assert again.ood["far"]["epistemic"].auroc == pytest.approx(found.ood["far"]["epistemic"].auroc)


def test_arrays(model, found):
    again = felbo.evaluate(model, (X.numpy(), Y.numpy()), ood={"far": FAR.numpy()}, **FEW)
    assert again.test.brier.value == pytest.approx(found.test.brier.value)


def test_it_is_ready_for_json_and_loses_nothing(found):
    loaded = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert loaded == found.to_dict()
    assert loaded["test"]["ece"]["low"] == found.test.ece.low
    assert (
        loaded["test"]["selective"]["total"]["accuracy_at"]["0.9"]
        == (found.test.selective["total"].accuracy_at[0.9])
    )
    assert loaded["ood"]["far"]["epistemic"]["fpr95"] == found.ood["far"]["epistemic"].fpr95


def test_it_prints_as_tables(found):
    lines = repr(found).splitlines()
    assert lines[0].split() == ["test", "120", "items"]
    assert f"log_likelihood   {found.test.log_likelihood}" in lines
    far = next(line.split() for line in lines if line.startswith("far") and "total" in line)
    assert far[2] == f"{found.ood['far']['total'].auroc:.4f}"
    assert any(line.startswith("moved") for line in lines)
    assert max(map(len, lines)) < 160


def test_the_same_seeds_give_the_same_result():
    model = felbo.MCDropout(felbo.networks.mlp(2, (8,), 3))
    first, second = (
        felbo.evaluate(model, (X, Y), ood={"far": FAR}, generator=seeded(5), **FEW)
        for _ in range(2)
    )
    assert first == second


def test_a_single_draw_has_no_epistemic_score(recwarn):
    model = felbo.MAP(felbo.networks.mlp(2, (8,), 3))
    found = felbo.evaluate(model, (X, Y), ood={"far": FAR}, **FEW)
    assert list(found.ood["far"]) == list(found.test.selective) == ["confidence", "total"]
    assert not [w for w in recwarn if "epistemic" in str(w.message)]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"test": X}, TypeError, "pair"),
        ({"ood": FAR}, TypeError, "ood is a dict"),
        ({"shifts": (X, Y)}, TypeError, "shifts is a dict"),
        ({"ood": {"none": FAR[:0]}}, ValueError, "nothing to predict"),
        ({"ood": {"bad": FAR * torch.nan}}, ValueError, "not finite"),
        ({"test": (X, Y + 1)}, ValueError, "0 … 2"),
        ({"coverages": (90,)}, ValueError, "fraction"),
        ({"accuracies": (0.9,)}, ValueError, "per cent"),
    ],
)
def test_bad_input_is_refused(model, arguments, error, message):
    with pytest.raises(error, match=message):
        felbo.evaluate(model, **{"test": (X, Y), **FEW, **arguments})


@pytest.mark.parametrize(
    ("test", "ood", "message"),
    [((X, Y), None, "labels .B. alone"), (Y, {"far": FAR}, "must be a prediction")],
)
def test_a_prediction_takes_no_inputs(model, test, ood, message):
    with pytest.raises(TypeError, match=message):
        felbo.evaluate(felbo.predict(model, X), test, ood=ood)


@pytest.mark.parametrize("shape", [(3, 0, 3), (3, 20, 4)])
def test_predictions_from_elsewhere_need_inputs_and_the_same_classes(model, shape):
    foreign = felbo.predict(torch.full(shape, 1 / shape[-1]))
    with pytest.raises(ValueError, match=rf"ood\['far'\] .*with 3 classes, .*got \[{shape[1]}, "):
        felbo.evaluate(model, (X, Y), ood={"far": foreign}, **FEW)
