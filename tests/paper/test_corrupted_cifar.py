"""CIFAR under corruption: presets, claims on made-up numbers, and smoke runs on a stand-in."""

import json
from statistics import fmean

import pytest
import torch

import felbo
from felbo.paper import cifar, corrupted_cifar
from felbo.paper.cifar_workload import weights_of
from felbo.paper.corrupted_cifar import (
    ABLATION_CIFAR10,
    BASELINES_CIFAR10,
    CIFAR10,
    CIFAR100,
    CIFAR100_FULL_WEIGHT,
    claims,
)
from felbo.paper.published import published
from felbo.paper.results import Summary
from felbo.paper.runner import reproduce

STUDIES = (CIFAR10, CIFAR100, CIFAR100_FULL_WEIGHT, BASELINES_CIFAR10, ABLATION_CIFAR10)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_paper_preset_is_the_published_protocol(study):
    preset = study.presets["paper"]
    assert preset.seeds == 10
    assert {key: preset.settings[key] for key in cifar.PAPER} == cifar.PAPER
    assert preset.settings["kl_scale"] == (0.1 if study is CIFAR100 else 1.0)
    assert preset.settings["corruptions"] == felbo.data.CORRUPTIONS
    assert len(felbo.data.CORRUPTIONS) == 19
    assert preset.settings["severities"] == (0, 1, 2, 3, 4, 5)
    assert preset.settings["test_size"] == preset.settings["clean_size"] == 10_000


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_reduced_preset_has_all_corruptions_on_a_thousand_images(study):
    settings = study.presets["cpu"].settings
    assert settings["corruptions"] == felbo.data.CORRUPTIONS
    assert settings["test_size"] == 1000
    assert settings["train_size"] == 50_000


def test_baselines_that_need_it_have_a_learning_rate_of_their_own():
    settings = BASELINES_CIFAR10.presets["cpu"].settings
    own = settings["own_rates"]
    for model in BASELINES_CIFAR10.models:
        used = BASELINES_CIFAR10.uses(model, settings)
        assert used["rate"] == own.get(model, cifar.CPU["rate"])
        # So that the cells of the others stay valid.
        assert "own_rates" not in used
    paper = BASELINES_CIFAR10.presets["paper"].settings
    assert BASELINES_CIFAR10.uses("Prior Networks", paper) == paper


def test_every_published_series_is_a_model_and_every_shift_is_measured():
    for study in (CIFAR10, CIFAR100):
        rows = published(study.compared_with)
        named = {*study.models, *(BASELINES_CIFAR10.models if study is CIFAR10 else ())}
        assert {row.model for row in rows} <= named
        assert {row.shift for row in rows} == {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}
    # The paper's figure shows ensembles beside, which are series of the main study.
    rows = published(ABLATION_CIFAR10.compared_with)
    assert {row.model for row in rows if "Ensemble" not in row.model} == set(
        ABLATION_CIFAR10.models
    )


def summary(metric, model, shift, value):
    return Summary("corrupted_cifar10", metric, model, shift, value, 0.0, 1, value, value, value)


def made_up(**changes):
    """MAP and MAP fVI at severities 3 to 5, fVI better in everything unless changed at 4."""
    rows = []
    for metric, plain, fvi in (
        ("accuracy", 70.0, 69.0),
        ("log_likelihood", -1.0, -0.9),
        ("ece", 0.2, 0.1),
    ):
        for shift in (2.0, 3.0, 4.0, 5.0):
            rows.append(summary(metric, "MAP", shift, plain))
            value = changes.get(metric, fvi) if shift == 4.0 else fvi
            rows.append(summary(metric, "MAP fVI", shift, value))
    return rows


def test_claims_hold_where_every_severity_agrees():
    found = claims(made_up())
    assert [claim.holds for claim in found] == [True, True, True]
    assert [claim.text.partition(":")[0] for claim in found] == ["MAP"] * 3
    assert "at 3, 4, 5" in found[0].text
    assert "(-1.00)" in found[1].text


@pytest.mark.parametrize(
    ("change", "fails"),
    [({"log_likelihood": -1.01}, 0), ({"accuracy": 67.9}, 1), ({"ece": 0.21}, 2)],
)
def test_one_severity_is_enough_to_fail_a_claim(change, fails):
    found = claims(made_up(**change))
    assert [claim.holds for claim in found] == [n != fails for n in range(3)]


def test_claims_need_both_models():
    assert claims([row for row in made_up() if row.model == "MAP"]) == []
    assert claims([row for row in made_up() if row.shift == 2.0]) == []


def test_published_numbers_pass_the_claims():
    rows = [
        summary(p.metric, p.model, p.shift, p.mean)
        for p in published("corrupted_cifar10")
        if p.metric in corrupted_cifar.METRICS
    ]
    found = claims(rows)
    assert len(found) == 15
    likely = [c for c in found if "log-likelihood" in c.text]
    assert [c.holds for c in likely] == [True] * 5


def test_colour_tells_the_kind_and_line_style_the_training():
    found = corrupted_cifar.styles(list(CIFAR10.models))
    assert len({style["color"] for style in found.values()}) == 5
    assert found["Radial"]["color"] == found["Radial fVI"]["color"]
    assert found["Radial"]["linestyle"] != found["Radial fVI"]["linestyle"]


