"""A trained model as prior: its fitted Dirichlet, capped, and frozen in time."""

import copy

import pytest
import torch
from torch import nn

import felbo
from felbo.networks import mlp


def trained(make, num_data=40):
    model = make()
    model.num_data = num_data
    return model


MODELS = {
    "map": lambda: felbo.MAP(mlp(2, (8,), 3)),
    "dropout": lambda: felbo.MCDropout(mlp(2, (8,), 3), rate=0.3),
    "ensemble": lambda: felbo.Ensemble(lambda: mlp(2, (8,), 3), members=4),
    "tempered": lambda: felbo.Tempered(felbo.Ensemble(lambda: mlp(2, (8,), 3), 4), 2.0),
    "concentration": lambda: felbo.ConcentrationNetwork(mlp(2, (8,), 3)),
}
POINTS = torch.randn(7, 2, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_dirichlet_of_predict(name):
    model = trained(MODELS[name])
    expected = felbo.predict(model, POINTS, seed=5).concentration
    found = felbo.ModelPrior(model, seed=5)(POINTS)
    torch.testing.assert_close(found.concentration, expected, rtol=1e-4, atol=1e-6)
    assert found.batch_shape == (7,)


def test_the_precision_of_one_draw_is_the_number_of_training_examples():
    model = trained(MODELS["map"], num_data=40)
    found = felbo.ModelPrior(model)(POINTS).concentration
    probs = model(POINTS)[0].softmax(-1)
    expected = 40 * ((1 - 1e-4) * probs + 1e-4 / 3)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cap", [1.5, 6.0, 1e5])  # below K, in between, and above N
def test_the_cap_scales_precisions_above_it_and_no_others(cap):
    model = trained(MODELS["ensemble"])
    free = felbo.ModelPrior(model)(POINTS)
    capped = felbo.ModelPrior(model, max_precision=cap)(POINTS)
    torch.testing.assert_close(capped.mean, free.mean)
    precision = free.concentration.sum(-1)
    torch.testing.assert_close(capped.concentration.sum(-1), precision.clamp(max=cap))
    assert cap < 1e5 or torch.equal(capped.concentration, free.concentration)


def test_training_the_model_on_leaves_the_prior_as_it_was():
    model = MODELS["ensemble"]()
    x, y = torch.randn(40, 2), torch.arange(40) % 3
    felbo.fit(model, felbo.NegativeLogLikelihood(), (x, y), epochs=2, progress=False)
    prior = felbo.ModelPrior(model)
    before = prior(POINTS).concentration
    objective = felbo.FunctionSpaceELBO(prior, num_data=40)
    old = copy.deepcopy(prior.model.state_dict())
    felbo.fit(model, objective, (x, y.flip(0)), epochs=5, learning_rate=0.1, progress=False)
    assert torch.equal(prior(POINTS).concentration, before)
    assert all(torch.equal(value, old[name]) for name, value in prior.model.state_dict().items())
    now = felbo.predict(model, POINTS).concentration
    assert not torch.allclose(now, before, rtol=0.1)


def test_the_model_keeps_its_mode_and_its_gradients():
    model = trained(MODELS["dropout"])
    model.train()
    prior = felbo.ModelPrior(model)
    assert model.training
    assert all(p.requires_grad for p in model.parameters())
    assert not prior.model.training
    assert not prior(POINTS).concentration.requires_grad


def test_the_divergence_from_itself_is_smallest():
    """A model that is its own prior has KL 0 where all draws agree, and any other has more."""
    model = trained(MODELS["map"])
    objective = felbo.FunctionSpaceELBO(felbo.ModelPrior(model), 40, implementation="plain")
    assert objective.divergence(model(POINTS), POINTS).abs().max() < 1e-3
    other = MODELS["map"]()
    assert objective.divergence(other(POINTS), POINTS).min() > 0


def test_seeds_make_the_draws_repeatable_and_leave_the_global_generator():
    prior = felbo.ModelPrior(trained(MODELS["dropout"]), seed=1)
    state = torch.get_rng_state()
    first = prior(POINTS).concentration
    assert torch.equal(prior(POINTS).concentration, first)
    assert torch.equal(torch.get_rng_state(), state)
    free = felbo.ModelPrior(prior.model)
    assert not torch.equal(free(POINTS).concentration, free(POINTS).concentration)


def test_inputs_of_several_tensors_and_wrappers():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(2, (8,), 3)

        def forward(self, left, right):
            return self.body(left + right)

    model = trained(lambda: felbo.MAP(Sum()))
    average = torch.optim.swa_utils.AveragedModel(model)
    found = felbo.ModelPrior(average)({"left": POINTS, "right": POINTS}).concentration
    expected = felbo.ModelPrior(model)((POINTS, POINTS)).concentration
    torch.testing.assert_close(found, expected)


def test_it_works_in_a_training_step_after_inference_mode():
    model = trained(MODELS["ensemble"])
    with torch.inference_mode():
        prior = felbo.ModelPrior(model)
        prior(POINTS)
    loss = felbo.FunctionSpaceELBO(prior, 40)(model, POINTS, torch.arange(7) % 3)
    loss.total.backward()
    assert loss.total.isfinite()


def test_what_cannot_be_a_prior_is_refused():
    model = MODELS["map"]()
    with pytest.raises(ValueError, match="pass max_precision"):
        felbo.ModelPrior(model)
    assert felbo.ModelPrior(model, max_precision=3.0)(POINTS).batch_shape == (7,)
    for cap in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="max_precision must be positive"):
            felbo.ModelPrior(model, max_precision=cap)
    for smoothing in (0.0, 1.0):
        with pytest.raises(ValueError, match="smoothing"):
            felbo.ModelPrior(model, 3.0, smoothing=smoothing)
    with pytest.raises(TypeError, match=r"felbo\.MAP\(network\)"):
        felbo.ModelPrior(mlp(2, (8,), 3))
    with pytest.raises(ValueError, match="not finite"):
        felbo.ModelPrior(model, 3.0)(torch.full((2, 2), torch.nan))


def test_points_of_another_dtype():
    prior = felbo.ModelPrior(felbo.MAP(mlp(2, (5,), 3)), max_precision=10)
    x = torch.randn(4, 2)
    assert torch.equal(prior(x.double()).concentration, prior(x).concentration)
