"""Fine-tuning tempers a trained network, keeps its accuracy, and touches only what it should."""

import copy
import sys

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import felbo
from felbo.models import MAP, Ensemble, MCDropout, MeanField, Rank1
from felbo.networks import mlp
from felbo.training import compare_before_after

# felbo.training.finetune is the function; its module has the same name.
training_module = sys.modules["felbo.training.finetune"]


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


def test_by_default_it_knows_no_less_on_the_data_and_doubts_elsewhere(digits, trained):
    train, (x, y) = digits
    kept = copy.deepcopy(trained.state_dict())
    after = felbo.finetune(trained, train, seed=0, progress=False)
    upside_down = x.rot90(2, (-2, -1))
    noise = torch.rand(500, 1, 8, 8, generator=torch.Generator().manual_seed(2)) * 2 - 1
    rows = compare_before_after(
        trained, after, (x, y), {"turned": (upside_down, y), "noise": noise}
    )
    before, now = rows[:2]
    assert before.accuracy > 95
    assert now.accuracy > before.accuracy - 2
    assert now.log_likelihood > before.log_likelihood - 0.15
    turned_before, turned, noise_before, far = rows[2:]
    assert turned.log_likelihood > turned_before.log_likelihood + 1.0
    assert turned.auroc > turned_before.auroc
    assert far.auroc > max(noise_before.auroc, 0.98)
    assert far.confidence < noise_before.confidence - 0.2
    assert isinstance(after, MAP)
    assert not after.training
    for name, value in trained.state_dict().items():
        assert torch.equal(value, kept[name])


def test_an_ensemble_that_exists_and_dropout_gain_too(digits, trained):
    train, (x, y) = digits
    noise = torch.rand(500, 1, 8, 8, generator=torch.Generator().manual_seed(2)) * 2 - 1
    for network, model in ((Ensemble.from_networks([trained] * 2), MAP), (trained, MCDropout)):
        after = felbo.finetune(network, train, model=model, seed=0, progress=False)
        rows = compare_before_after(trained, after, (x, y), {"noise": noise})
        assert rows[1].accuracy > rows[0].accuracy - 4
        assert rows[3].confidence < rows[2].confidence - 0.2


class Watched(felbo.Objective):
    """Cross-entropy that notes the size of every step."""

    def __init__(self):
        self.sizes = []

    def __call__(self, model, x, y):
        self.sizes.append(len(y))
        return felbo.NegativeLogLikelihood()(model, x, y)


def test_three_hundred_steps_unless_the_data_are_more_or_the_user_says():
    x, y = torch.randn(100, 4), torch.arange(100) % 2
    for settings, steps in [
        ({}, 300),
        ({"batch_size": 32}, 300),
        ({"batch_size": 30, "epochs": 3}, 12),
    ]:
        watched = Watched()
        felbo.finetune(mlp(4, (), 2), (x, y), watched, progress=False, **settings)
        assert len(watched.sizes) == steps
    watched = Watched()
    loader = DataLoader(TensorDataset(x, y), batch_size=50)
    felbo.finetune(mlp(4, (), 2), loader, watched, progress=False)
    assert watched.sizes == [50] * 300


def test_the_rate_rises_in_a_quarter_of_the_steps_and_falls_to_nothing(monkeypatch):
    rates = []

    def step(self, closure=None):
        rates.append(self.param_groups[0]["lr"])

    monkeypatch.setattr(torch.optim.SGD, "step", step)
    x, y = torch.randn(40, 4), torch.arange(40) % 2
    felbo.finetune(mlp(4, (), 2), (x, y), epochs=100, learning_rate=0.5, progress=False)
    assert len(rates) == 100
    assert max(rates) == pytest.approx(0.5)
    assert rates[24] == pytest.approx(0.5)
    assert rates[:2] == pytest.approx([0.02, 0.04])
    assert rates[62] == pytest.approx(0.5 * 38 / 75)
    assert rates[-1] == pytest.approx(0.5 / 75)


@pytest.mark.parametrize("kind", ["arrays", "dataset", "loader"])
def test_the_default_objective_knows_the_classes_and_the_number_of_data(kind, monkeypatch):
    x, y = torch.randn(50, 4), torch.arange(50) % 3
    dataset = TensorDataset(x, y)
    data = {
        "arrays": (x.double().numpy(), y.numpy()),
        "dataset": dataset,
        "loader": DataLoader(dataset, batch_size=10, drop_last=True),
    }[kind]
    seen = []
    monkeypatch.setattr(
        training_module, "fit", lambda model, objective, *_, **__: seen.append(objective)
    )
    felbo.finetune(mlp(4, (), 3), data, progress=False)
    (objective,) = seen
    expected = felbo.FunctionSpaceELBO.everywhere(felbo.UniformPrior(3), num_data=50)
    assert objective.num_data == 50
    assert [(type(t.measurement), t.weight) for t in objective.terms] == [
        (type(t.measurement), t.weight) for t in expected.terms
    ]
    assert torch.equal(objective.prior(x).concentration, torch.ones(3))


class Stream(IterableDataset):
    def __iter__(self):
        yield from ((torch.randn(4), torch.tensor(k % 2)) for k in range(6))


def test_a_stream_is_passed_once_and_needs_an_objective():
    watched = Watched()
    stream = DataLoader(Stream(), batch_size=3)
    felbo.finetune(mlp(4, (), 2), stream, watched, progress=False)
    assert watched.sizes == [3, 3]
    with pytest.raises(TypeError, match=r"how many they are.*everywhere"):
        felbo.finetune(mlp(4, (), 2), stream, progress=False)


def changed(model, reference):
    state, other = model.state_dict(), reference.state_dict()
    return {name for name in state if not torch.equal(state[name], other[name])}


def test_last_changes_only_the_last_layer(digits, trained):
    train, (x, _) = digits
    after = felbo.finetune(
        trained, train, elbo(digits), layers="last", learning_rate=0.1, epochs=20, progress=False
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
        small_data(),
        objective,
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
    assert everything == {name for name, _ in reference.named_parameters()}


def test_frozen_in_training_mode_everything_else_stays_in_training_mode():
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    seen = []

    def objective(model, x, y):
        seen.append((model.network[1].training, model.network[2].training))
        return felbo.NegativeLogLikelihood()(model, x, y)

    felbo.finetune(network, small_data(), objective, layers="last", epochs=1, progress=False)
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
    with pytest.raises(TypeError, match="network, data and objective in this order"):
        felbo.finetune(mlp(4, (), 2), felbo.NegativeLogLikelihood(), small_data())