def counted_trainings(monkeypatch):
    """Count the calls of ``felbo.fit``."""
    calls, fit = [], felbo.fit
    monkeypatch.setattr(felbo, "fit", lambda *args, **kw: calls.append(1) or fit(*args, **kw))
    return calls


def test_a_smoke_run_is_complete_and_resumed(tmp_path, fake_cifar, monkeypatch):
    calls = counted_trainings(monkeypatch)
    folders = {"results": tmp_path / "results", "runs": tmp_path / "runs"}
    outcome = reproduce(CIFAR10, preset="smoke", **folders)
    assert {(s.model, s.metric, s.shift) for s in outcome.summaries} == {
        (model, metric, shift)
        for model in CIFAR10.models
        for metric in corrupted_cifar.METRICS
        for shift in (0.0, 5.0)
    }
    assert outcome.figure.stat().st_size > 10_000
    # Nine trainings: the ensemble needs two MAP networks, one of them that of the cell of MAP.
    assert len(calls) == 10
    settings = CIFAR10.presets["smoke"].settings
    files = {f for name in CIFAR10.models for f in weights_of("cifar10", name, 0, settings)}
    kept = (tmp_path / "runs" / "trained").rglob("*.safetensors")
    assert {str(p.relative_to(tmp_path / "runs" / "trained")) for p in kept} == files

    monkeypatch.setattr(cifar, "trained", None)  # nothing may ask for weights
    again = reproduce(CIFAR10, preset="smoke", **folders)
    assert [s[:5] for s in again.summaries] == [s[:5] for s in outcome.summaries]


def test_a_lost_cell_is_evaluated_again_with_the_kept_weights(tmp_path, fake_cifar, monkeypatch):
    folders = {"results": tmp_path / "results", "runs": tmp_path / "runs"}
    models = ["MC Dropout fVI", "Rank1"]
    first = reproduce(CIFAR10, preset="smoke", models=models, **folders)
    path = tmp_path / "runs" / "corrupted_cifar10" / "smoke" / "mc-dropout-fvi-0.json"
    before = json.loads(path.read_text())["observations"]
    path.unlink()
    monkeypatch.setattr(felbo, "fit", None)  # no training
    second = reproduce(CIFAR10, preset="smoke", models=models, **folders)
    assert json.loads(path.read_text())["observations"] == before
    assert [s[:5] for s in second.summaries] == [s[:5] for s in first.summaries]


def test_a_number_is_the_mean_over_the_corruptions(tmp_path, fake_cifar, monkeypatch):
    model = cifar.build("cifar10", "MAP", 0, CIFAR10.presets["smoke"].settings)
    monkeypatch.setattr(corrupted_cifar, "trained_model", lambda *args: model)
    settings = CIFAR10.presets["smoke"].settings
    found = {(o.metric, o.shift): o.value for o in corrupted_cifar.run("MAP", 0, settings)}
    scores = []
    for corruption in ("gaussian_noise", "fog"):
        images = felbo.data.corrupted("cifar10", corruption, 5, limit=64)
        with torch.no_grad():
            probs = model.eval()(cifar.prepared(images.images, "cifar10"))[0].softmax(-1)
        scores.append((probs.argmax(-1) == images.labels).double().mean().item() * 100)
    assert found["accuracy", 5.0] == pytest.approx(fmean(scores), abs=1e-4)
    clean = felbo.data.load("cifar10", "test")
    with torch.no_grad():
        probs = model(cifar.prepared(clean.images, "cifar10"))[0].softmax(-1)
    accuracy = (probs.argmax(-1) == clean.labels).double().mean().item() * 100
    assert found["accuracy", 0.0] == pytest.approx(accuracy, abs=1e-4)


@pytest.mark.slow
def test_baselines_and_ablation_run(tmp_path, fake_cifar):
    folders = {"results": tmp_path / "results", "runs": tmp_path / "runs"}
    models = [*cifar.DIRECT, "Subnetwork"]
    baselines = reproduce(BASELINES_CIFAR10, preset="smoke", models=models, **folders)
    assert {s.model for s in baselines.summaries} == set(models)
    ablation = reproduce(ABLATION_CIFAR10, preset="smoke", **folders)
    assert {s.model for s in ablation.summaries} == set(ABLATION_CIFAR10.models)
    names = {p.stem for p in (tmp_path / "runs" / "trained").rglob("*.safetensors")}
    # One draw in training is the model of the main study, five draws are another.
    assert {"mc-dropout-0", "mc-dropout-5-samples-0", "mc-dropout-fvi-kl1-0"} < names
    assert "mc-dropout-fvi-5-samples-kl1-0" in names


def test_kl_weights_of_cifar100_are_trained_and_kept_apart(tmp_path, fake_cifar):
    folders = {"results": tmp_path / "results", "runs": tmp_path / "runs"}
    for study in (CIFAR100, CIFAR100_FULL_WEIGHT):
        reproduce(study, preset="smoke", models=["MAP", "MAP fVI"], **folders)
    names = {p.name for p in (tmp_path / "runs" / "trained" / "cifar100").rglob("*.safetensors")}
    assert names == {
        "map-0.safetensors",
        "map-fvi-kl0.1-0.safetensors",
        "map-fvi-kl1-0.safetensors",
    }
