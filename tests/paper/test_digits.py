import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import felbo
from felbo.cli import app
from felbo.paper import digits
from felbo.paper.catalogue import STUDIES
from felbo.paper.results import Summary

SMOKE = digits.STUDY.presets["smoke"].settings


def summary(metric, model, shift, mean):
    return Summary("digits", metric, model, float(shift), mean, 0.1, 5, mean, mean, mean)


def test_split_keeps_every_image_once_and_the_classes_in_equal_shares():
    x, y, test_x, test_y = digits.split(3)
    assert (len(x), len(test_x)) == (1437, 360)
    share = torch.bincount(test_y) / (torch.bincount(y) + torch.bincount(test_y))
    assert ((share - 0.2).abs() < 0.01).all()
    original = np.sort(load_digits().data.sum(1))
    back = (torch.cat([x, test_x]) + 1.0) * 8.0
    np.testing.assert_array_equal(np.sort(back.flatten(1).sum(1).numpy()), original)
    assert back.min() == 0
    assert back.max() == 16
    assert not torch.equal(digits.split(4)[3], test_y)


def test_validation_images_come_from_the_training_images_only():
    train_x, _, _, _ = digits.split(0)
    x, y, held_x, held_y = digits.split(0, "validation")
    assert len(x) + len(held_x) == len(train_x)
    assert (len(y), len(held_y)) == (len(x), len(held_x))
    seen = {tuple(image.flatten().tolist()) for image in train_x}
    assert all(tuple(image.flatten().tolist()) in seen for image in torch.cat([x, held_x]))


def test_images_are_upright_and_seen_from_the_right_side():
    # Eight mirrored is another sign; compare with scikit-learn's own two-dimensional view.
    x, y, _, _ = digits.split(0)
    images = torch.tensor(load_digits().images, dtype=torch.float32) / 8.0 - 1.0
    matches = (images == x[0]).flatten(1).all(1).nonzero()
    assert len(matches) == 1
    assert load_digits().target[matches.item()] == y[0]


@pytest.mark.parametrize("name", digits.STUDY.models)
def test_what_each_series_minimises(name, monkeypatch):
    calls = {}

    def fit(model, objective, data, *, optimizer, **options):
        calls.update(
            model=model, objective=objective, optimizer=optimizer(model.parameters()), **options
        )

    monkeypatch.setattr(felbo, "fit", fit)
    model = digits.train(name, 0, SMOKE)
    expected = "FunctionSpaceELBO" if name.endswith(" fVI") else "NegativeLogLikelihood"
    if name in ("MFVI", "Radial", "Rank-1"):
        expected = "WeightSpaceELBO"
    assert type(calls["objective"]).__name__ == expected
    decays = {
        key: group["weight_decay"]
        for group in calls["optimizer"].param_groups
        for key, parameter in model.named_parameters()
        if any(parameter is p for p in group["params"])
    }
    assert set(decays) == {key for key, _ in model.named_parameters()}
    for key, decay in decays.items():
        shared = name == "Rank-1" and key.endswith("shared.weight")
        whole = {"MAP": 5e-4, "MC Dropout": 5e-4, "Ensemble": 5e-5}.get(name, 0.0)
        assert decay == pytest.approx(1e-4 if shared else whole), key
    if expected != "NegativeLogLikelihood":
        assert calls["objective"].num_data == 1437
    assert calls["batch_size"] == SMOKE["batch_size"]


def test_run_scores_rotated_images_of_the_held_out_part(monkeypatch):
    _, _, test_x, test_y = digits.split(0)

    class Nearest(felbo.StochasticClassifier):
        """Certain of the label of the nearest upright test image."""

        evaluation_samples = 1

        def forward(self, images, num_samples=None):
            nearest = torch.cdist(images.flatten(1), test_x.flatten(1)).argmin(1)
            return 50.0 * torch.nn.functional.one_hot(test_y[nearest], 10).float().unsqueeze(0)

    monkeypatch.setattr(digits, "train", lambda *args: Nearest())
    found = {(o.metric, o.shift): o.value for o in digits.run("MAP", 0, SMOKE)}
    assert set(found) == {(m, a) for m in digits.METRICS for a in (0.0, 90.0)}
    assert found["accuracy", 0] == 100
    assert found["log_likelihood", 0] == pytest.approx(math.log(1 - 0.9e-4), abs=1e-6)
    turned = torch.rot90(test_x, 1, (1, 2))
    nearest = torch.cdist(turned.flatten(1), test_x.flatten(1)).argmin(1)
    right = (test_y[nearest] == test_y).float().mean().item()
    assert found["accuracy", 90] == pytest.approx(100 * right)
    assert found["ece", 90] == pytest.approx(1 - right, abs=1e-4)


