"""What models say of themselves: last layer, concentration, kind; and what they warn of."""

import warnings

import pytest
import torch
from torch import nn

import felbo
from felbo import FunctionSpaceELBO, UniformPrior, fit
from felbo.errors import SettingError
from felbo.models import (
    MAP,
    ConcentrationNetwork,
    Ensemble,
    MCDropout,
    MeanField,
    Radial,
    Rank1,
    unwrap,
)
from felbo.models.base import refuse_probabilities
from felbo.networks import mlp

from .kinds import KINDS, NETWORKS, X, build

every_kind = pytest.mark.parametrize("kind", KINDS)
every_network = pytest.mark.parametrize("network", NETWORKS)


@every_kind
@every_network
def test_last_layer(kind, network):
    model = build(kind, NETWORKS[network])
    last = {id(parameter) for parameter in model.last_layer_parameters()}
    names = [name for name, parameter in model.named_parameters() if id(parameter) in last]
    end = {"mlp": "3", "convolutional": "4", "transformer": "head"}[network]
    held = [f"network.{end}.weight", f"network.{end}.bias"]
    expected = {
        "Ensemble": [f"members.{m}.{end}.{p}" for m in (0, 1) for p in ("weight", "bias")]
        if network != "mlp"
        else ["members.layers.3.weight", "members.layers.3.bias"],
        "MeanField": [*held, f"rho.{end}.weight", f"rho.{end}.bias"],
        "Radial": [*held, f"rho.{end}.weight", f"rho.{end}.bias"],
        "Rank1": [
            *(f"network.{end}.{part}" for part in ("bias", "shared.weight")),
            *(f"network.{end}.{s}.{p}" for s in ("input", "output") for p in ("mean", "rho")),
        ],
        "Tempered": [f"model.{name}" for name in held],
    }.get(kind, held)
    assert sorted(names) == sorted(expected)


def test_last_layer_of_a_network_without_layers_is_refused():
    with pytest.raises(ValueError, match="no linear or convolutional layer"):
        MAP(nn.Flatten()).last_layer_parameters()


def test_scale_of_a_tied_last_layer_belongs_to_it():
    network = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    network[1].weight = network[0].weight
    model = MeanField(network)
    assert len(model.last_layer_parameters()) == 2
    assert len(Rank1(network).last_layer_parameters()) == 5


@every_kind
def test_only_a_concentration_network_gives_a_concentration(kind):
    model = build(kind)
    alpha = model.concentration(X)
    assert (alpha is not None) == model.gives_concentration == (kind == "ConcentrationNetwork")
    if alpha is not None:
        torch.testing.assert_close(alpha, model(X, 1)[0].exp())


@every_kind
@pytest.mark.parametrize("other", KINDS)
@pytest.mark.parametrize("strict", [True, False])
def test_state_of_another_kind_is_refused(kind, other, strict):
    model, state = build(kind), build(other).state_dict()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    if kind == other:
        assert model.load_state_dict(state, strict=strict).missing_keys == []
        return
    with pytest.raises(RuntimeError, match=f"comes from a {other} and the model is a {kind}"):
        model.load_state_dict(state, strict=strict)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@every_kind
def test_state_that_does_not_say_its_kind_is_loaded(kind):
    model, other = build(kind), build(kind, seed=5)
    state = {name: value for name, value in other.state_dict().items() if "extra" not in name}
    assert model.load_state_dict(state).unexpected_keys == []
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, other.get_parameter(name))


@pytest.mark.parametrize(
    ("model", "other", "message"),
    [
        (lambda: Ensemble(NETWORKS["mlp"], 2), lambda: Ensemble(NETWORKS["mlp"], 3), "members=3"),
        (
            lambda: Ensemble(NETWORKS["mlp"], 2),
            lambda: Ensemble(NETWORKS["mlp"], 2, low_memory=True),
            "stacked=False and the model has stacked=True",
        ),
        (lambda: Rank1(mlp(2, (), 3), 4), lambda: Rank1(mlp(2, (), 3), 2), "members=2"),
        (
            lambda: ConcentrationNetwork(mlp(2, (), 3)),
            lambda: ConcentrationNetwork(mlp(2, (), 3), link="relu"),
            "link='relu' and the model has link='exp'",
        ),
    ],
)
def test_state_of_other_settings_is_refused(model, other, message):
    with pytest.raises(RuntimeError, match=f"{message}.*build the model with the same settings"):
        model().load_state_dict(other().state_dict(), strict=False)


