"""The hypercube: labels, gradient of the shortened objective, optimum, claims and a smoke run."""

import math

import pytest
import torch

import felbo
from felbo.paper import hypercube
from felbo.paper.hypercube import BETAS, HYPERCUBE, labels, make_data, make_elbo, without_value
from felbo.paper.published import published
from felbo.paper.results import Summary
from felbo.paper.runner import reproduce


@pytest.mark.parametrize("classes", hypercube.CLASSES)
def test_labels_number_the_orthants(classes):
    corners = torch.cartesian_prod(*[torch.tensor([-0.5, 0.5])] * 8)
    found = labels(corners, classes)
    assert torch.bincount(found, minlength=classes).tolist() == [256 // classes] * classes
    used = classes.bit_length() - 1
    by_hand = [sum(2**i for i in range(used) if corner[i] > 0) for corner in corners]
    assert found.tolist() == by_hand


def test_data_are_uniform_and_differ_between_the_three_sets():
    parts = make_data(seed=0, size=4000)
    for part in parts:
        assert part.shape == (4000, 8)
        assert part.abs().max() <= 1.0
        # Mean 0 and variance 1/3, each within five standard errors.
        assert part.mean(0).abs().max() < 5.0 * math.sqrt(1 / 3 / 4000)
        assert (part.var(0) - 1 / 3).abs().max() < 5.0 * math.sqrt(4 / 45 / 4000)
    assert not torch.equal(parts[0], parts[1])
    assert not torch.equal(parts[1], parts[2])
    assert torch.equal(parts[0], make_data(seed=0, size=4000)[0])
    assert not torch.equal(parts[0], make_data(seed=1, size=4000)[0])


@pytest.mark.parametrize("classes", [2, 16, 256])
@pytest.mark.parametrize("name", ["MAP fVI unscaled", "MAP fVI scaled", "beta=0.1", "beta=10"])
def test_shortened_objective_has_the_gradient_of_the_bound(name, classes):
    train, points, _ = make_data(0, 100)
    train, points = train.double(), points.double()
    model = felbo.MAP(felbo.networks.mlp(8, (25, 25), classes).double())
    elbo = make_elbo(name, classes, points, num_data=100)
    gradients = []
    for objective in (elbo, without_value(elbo, points)):
        model.zero_grad()
        objective(model, train, labels(train, classes)).total.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-8)


def test_weight_and_concentration_follow_the_name():
    points = torch.zeros(3, 8)
    unscaled, scaled, beta = (
        make_elbo(name, 16, points, 100)
        for name in ("MAP fVI unscaled", "MAP fVI scaled", "beta=5")
    )
    assert (unscaled.kl_weight, scaled.kl_weight, beta.kl_weight) == (1.0, 1 / 16, 1.0)
    assert scaled.prior(points).concentration.tolist() == [1.0] * 16
    assert beta.prior(points).concentration.tolist() == [5.0] * 16


def test_series_are_the_published_ones():
    for study in (HYPERCUBE, BETAS):
        assert {p.model for p in published(study.key)} == set(study.models)
        assert {p.shift for p in published(study.key)} == set(hypercube.CLASSES)


def as_measured(move):
    return [
        Summary(*p[:4], p.mean + move * (p.band[1] - p.band[0]) / 2, 0.0, 10, 0.0, 0.0, 0.0)
        for p in published("hypercube")
    ]


def test_claims_hold_inside_the_widened_bands_only():
    inside = hypercube.claims(as_measured(1.19))
    assert len(inside) == 5
    assert all(claim.holds for claim in inside)
    assert not any(claim.holds for claim in hypercube.claims(as_measured(1.21)))


def test_one_curve_outside_fails_alone():
    numbers = as_measured(0.0)
    numbers[0] = numbers[0]._replace(mean=0.0)
    failed = [c.text for c in hypercube.claims(numbers) if not c.holds]
    assert len(failed) == 1
    assert failed[0].startswith("MAP: test log likelihood")
    assert "7 of 8" in failed[0]


def test_two_classes_come_near_the_published_values():
    settings = {"size": 1000, "classes": (2,), "epochs": 400}
    likelihood, kl = hypercube.run("MAP fVI unscaled", 0, settings)
    assert (likelihood.metric, likelihood.shift) == ("test_log_likelihood", 2.0)
    assert likelihood.value == pytest.approx(-0.46, abs=0.1)
    assert kl.metric == "fkl_at_convergence"
    assert kl.value == pytest.approx(3.276, abs=0.05)


def test_divergence_is_reported_as_it_enters_the_objective(monkeypatch):
    # An untrained network is the same for both, so their terms differ by the weight alone.
    monkeypatch.setattr(felbo, "fit", lambda *args, **kwargs: None)
    settings = {"size": 50, "classes": (2, 16), "epochs": 1}
    unscaled, scaled = (
        [o.value for o in hypercube.run(name, 0, settings) if o.metric == "fkl_at_convergence"]
        for name in ("MAP fVI unscaled", "MAP fVI scaled")
    )
    assert scaled == pytest.approx([unscaled[0] / 2, unscaled[1] / 16], rel=1e-4)


def test_conventional_training_has_no_divergence_to_report():
    settings = {"size": 50, "classes": (2, 4), "epochs": 2}
    found = hypercube.run("MAP", 0, settings)
    assert [o[:2] for o in found] == [("test_log_likelihood", 2.0), ("test_log_likelihood", 4.0)]
    assert found == hypercube.run("MAP", 0, settings)


def test_smoke_run(tmp_path):
    outcome = reproduce(HYPERCUBE, preset="smoke", results=tmp_path, runs=tmp_path)
    value = {(s.metric, s.model, s.shift): s.mean for s in outcome.summaries}
    assert len(value) == 3 * 3 + 2 * 3
    # A weight of 1 / K lets the network learn more, and pays with less divergence from the labels.
    assert (
        value["test_log_likelihood", "MAP fVI scaled", 32.0]
        > value["test_log_likelihood", "MAP fVI unscaled", 32.0]
    )
    assert outcome.figure.stat().st_size > 10_000


def test_smoke_run_of_the_concentrations(tmp_path):
    models = ["MAP", "beta=0.1", "beta=10"]
    outcome = reproduce(BETAS, preset="smoke", models=models, results=tmp_path, runs=tmp_path)
    value = {(s.metric, s.model, s.shift): s.mean for s in outcome.summaries}
    likelihoods = [value["test_log_likelihood", model, 8.0] for model in reversed(models)]
    assert likelihoods == sorted(likelihoods)
