"""Fine-tuning tempers a trained network, keeps its accuracy, and touches only what it should."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo.models import MAP, Ensemble, MCDropout, MeanField, Rank1
from felbo.networks import mlp

from .small import changed, data, elbo, modes, network, normalised, state


@pytest.mark.parametrize("layers", ["all", "last"])
def test_confidence_falls_where_it_should_and_accuracy_stays(digits, trained, layers):
    train, (x, y) = digits
    kept, before = state(trained), MAP(trained)
    quarter = felbo.measurement.Augmented(lambda batch: batch.rot90(1, (-2, -1)))
    measurement = felbo.measurement.Mixture(felbo.measurement.Batch(), quarter)
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(10), len(train[0]), measurement)
    adam = partial(torch.optim.Adam, lr=1e-3)
    options = {"optimizer": adam, "epochs": 6, "batch_size": 32, "seed": 0}
    after = felbo.finetune(trained, train, objective, layers=layers, progress=False, **options)
    old, new = felbo.predict(before, x), felbo.predict(after, x)
    assert felbo.score(old, y).accuracy > 95
    lost = felbo.score(old, y).accuracy - felbo.score(new, y).accuracy
    assert lost < (2 if layers == "all" else 4)
    noise = torch.rand(500, 1, 8, 8, generator=torch.Generator().manual_seed(2)) * 2 - 1
    for unseen in (x.rot90(2, (-2, -1)), noise):
        old, new = (felbo.predict(model, unseen).confidence.mean() for model in (before, after))
        assert new < old - (0.2 if layers == "all" else 0.03)
    assert isinstance(after, MAP)
    assert not after.training
    assert all(parameter.requires_grad for parameter in after.parameters())
    assert changed(trained, kept) == set()
    if layers == "last":
        assert changed(after, before.state_dict()) == {"network.5.weight", "network.5.bias"}


def tune(net, given=None, objective=None, **options):
    options = {"epochs": 2, "learning_rate": 0.01, "progress": False, **options}
    given = data() if given is None else given
    return felbo.finetune(net, given, objective or elbo(), **options)


@pytest.mark.parametrize("given", [TensorDataset(*data()), DataLoader(TensorDataset(*data()), 16)])
def test_datasets_and_loaders(given):
    net = network()
    assert changed(tune(net, given), state(MAP(net)))


def test_tensors_come_in_batches_of_128_unless_told():
    sizes = []

    def watched(model, x, y):
        sizes.append(len(x))
        return elbo()(model, x, y)

    for given in (data(200), list(data(200)), TensorDataset(*data(200))):
        tune(network(), given, watched, epochs=1)
    assert sizes == [128, 72] * 3


def test_normalisation_keeps_its_statistics():
    net = normalised()
    before = state(MAP(net))
    assert changed(tune(net), before) == {name for name, _ in MAP(net).named_parameters()}
    moved = changed(tune(net, layers="last"), before)
    assert moved == {"network.3.weight", "network.3.bias"}


def test_layers_frozen_by_the_user_stay_frozen():
    net = normalised()
    net[1].eval()
    before, seen = state(MAP(net)), []

    def watched(model, x, y):
        seen.append(modes(model)["network.1"])
        return elbo()(model, x, y)

    moved = changed(tune(net, objective=watched), before)
    assert seen == [False] * 2
    assert not moved & {f"network.1.running_{name}" for name in ("mean", "var")}
    net[0].weight.requires_grad_(False)
    tuned = tune(net)
    assert "network.0.weight" not in changed(tuned, before)
    assert not tuned.network[0].weight.requires_grad
    assert modes(net)["1"] is False


def test_dropout_trains_while_frozen_normalisation_does_not():
    net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    seen = []

    def watched(model, x, y):
        seen.append((model.network[1].training, model.network[2].training))
        return felbo.NegativeLogLikelihood()(model, x, y)

    tune(net.eval(), objective=watched, layers="last", epochs=1)
    assert seen == [(False, True)]


LAST = {"network.3.weight", "network.3.bias"}


@pytest.mark.parametrize(
    ("model", "expected"),
    [(MCDropout, LAST), (MeanField, LAST | {"rho.3.weight", "rho.3.bias"})],
)
@pytest.mark.parametrize("num_samples", [None, 3])
def test_last_layer_of_models_made_from_the_network(model, expected, num_samples):
    net = network()
    tuned = tune(net, objective=elbo(num_samples=num_samples), model=model, layers="last")
    assert changed(tuned, model(net).state_dict()) == expected


def test_last_layer_of_a_rank_1_model_with_every_item_for_every_member():
    """Batches of 48 and 2, which could not be split over four members and need not be."""
    model = Rank1(network(), members=4)
    tuned = tune(model, objective=elbo(num_samples=4), layers="last", batch_size=48)
    moved = changed(tuned, model.state_dict())
    assert "network.3.shared.weight" in moved
    assert all(name.startswith("network.3.") for name in moved)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Softsign])
def test_last_layers_of_an_ensemble_of_trained_networks(activation):
    ensemble = Ensemble.from_networks([mlp(2, (8,), 2, activation=activation) for _ in range(3)])
    moved = changed(tune(ensemble, layers="last"), ensemble.state_dict())
    if activation is nn.ReLU:  # one stacked computation
        assert moved == {"members.layers.3.weight", "members.layers.3.bias"}
    else:
        assert moved == {f"members.{m}.3.{p}" for m in range(3) for p in ("weight", "bias")}


def test_refuses_what_it_cannot_tune():
    with pytest.raises(ValueError, match="'all' or 'last', got 'first'"):
        tune(network(), layers="first")
    with pytest.raises(TypeError, match=r"Ensemble\.from_networks"):
        tune([network()])
    with pytest.raises(ValueError, match="no linear or convolutional layer"):
        tune(nn.Sequential(nn.LayerNorm(2)), layers="last")
    with pytest.raises(TypeError, match="network, data and objective in this order"):
        felbo.finetune(network(), elbo(), data())


def test_a_learning_rate_is_that_of_an_optimiser_class_and_never_ignored():
    rates = []

    class Watched(torch.optim.SGD):
        def step(self, closure=None):
            rates.append(self.param_groups[0]["lr"])
            return super().step(closure)

    tune(network(), optimizer=Watched, learning_rate=0.3)
    assert set(rates) == {0.3}
    with pytest.raises(ValueError, match=r"learning_rate=0.3 would be ignored"):
        tune(network(), optimizer=partial(torch.optim.SGD, lr=0.1), learning_rate=0.3)


@pytest.mark.parametrize("rate", [-0.1, float("nan"), float("inf"), True])
def test_a_learning_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match=r"learning_rate must be a number"):
        tune(network(), learning_rate=rate)


@pytest.mark.parametrize("size", [0, 2.5, "auto", True])
def test_a_batch_size_is_a_whole_number(size):
    with pytest.raises(ValueError, match=r"batch_size must be a (whole )?number"):
        tune(network(), batch_size=size)


def test_the_default_objective_sees_augmented_inputs_and_leaves_the_generator_alone():
    x, y = data()
    net, wide, options = network(), (torch.cat([x, x], 1), y), {"epochs": 1, "seed": 0}
    before = torch.get_rng_state()
    for given in (wide, DataLoader(TensorDataset(*wide), 16, shuffle=True)):
        felbo.finetune(net, given, augment=lambda b: b[:, :2], progress=False, **options)
        assert torch.equal(torch.get_rng_state(), before)
