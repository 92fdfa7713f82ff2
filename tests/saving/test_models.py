"""A loaded model is the saved one: same kind, weights, modes and predictions."""

import pytest
import torch
from torch import nn

import felbo
from felbo.models import StochasticClassifier
from felbo.networks import compact, mlp, resnet18, resnet_cifar
from felbo.saving import SavedFileError

X = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))


def laplace():
    model = felbo.SubnetworkLaplace(mlp(6, (8,), 3), size=5)
    model.fitted.fill_(True)
    model.scale.copy_(0.1 * torch.eye(5))
    return model


def dropout_of_its_own():
    return nn.Sequential(
        nn.Linear(6, 8), nn.Dropout(0.1), nn.ReLU(), nn.Dropout(0.4), nn.Linear(8, 3)
    )


MODELS = {
    "MAP": lambda: felbo.MAP(mlp(6, (8,), 3)),
    "tanh": lambda: felbo.MAP(mlp(6, (8,), 3, activation=nn.Tanh)),
    "MCDropout": lambda: felbo.MCDropout(mlp(6, (8,), 3), 0.3),
    "shared mask": lambda: felbo.MCDropout(mlp(6, (8,), 3), mask="draw", evaluation_samples=7),
    "skipped": lambda: felbo.MCDropout(mlp(6, (8, 8), 3), 0.3, skip=("1",)),
    "own dropout": lambda: felbo.MCDropout(dropout_of_its_own()),
    "other rate": lambda: felbo.MCDropout(dropout_of_its_own(), 0.25),
    "Ensemble": lambda: felbo.Ensemble(lambda: mlp(6, (8,), 3), 4),
    "low memory": lambda: felbo.Ensemble(lambda: mlp(6, (8,), 3), 2, low_memory=True),
    "different": lambda: felbo.Ensemble.from_networks([mlp(6, (8,), 3), mlp(6, (4, 4), 3)]),
    "MeanField": lambda: felbo.MeanField(mlp(6, (8,), 3), skip=("3",), prior_std=0.7),
    "Radial": lambda: felbo.Radial(mlp(6, (8,), 3), evaluation_samples=3),
    "Rank1": lambda: felbo.Rank1(mlp(6, (8, 8), 3), 3, skip=("5",)),
    "ConcentrationNetwork": lambda: felbo.ConcentrationNetwork(mlp(6, (8,), 3), "relu"),
    "SubnetworkLaplace": laplace,
    "Tempered": lambda: felbo.Tempered(felbo.Ensemble(lambda: mlp(6, (8,), 3), 3), 1.7),
    "TemperedMean": lambda: felbo.TemperedMean(felbo.MCDropout(mlp(6, (8,), 3)), 0.8, draws=4),
    "float64": lambda: felbo.MAP(mlp(6, (8,), 3)).double(),
}


