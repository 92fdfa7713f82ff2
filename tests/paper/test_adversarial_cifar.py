"""CIFAR under attack: presets, the weights of the other study, and the clean result at ε = 0."""

import pytest
import torch

import felbo
from felbo.paper import adversarial_cifar, cifar, corrupted_cifar
from felbo.paper.adversarial_cifar import CIFAR10, CIFAR100, EPSILONS
from felbo.paper.published import published
from felbo.paper.results import Summary
from felbo.paper.runner import reproduce


@pytest.mark.parametrize("study", [CIFAR10, CIFAR100], ids=lambda study: study.name)
def test_the_paper_preset_is_the_published_protocol(study):
    preset = study.presets["paper"]
    assert preset.seeds == 10
    assert {key: preset.settings[key] for key in cifar.PAPER} == cifar.PAPER
    assert preset.settings["kl_scale"] == (0.1 if study is CIFAR100 else 1.0)
    assert preset.settings["epsilons"] == (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
    assert preset.settings["test_size"] == 10_000
    rows = published(study.compared_with)
    assert {row.model for row in rows} == set(study.models)
    assert {row.shift for row in rows} == set(EPSILONS)


def test_trainings_are_those_of_the_corrupted_study():
    for name in ("smoke", "cpu", "paper"):
        ours = CIFAR10.presets[name].settings
        theirs = corrupted_cifar.CIFAR10.presets[name].settings
        for key in (*cifar.PAPER, "kl_scale"):
            assert ours[key] == theirs[key]


def test_one_training_serves_both_studies(tmp_path, fake_cifar, monkeypatch):
    calls, fit = [], felbo.fit
    monkeypatch.setattr(felbo, "fit", lambda *args, **kw: calls.append(1) or fit(*args, **kw))
    folders = {"results": tmp_path / "results", "runs": tmp_path / "runs"}
    models = ["MAP", "Radial fVI", "Ensemble"]
    reproduce(corrupted_cifar.CIFAR10, preset="smoke", models=models, **folders)
    assert len(calls) == 3  # MAP of two seeds, and Radial
    outcome = reproduce(CIFAR10, preset="smoke", models=models, **folders)
    assert len(calls) == 3
    assert {s.model for s in outcome.summaries} == set(models)
    assert {s.shift for s in outcome.summaries} == {0.0, 0.1}
    assert outcome.figure.stat().st_size > 10_000
    monkeypatch.setattr(adversarial_cifar, "fgsm", None)  # finished cells attack nothing
    again = reproduce(CIFAR10, preset="smoke", models=models, **folders)
    assert [s[:5] for s in again.summaries] == [s[:5] for s in outcome.summaries]


@pytest.mark.parametrize("name", ["MAP", "MC Dropout", "Ensemble fVI", "Radial", "Rank1 fVI"])
def test_no_attack_is_the_clean_result_exactly(name, fake_cifar, monkeypatch):
    settings = {**CIFAR10.presets["smoke"].settings, "epsilons": (0.0, 0.3)}
    model = cifar.build("cifar10", name, 0, settings)
    monkeypatch.setattr(adversarial_cifar, "trained_model", lambda *args: model)
    found = adversarial_cifar.run(name, 7, settings)
    images, labels = corrupted_cifar.test_data("cifar10", "none", 0, 64)
    draws = cifar.draws_of(name)
    prediction = felbo.predict(model, images, num_samples=draws, batch_size=500, seed=7)
    score = felbo.score(prediction, labels)
    clean = {o.metric: o.value for o in found if o.shift == 0.0}
    assert clean == {metric: getattr(score, metric) for metric in corrupted_cifar.METRICS}
    attacked = {o.metric: o.value for o in found if o.shift == 0.3}
    assert attacked["log_likelihood"] < clean["log_likelihood"]


def test_attacked_images_stay_valid_pixels(fake_cifar, monkeypatch):
    settings = {**CIFAR10.presets["smoke"].settings, "epsilons": (0.3,)}
    model = cifar.build("cifar10", "MAP", 0, settings)
    monkeypatch.setattr(adversarial_cifar, "trained_model", lambda *args: model)
    seen, predict = [], felbo.predict
    monkeypatch.setattr(felbo, "predict", lambda m, x, **kw: seen.append(x) or predict(m, x, **kw))
    adversarial_cifar.run("MAP", 0, settings)
    info = felbo.data.REGISTRY["cifar10"]
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (info.mean, info.std))
    pixels = seen[0] * std + mean
    assert pixels.min() > -1e-5
    assert pixels.max() < 1 + 1e-5
    clean, _ = corrupted_cifar.test_data("cifar10", "none", 0, 64)
    change = (seen[0] - clean).abs().amax()
    assert change.item() == pytest.approx(0.3, abs=1e-5)  # in normalised units


def test_claims_look_at_every_attack():
    rows = [
        Summary("a", metric, model, shift, value, 0.0, 1, value, value, value)
        for shift in EPSILONS
        for metric, plain, fvi in (
            ("accuracy", 10.0, 20.0),
            ("log_likelihood", -5.0, -3.0 if shift < 0.3 else -6.0),
            ("ece", 0.5, 0.4),
        )
        for model, value in (("Rank1", plain), ("Rank1 fVI", fvi))
    ]
    found = CIFAR10.claims(rows)
    assert [claim.holds for claim in found] == [False, True, True]
    assert "at 0.05, 0.1, 0.15, 0.2, 0.25, 0.3" in found[0].text
    assert [c.holds for c in CIFAR10.claims([r for r in rows if r.shift < 0.3])] == [True] * 3
