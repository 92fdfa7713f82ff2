"""Prediction with models, with networks that exist already, and with draws."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from felbo import dirichlet
from felbo.evaluation import predict
from felbo.models import MAP, ConcentrationNetwork, Ensemble, MCDropout
from felbo.networks import mlp


@pytest.fixture
def networks():
    return [mlp(4, (16,), 3) for _ in range(5)]


@pytest.fixture
def x():
    return torch.randn(50, 4)


def test_a_list_of_networks_equals_the_manual_mean_and_fit(networks, x):
    with torch.no_grad():
        draws = torch.stack([network(x).softmax(-1) for network in networks])
    found = predict(networks, x, num_data=1000)
    torch.testing.assert_close(found.probs, draws.mean(0))
    fitted = dirichlet.fit(dirichlet.smooth(draws), max_precision=1000.0)
    torch.testing.assert_close(found.concentration, fitted.concentration, rtol=1e-3, atol=0)
    torch.testing.assert_close(found.precision, fitted.precision, rtol=1e-3, atol=0)
    torch.testing.assert_close(
        found.epistemic, dirichlet.uncertainty(fitted.concentration).epistemic, rtol=1e-2, atol=1e-6
    )


@pytest.mark.parametrize("container", [tuple, nn.ModuleList])
def test_other_containers_and_the_ensemble_agree(container, networks, x):
    found = predict(container(networks), x)
    expected = predict(Ensemble.from_networks(networks), x)
    torch.testing.assert_close(found.probs, expected.probs)
    torch.testing.assert_close(found.precision, expected.precision, rtol=1e-3, atol=0)


def test_draws_alone(networks, x):
    with torch.no_grad():
        draws = torch.stack([network(x).softmax(-1) for network in networks])
    kept = draws.clone()
    found = predict(draws)
    expected = predict(networks, x)
    assert torch.equal(draws, kept)
    torch.testing.assert_close(found.probs, expected.probs)
    torch.testing.assert_close(found.concentration, expected.concentration, rtol=1e-3, atol=0)


def test_batches_do_not_change_the_result(networks, x):
    whole = predict(networks, x)
    split = predict(networks, x, batch_size=7)
    torch.testing.assert_close(split.probs, whole.probs)
    torch.testing.assert_close(split.precision, whole.precision, rtol=1e-3, atol=0)


@pytest.mark.parametrize("labelled", [True, False])
def test_a_loader_gives_what_the_tensor_gives(labelled, networks, x):
    data = TensorDataset(x, torch.zeros(50)) if labelled else list(x)
    found = predict(networks, DataLoader(data, batch_size=16))
    torch.testing.assert_close(found.probs, predict(networks, x).probs)


def test_a_concentration_network_reports_its_own_dirichlet(x):
    model = ConcentrationNetwork(mlp(4, (16,), 3))
    with torch.no_grad():
        alpha = model.concentration(x)
    found = predict(model, x, batch_size=20)
    torch.testing.assert_close(found.concentration, alpha)
    torch.testing.assert_close(found.precision, alpha.sum(-1))
    torch.testing.assert_close(found.probs, alpha / alpha.sum(-1, keepdim=True))


def test_map_has_the_precision_of_the_data(x):
    network = mlp(4, (16,), 3)
    found = predict(MAP(network), x, num_data=60_000)
    with torch.no_grad():
        torch.testing.assert_close(found.probs, network(x).softmax(-1))
    assert (found.precision == 60_000).all()


def test_draws_are_repeatable_and_leave_the_generator_alone(x):
    model = MCDropout(mlp(4, (16,), 3), rate=0.3)
    state = torch.get_rng_state()
    first, second = predict(model, x, seed=4), predict(model, x, seed=4)
    other = predict(model, x, seed=5)
    assert torch.equal(first.probs, second.probs)
    assert not torch.equal(first.probs, other.probs)
    assert torch.equal(state, torch.get_rng_state())


def test_every_part_gets_its_mode_back_also_after_an_error(x):
    network = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
    network.train()
    network[0].eval()
    mean = network[0].running_mean.clone()
    other = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
    predict([network, other], x)
    assert (network.training, network[0].training, network[1].training) == (True, False, True)
    assert other.training
    assert torch.equal(network[0].running_mean, mean)
    assert other[0].num_batches_tracked == 0
    with pytest.raises(RuntimeError):
        predict([network, other], x[:, :2])
    assert (network.training, network[0].training, other.training) == (True, False, True)


def test_no_gradient_is_recorded(networks, x):
    found = predict(networks, x)
    assert not found.probs.requires_grad
    assert not found.concentration.requires_grad


def test_refuses_networks_that_do_not_fit_together(networks, x):
    with pytest.raises(ValueError, match=r"same number of classes K, got \[\[50, 3\], \[50, 2\]\]"):
        predict([networks[0], mlp(4, (), 2)], x)
    with pytest.raises(ValueError, match="list of networks is empty"):
        predict([], x)
    with pytest.raises(TypeError, match="MAP gives draws of its own"):
        predict([MAP(networks[0])], x)
    with pytest.raises(TypeError, match=r"networks \(nn.Module\), got str"):
        predict(["network"], x)
    with pytest.raises(ValueError, match="5 networks give exactly that many draws"):
        predict(networks, x, num_samples=3)
    with pytest.raises(TypeError, match=r"plain network .* felbo.MAP\(network\)"):
        predict(networks[0], x)
    with pytest.raises(TypeError, match="got dict"):
        predict({}, x)


def test_refuses_draws_that_are_not_predictions(x):
    draws = torch.full((4, 5, 2), 0.5)
    with pytest.raises(TypeError, match="pass them alone, without x"):
        predict(draws, x)
    with pytest.raises(TypeError, match="num_samples is the first axis"):
        predict(draws, num_samples=4)
    with pytest.raises(ValueError, match=r"\[M, B, K\].* got shape \[5, 2\]"):
        predict(draws[0])
    with pytest.raises(ValueError, match="pass probabilities, not logits"):
        predict(3 * draws)
    with pytest.raises(ValueError, match="not negative"):
        predict(torch.tensor([[[1.5, -0.5]], [[0.5, 0.5]]]))


def test_refuses_inputs_it_cannot_read(networks, x):
    with pytest.raises(TypeError, match="needs inputs x"):
        predict(networks)
    with pytest.raises(TypeError, match="got a ndarray of ndarray"):
        predict(networks, x.numpy())
    with pytest.raises(ValueError, match="gave no batch"):
        predict(networks, [])
    with pytest.raises(ValueError, match="batch_size"):
        predict(networks, x, batch_size=0)
    with pytest.raises(ValueError, match="num_data"):
        predict(networks, x, num_data=0)
    with pytest.raises(ValueError, match="smoothing"):
        predict(networks, x, smoothing=1.0)
