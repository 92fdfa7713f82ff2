"""Fine-tuning tempers a trained network, keeps its accuracy, and touches only what it should."""

import copy

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import felbo
from felbo.models import MAP, Ensemble, MCDropout, MeanField, Rank1
from felbo.networks import mlp


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 8 - 1
    y = torch.tensor(labels)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    return (x[:1300], y[:1300]), (x[1300:], y[1300:])


@pytest.fixture(scope="module")
def trained(digits):
    """A perceptron trained by cross-entropy alone, until it is sure of itself."""
    torch.manual_seed(1)
    network = mlp(64, (50, 50), 10)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    (x, y), _ = digits
    for _ in range(250):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network.eval()


def elbo(digits, **settings):
    (x, _), _ = digits
    return felbo.FunctionSpaceELBO(felbo.UniformPrior(10), num_data=len(x), **settings)


def confidence(model, x):
    return felbo.predict(model, x).confidence.mean().item()


def accuracy(model, x, y):
    return 100 * (felbo.predict(model, x).labels == y).float().mean().item()


def test_confidence_falls_where_it_should_and_accuracy_stays(digits, trained):
    train, (x, y) = digits
    kept = copy.deepcopy(trained.state_dict())
    before = MAP(trained)
    quarter = felbo.measurement.Augmented(lambda batch: batch.rot90(1, (-2, -1)))
    measurement = felbo.measurement.Mixture(felbo.measurement.Batch(), quarter)
    after = felbo.finetune(
        trained,
        elbo(digits, measurement=measurement),
        train,
        learning_rate=1e-3,
        epochs=10,
        batch_size=32,
        seed=0,
        progress=False,
    )
    assert accuracy(before, x, y) > 95
    assert abs(accuracy(after, x, y) - accuracy(before, x, y)) <= 2
    upside_down = x.rot90(2, (-2, -1))
    noise = torch.rand(500, 1, 8, 8, generator=torch.Generator().manual_seed(2)) * 2 - 1
    for unseen in (upside_down, noise):
        assert confidence(after, unseen) < confidence(before, unseen) - 0.2
    assert isinstance(after, MAP)
    assert not after.training
    for name, value in trained.state_dict().items():
        assert torch.equal(value, kept[name])


def changed(model, reference):
    state, other = model.state_dict(), reference.state_dict()
    return {name for name in state if not torch.equal(state[name], other[name])}


def test_last_changes_only_the_last_layer(digits, trained):
    train, (x, _) = digits
    after = felbo.finetune(
        trained, elbo(digits), train, layers="last", learning_rate=3e-3, epochs=5, progress=False
    )
    assert changed(after, MAP(trained)) == {"network.5.weight", "network.5.bias"}
    assert all(parameter.requires_grad for parameter in after.parameters())
    assert confidence(after, x.rot90(1, (-2, -1))) < confidence(MAP(trained), x.rot90(1, (-2, -1)))


def small_data():
    x = torch.randn(40, 4)
    return x, (x[:, 0] > 0).long()


def tune(network, **settings):
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(2), num_data=40)
    return felbo.finetune(
        network,
        objective,
        small_data(),
        epochs=2,
        batch_size=20,
        learning_rate=0.01,
        progress=False,
        **settings,
    )


def test_frozen_batch_normalisation_keeps_its_statistics():
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    reference = MAP(network)
    assert changed(tune(network, layers="last"), reference) == {
        "network.3.weight",
        "network.3.bias",
    }
    everything = changed(tune(network), reference)
    assert everything == set(reference.state_dict())


def test_frozen_in_training_mode_everything_else_stays_in_training_mode():
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    seen = []

    def objective(model, x, y):
        seen.append((model.network[1].training, model.network[2].training))
        return felbo.NegativeLogLikelihood()(model, x, y)

    felbo.finetune(network, objective, small_data(), layers="last", epochs=1, progress=False)
    assert seen == [(False, True)]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (MCDropout, {"network.3.weight", "network.3.bias"}),
        (
            MeanField,
            {"network.3.weight", "network.3.bias", "rho.3.weight", "rho.3.bias"},
        ),
    ],
)
def test_last_layer_of_models_made_from_the_network(model, expected):
    torch.manual_seed(0)
    network = mlp(4, (8,), 2)
    assert changed(tune(network, model=model, layers="last"), model(network)) == expected


def test_last_layer_of_a_rank_1_model_is_all_of_it():
    network = mlp(4, (8,), 2)
    reference = Rank1(network, members=2)
    moved = changed(tune(reference, layers="last"), reference)
    assert moved
    assert all(name.startswith("network.3.") for name in moved)
    assert "network.3.shared.weight" in moved


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Softsign])
def test_last_layers_of_an_ensemble_of_trained_networks(activation):
    ensemble = Ensemble.from_networks([mlp(4, (8,), 2, activation=activation) for _ in range(3)])
    moved = changed(tune(ensemble, layers="last"), ensemble)
    if activation is nn.ReLU:  # one stacked computation
        assert moved == {"members.layers.3.weight", "members.layers.3.bias"}
    else:
        assert moved == {f"members.{m}.3.{p}" for m in range(3) for p in ("weight", "bias")}


def test_parameters_frozen_by_the_user_stay_so():
    network = mlp(4, (8,), 2)
    network[1].weight.requires_grad_(False)
    tuned = tune(network)
    assert changed(tuned, MAP(network)) == {"network.1.bias", "network.3.weight", "network.3.bias"}
    assert not tuned.network[1].weight.requires_grad


def test_refuses_what_it_cannot_tune():
    with pytest.raises(ValueError, match="'all' or 'last', got 'first'"):
        tune(mlp(4, (), 2), layers="first")
    with pytest.raises(TypeError, match=r"Ensemble\.from_networks"):
        tune([mlp(4, (), 2)])
    with pytest.raises(ValueError, match="no linear or convolutional layer"):
        tune(nn.Sequential(nn.LayerNorm(4)), layers="last")
