"""The recommended bound is cross-entropy plus two weighted divergences, whatever the batch size."""

import pytest
import torch

import felbo
from felbo.measurement import Augmented, Batch, Elsewhere, Mixture
from felbo.objectives import expected_nll, function_space_kl

PRIOR = felbo.UniformPrior(3)


@pytest.fixture
def problem():
    torch.manual_seed(0)
    return felbo.MAP(felbo.networks.mlp(4, (8,), 3)), torch.randn(6, 4), torch.arange(6) % 3


def everywhere(**options):
    settings = {"measurement": Augmented(lambda x: -3.0 * x), "implementation": "plain"}
    return felbo.FunctionSpaceELBO.everywhere(PRIOR, 100, **{**settings, **options})


def test_the_loss_is_that_of_its_two_places(problem):
    model, x, y = problem
    loss = everywhere(strength=0.3, data_strength=0.02)(model, x, y)
    beta = torch.ones(3)
    on_data, away = (function_space_kl(model(places), beta, 100.0) for places in (x, -3.0 * x))
    kl = 0.02 * on_data.mean() + 0.3 * away.mean()
    torch.testing.assert_close(loss.kl, kl, rtol=1e-5, atol=1e-6)
    expected = expected_nll(model(x), y) + kl
    torch.testing.assert_close(loss.total, expected, rtol=1e-5, atol=1e-6)


def test_the_prior_is_as_strong_in_batches_of_any_size(problem):
    model, x, y = problem
    once = everywhere()(model, x, y)
    twice = everywhere()(model, torch.cat([x, x]), torch.cat([y, y]))
    torch.testing.assert_close(once.total, twice.total)


def test_what_weighs_nothing_is_left_out():
    for strength, data_strength, expected in [
        (0.1, 0.0, [(Elsewhere, 0.1)]),
        (0.0, 0.1, [(Batch, 0.1)]),
        (0.2, 0.1, [(Batch, 0.1), (Elsewhere, 0.2)]),
    ]:
        objective = felbo.FunctionSpaceELBO.everywhere(PRIOR, 100, strength, data_strength)
        assert [(type(t.measurement), t.weight) for t in objective.terms] == expected
        assert objective.kl_weight == 1.0


def test_the_prior_on_the_data_is_much_weaker_by_default():
    on_data, away = felbo.FunctionSpaceELBO.everywhere(PRIOR, 100).terms
    assert 0 < on_data.weight <= away.weight / 10


def test_refuses_no_prior_at_all_and_a_set_that_includes_the_batch():
    with pytest.raises(ValueError, match="NegativeLogLikelihood"):
        everywhere(strength=0, data_strength=0)
    with pytest.raises(ValueError, match="includes the batch"):
        everywhere(measurement=Mixture(Batch(), Elsewhere()))
    with pytest.raises(ValueError, match="strength must be finite and ≥ 0, got -1"):
        everywhere(strength=-1)