def test_members_of_the_ensemble_are_decayed_as_if_alone():
    """With plain gradients, one step moves a member by the M-th part of a step of MAP."""
    x, y, _, _ = digits.split(0)
    ensemble = digits.MODELS["Ensemble"]()
    alone = felbo.MAP(ensemble.member(0))
    for model, name in ((ensemble, "Ensemble"), (alone, "MAP")):
        loss = felbo.NegativeLogLikelihood()(model, x[:50], y[:50]).total
        weights = sum(p.square().sum() for p in model.parameters())
        (loss + 0.5 * digits.WEIGHT_DECAY[name] * weights).backward()
    stacked = [p.grad[0] for p in ensemble.parameters()]
    for member, single in zip(stacked, alone.parameters(), strict=True):
        torch.testing.assert_close(digits.MEMBERS * member, single.grad, rtol=1e-3, atol=1e-6)


def make_summaries(gains, losses):
    rows = []
    for kind, gain, loss in zip(digits.MODELS, gains, losses, strict=True):
        rows += [
            summary("log_likelihood", kind, 90, -5.0),
            summary("log_likelihood", f"{kind} fVI", 90, -5.0 + gain),
            summary("accuracy", kind, 0, 97.0),
            summary("accuracy", f"{kind} fVI", 0, 97.0 - loss),
            summary("accuracy", kind, 90, 20.0),
            summary("accuracy", f"{kind} fVI", 90, 20.0),
        ]
    return rows


@pytest.mark.parametrize(("wins", "enough"), [(4, True), (3, False)])
def test_claims_count_the_wins(wins, enough):
    gains = [1.0] * wins + [-1.0] * (6 - wins)
    found = digits.claims(make_summaries(gains, [0.0] * 6))
    better = [c.holds for c in found if "better log-likelihood at 90° (" in c.text]
    assert better == [gain > 0 for gain in gains]
    assert found[-1].holds is enough
    assert f"({wins})" in found[-1].text


def test_claims_measure_the_loss_of_accuracy():
    found = digits.claims(make_summaries([1.0] * 6, [-3.0, 0.0, 1.9, 2.1, 5.0, -0.1]))
    held = [c.holds for c in found if "loses at most" in c.text]
    assert held == [True, True, True, False, False, True]


def test_claims_say_nothing_of_models_that_were_not_run():
    rows = make_summaries([1.0] * 6, [0.0] * 6)
    assert len(digits.claims(rows[:6])) == 2
    assert digits.claims(rows[:1]) == []


def test_a_model_has_one_colour_and_two_kinds_of_line():
    look = digits.styles(list(digits.STUDY.models))
    for kind in digits.MODELS:
        plain, function = look[kind], look[f"{kind} fVI"]
        assert plain["color"] == function["color"]
        assert plain["linestyle"] != function["linestyle"]
    assert len({style["color"] for style in look.values()}) == 6


def test_command_writes_table_and_figure_and_prints_the_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["reproduce", "digits", "--preset", "smoke", "--models"]
    result = CliRunner().invoke(app, [*command, "MAP,MAP fVI"], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert STUDIES["digits"] is digits.STUDY
    for ending in (".csv", "_raw.csv", ".png", ".svg"):
        assert (tmp_path / "results" / "smoke" / f"digits{ending}").stat().st_size > 0
    assert "log_likelihood" in result.output
    assert "MAP fVI" in result.output
    assert "MAP: fVI has the better log-likelihood at 90°" in result.output
    rows = (tmp_path / "results" / "smoke" / "digits.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * 2 * 3