def test_the_kind_is_found_inside_other_modules():
    def held(model):
        return nn.ModuleDict({"part": nn.Sequential(model)})

    network = mlp(2, (), 3)
    state = held(MAP(network)).state_dict()
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    with pytest.raises(RuntimeError, match="comes from a MAP and the model is a MCDropout"):
        held(MCDropout(network)).load_state_dict(state)
    old = {name: value for name, value in state.items() if "extra" not in name}
    held(MAP(network)).load_state_dict(old)


def warned(model, x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            model(x)
    return [str(warning.message) for warning in caught]


class Normalised(nn.Module):
    """A network whose softmax is no layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, x):
        return self.layer(x).softmax(-1)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_probabilities_as_outputs_are_refused(training, dtype):
    model = MAP(Normalised()).to(dtype).train(training)
    for _ in range(2):  # not the first time only
        with pytest.raises(SettingError, match="outputs of the network in this MAP are probab"):
            model(torch.randn(500, 2, dtype=dtype))
    assert not warned(MAP(mlp(2, (), 3)), torch.randn(5, 2))
    assert not warned(MAP(nn.LogSoftmax(-1)), torch.randn(5, 2))


def test_a_row_of_logits_may_sum_to_one():
    model = MAP(Normalised())
    model(torch.randn(1, 2))
    with pytest.raises(SettingError, match="are probabilities"):  # not by chance any more
        model(torch.randn(2, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("spread", [0.0, 1e-7, 1e-3])
def test_logits_that_hardly_depend_on_the_input_may_sum_to_one(dtype, classes, spread):
    layer = nn.Linear(2, classes)
    nn.init.normal_(layer.weight, std=spread)
    nn.init.constant_(layer.bias, 1 / classes)
    model = MAP(layer.to(dtype))
    for samples in (1, 5):
        model(torch.randn(64, 2, dtype=dtype), samples)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_probabilities_of_many_classes_are_refused_in_low_precision(dtype):
    network = nn.Sequential(nn.Linear(2, 1000), nn.Sequential(nn.Softmax(-1), nn.Identity()))
    with pytest.raises(SettingError, match="are probabilities"):
        MAP(network.to(dtype))(torch.randn(64, 2, dtype=dtype))


class Counts(nn.Linear):
    """A network whose outputs are integers, in every row one of them."""

    def forward(self, x):
        return torch.nn.functional.one_hot(super().forward(x).argmax(-1), 3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("back", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_probabilities_of_low_precision_are_refused_after_a_conversion(dtype, back, classes):
    logits = 3 * torch.randn(32, classes, generator=torch.Generator().manual_seed(0))
    with pytest.raises(SettingError, match="are probabilities"):
        refuse_probabilities(logits.to(dtype).softmax(-1).to(back), "a network")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_logits_of_low_precision_that_happen_to_sum_to_one_are_not_refused(dtype):
    generator = torch.Generator().manual_seed(0)
    # After ReLU, some of them within the rounding of one; and rows that hardly differ.
    for scale in (0.01, 0.3, 1.0, 3.0):
        rows = (scale * torch.randn(20_000, 4, generator=generator)).relu().to(dtype).float()
        near = rows[(rows.sum(-1) - 1).abs() < 0.008]
        for few in (*rows.split(8)[:500], *near.split(3)[:500]):
            refuse_probabilities(few, "a network")
    equal = torch.tensor([0.5, 0.25, 0.25]).expand(100, 3)
    hardly = equal + 0.002 * torch.randn(100, 3, generator=generator)
    refuse_probabilities(hardly.to(dtype).float(), "a network")


def test_integers_are_no_probabilities():
    x = torch.randn(8, 2)
    assert MAP(Counts(2, 3))(x).dtype == torch.int64
    assert felbo.predict(MAP(Counts(2, 3)), x).probs.shape == (8, 3)
    assert felbo.predict([Counts(2, 3), Counts(2, 3)], x).probs.shape == (8, 3)


def test_values_that_could_not_be_read_are_looked_at_later():
    x = torch.randn(8, 2)
    model = MAP(Normalised())
    torch.func.vmap(model, in_dims=0)(x.view(2, 4, 2))
    with pytest.raises(SettingError, match="are probabilities"):
        model(x)
    equal = Ensemble.from_networks([mlp(2, (8,), 3)] * 2).eval()
    torch.func.vmap(equal)(x.view(2, 4, 2))
    assert len(warned(equal, x)) == 1
    abstract = MAP(Normalised()).to("meta")
    abstract(x.to("meta"))
    abstract.load_state_dict(MAP(Normalised()).state_dict(), assign=True)
    with pytest.raises(SettingError, match="are probabilities"):
        abstract(x)


def test_a_hidden_softmax_is_refused_before_a_weight_moves():
    model, x = MAP(Normalised()), torch.randn(64, 2)
    before = [parameter.clone() for parameter in model.parameters()]
    objective = FunctionSpaceELBO(UniformPrior(3), 64)
    with pytest.raises(SettingError, match="leave out the network's last softmax"):
        fit(model, objective, (x, torch.arange(64) % 3), epochs=1, progress=False)
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: MeanField(mlp(2, (8,), 3), rho=-40.0), "below the precision"),
        (lambda: Radial(mlp(2, (8,), 3), rho=-40.0), "below the precision"),
        (lambda: Rank1(mlp(2, (8,), 3), rho=-40.0), "below the precision"),
        (lambda: Ensemble.from_networks([mlp(2, (8,), 3)] * 2), "members have the same weights"),
        (lambda: MCDropout(Direct()), "uses the weights of its layers without calling"),
    ],
)
def test_draws_that_agree_exactly_warn_once_in_evaluation(model, reason):
    model, x = model(), torch.randn(5, 2)
    assert model.is_random
    assert not warned(model.train(), x)
    (message,) = warned(model.eval(), x)
    assert f"draws of this {type(model).__name__} are exactly equal" in message
    assert reason in message


class Direct(nn.Module):
    """A network that reads the weight of a layer without calling the layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, x):
        return nn.functional.linear(x, self.layer.weight)