def with_noise(model: StochasticClassifier):
    """Give every parameter values that no constructor would give it."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def reloaded(model, tmp_path, **settings):
    return felbo.load(felbo.save(model, tmp_path / "model.safetensors"), **settings)


def assert_same(model, other, x=X):
    assert type(other) is type(model)
    first, second = model.state_dict(), other.state_dict()
    assert list(first) == list(second)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert [p.requires_grad for p in model.parameters()] == [
        p.requires_grad for p in other.parameters()
    ]
    assert [m.training for m in model.modules()] == [m.training for m in other.modules()]
    x = x.to(next(model.parameters()).dtype)
    one, two = felbo.predict(model, x, seed=3), felbo.predict(other, x, seed=3)
    assert torch.equal(one.probs, two.probs)
    assert torch.equal(one.concentration, two.concentration)
    assert torch.equal(model.weight_kl(), other.weight_kl())


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_predicts_what_the_saved_one_does(name, tmp_path):
    model = with_noise(MODELS[name]())
    assert_same(model, reloaded(model, tmp_path))


@pytest.mark.parametrize("kind", [felbo.MAP, felbo.MCDropout, felbo.MeanField, felbo.Rank1])
@pytest.mark.parametrize(
    "network",
    [
        lambda: compact(3, width=2),
        lambda: resnet18(3, width=2, channels=3),
        lambda: resnet_cifar(8, 3),
    ],
    ids=["compact", "resnet18", "resnet_cifar"],
)
def test_networks_for_images(kind, network, tmp_path):
    images = torch.rand(6, 3, 12, 12)
    model = with_noise(kind(network()))
    model(images)  # moves the running statistics of the normalisation
    assert_same(model, reloaded(model, tmp_path), images)


def test_alpha_dropout_comes_back_and_is_not_exported(tmp_path):
    network = nn.Sequential(nn.Linear(2, 50), nn.SELU(), nn.AlphaDropout(0.3), nn.Linear(50, 3))
    model = felbo.MCDropout(network, rate=0.1)
    felbo.save(model, tmp_path / "model.safetensors")
    loaded = felbo.load(tmp_path / "model.safetensors", network=network)
    assert loaded.network[2].p == 0.1
    x = torch.randn(4, 2)
    first, second = (felbo.predict(m, x, seed=0, num_data=50).probs for m in (model, loaded))
    assert torch.equal(first, second)
    with pytest.raises(felbo.errors.ExportError, match=r"dropout of .*2, AlphaDropout"):
        felbo.export(model, tmp_path / "model.pt2", x)


def test_frozen_parts_and_modes_come_back(tmp_path):
    network = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    network[0].requires_grad_(False)
    network[1].eval()
    for model in (felbo.MAP(network), felbo.Ensemble.from_networks([network, network])):
        assert_same(model, reloaded(model, tmp_path))


def test_loading_leaves_the_random_numbers_alone(tmp_path):
    path = felbo.save(MODELS["MAP"](), tmp_path / "model.safetensors")
    before = torch.get_rng_state()
    felbo.load(path)
    assert torch.equal(torch.get_rng_state(), before)


def test_wrapped_models_are_saved_as_the_model(tmp_path):
    model = MODELS["Ensemble"]()
    average = torch.optim.swa_utils.AveragedModel(model)
    assert_same(model, reloaded(average, tmp_path))


class Own(nn.Module):
    def __init__(self, width=5):
        super().__init__()
        self.first, self.last = nn.Linear(6, width), nn.Linear(width, 3)

    def forward(self, x):
        return self.last(self.first(x).tanh())


@pytest.mark.parametrize(
    "make",
    [
        lambda: felbo.MAP(Own()),
        lambda: felbo.MCDropout(Own(), 0.3, skip=("first",)),
        lambda: felbo.Ensemble(Own, 3),
        lambda: felbo.Rank1(Own(), 2),
        lambda: felbo.Tempered(felbo.MeanField(Own()), 2.0),
    ],
)
def test_a_network_of_ones_own_is_passed_back_in(make, tmp_path):
    model = with_noise(make())
    with pytest.raises(SavedFileError, match=r"Own, which felbo cannot build .*type Own.*network="):
        reloaded(model, tmp_path)
    assert_same(model, reloaded(model, tmp_path, network=Own()))
    assert_same(model, reloaded(model, tmp_path, network=Own))


def test_a_network_of_another_shape_is_refused(tmp_path):
    with pytest.raises(SavedFileError, match="do not fit this MAP"):
        reloaded(felbo.MAP(Own()), tmp_path, network=Own(7))


def tied():
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(6, 3))


def hooked():
    network = mlp(6, (8,), 3)
    network[1].register_forward_hook(lambda module, args, output: 2 * output)
    return network


@pytest.mark.parametrize(("make", "reason"), [(tied, "share"), (hooked, "hooks")])
def test_networks_that_layers_do_not_tell_are_asked_for(make, reason, tmp_path):
    model = felbo.MAP(make())
    with pytest.raises(SavedFileError, match=reason):
        reloaded(model, tmp_path)
    assert_same(model, reloaded(model, tmp_path, network=make()))


class Mine(felbo.MAP):
    pass


def test_what_cannot_be_saved_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"felbo\.save knows MAP.* got a Mine"):
        felbo.save(Mine(mlp(6, (8,), 3)), tmp_path / "model.safetensors")
    with pytest.raises(TypeError, match="plain network"):
        felbo.save(mlp(6, (8,), 3), tmp_path / "model.safetensors")
    with pytest.raises(TypeError, match="got dict"):
        felbo.save({}, tmp_path / "model.safetensors")
    with pytest.raises(felbo.FelboError, match="name of a file"):
        felbo.save(MODELS["MAP"](), tmp_path)
    assert list(tmp_path.iterdir()) == []
