import json

import pytest
import torch

import felbo
from felbo.paper import two_moons
from felbo.paper.two_moons import FAR, MODELS, NEAR, PRIORS


def test_the_plane_is_a_grid_of_step_0_05_that_holds_all_data_with_room_around_it():
    grid = two_moons.plane()
    assert grid.shape == (101, 71)
    x, _ = two_moons.training_data()
    low, high = grid.points.amin(0), grid.points.amax(0)
    assert bool((x.amin(0) - low > 0.5).all() and (high - x.amax(0) > 0.5).all())


def test_the_data_are_a_hundred_moons_with_others_held_out():
    x, y = two_moons.training_data()
    held_out, _ = two_moons.held_out_data()
    assert x.shape == (100, 2)
    assert y.sum() == 50
    assert float(torch.cdist(held_out, x).min()) > 0


def test_confidences_are_means_over_near_and_far_points():
    points = two_moons.plane().points
    distance = (points[:, None] - two_moons.training_data()[0]).norm(dim=-1).amin(1)
    # A model that knows the data's neighbourhood and nothing else.
    first = torch.where(distance <= NEAR, 0.9, 0.5)
    near, far = two_moons.confidences(torch.stack([first, 1 - first], -1))
    assert near == pytest.approx(0.9)
    assert far == pytest.approx(0.5)
    assert NEAR < FAR


@pytest.mark.parametrize("prior", ["GP prior", "random-forest prior"])
def test_classifier_priors_have_precision_two(prior):
    beta = PRIORS[prior]()(two_moons.training_data()[0]).concentration
    assert beta.sum(-1) == pytest.approx(2.0, abs=1e-5)


def test_the_priors_agree_with_the_labels_they_were_fitted_to():
    x, y = two_moons.training_data()
    for name in ("GP prior", "random-forest prior"):
        right = PRIORS[name]()(x).mean.argmax(-1) == y
        assert float(right.float().mean()) > 0.95


def test_training_repeats_itself_and_the_prior_matters():
    def probs(prior):
        model = two_moons.train("MAP", prior, epochs=20)
        return felbo.predict(model, two_moons.plane().points).probs

    conventional = probs(None)
    assert torch.equal(conventional, probs(None))
    assert probs(felbo.UniformPrior(2)).amax(-1).mean() < conventional.amax(-1).mean()


def test_betas_names_its_panels_and_writes_its_numbers(tmp_path):
    picture = two_moons.two_moons_betas(tmp_path, 1, epochs=1)
    assert picture == tmp_path / "two_moons_betas.png"
    assert picture.stat().st_size < 400_000
    summary = json.loads((tmp_path / "two_moons_betas.json").read_text("utf-8"))
    assert [p["prior"] for p in summary["panels"]] == [
        "β = 0.1", "β = 0.5", "β = 1", "β = 5", "β = 10"
    ]  # fmt: skip
    assert {p["model"] for p in summary["panels"]} == {"MC Dropout"}


def test_every_model_kind_has_a_row():
    assert list(MODELS) == ["MAP", "MC Dropout", "Ensemble"]
    assert MODELS["Ensemble"]().evaluation_samples == 10