def test_models_of_one_function_do_not_warn():
    network, x = mlp(2, (8,), 3), torch.randn(5, 2)
    for model in (
        MAP(network),
        ConcentrationNetwork(network),
        MCDropout(network, 0.0),
        Ensemble.from_networks([network]),
    ):
        assert not model.is_random
        assert not warned(model.eval(), x)


def test_values_that_cannot_be_read_are_left_alone():
    model, x = MAP(mlp(2, (8,), 3)), torch.randn(5, 2)
    parameters = dict(model.named_parameters())

    def loss(parameters, item):
        return torch.func.functional_call(model, parameters, (item[None],)).square().sum()

    gradients = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
    assert gradients["network.1.weight"].shape == (5, 8, 2)


def test_unwrap_refuses_what_holds_none_or_several():
    with pytest.raises(TypeError, match=r"Sequential is a plain network.*felbo.MAP\(network\)"):
        unwrap(mlp(2, (), 3))
    with pytest.raises(TypeError, match="holds 2 stochastic classifiers"):
        unwrap(nn.ModuleList([MAP(mlp(2, (), 3)), MCDropout(mlp(2, (), 3))]))
    with pytest.raises(TypeError, match="got function"):
        unwrap(warned)


@pytest.mark.parametrize("samples", [0, -1, 2.5])
def test_draws_are_counted_in_whole_numbers(samples):
    for model in (MAP(mlp(2, (), 3)), MCDropout(mlp(2, (), 3)), MeanField(mlp(2, (), 3))):
        with pytest.raises(SettingError, match=f"whole number of at least 1, got {samples}"):
            model(torch.zeros(4, 2), samples)
