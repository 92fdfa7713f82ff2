import copy
import math

import pytest
import torch
from torch import nn

from felbo import MAP, MCDropout
from felbo.layers import ActiveDropout
from felbo.networks import mlp


def two_linear(rate=0.4):
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(rate), nn.Linear(8, 3))


def test_rate_zero_reaches_dropout_layers_that_were_there():
    network, x = two_linear(), torch.randn(6, 4)
    model = MCDropout(network, rate=0.0)
    assert torch.equal(model(x, 2), MAP(network.eval())(x, 2))


@pytest.mark.parametrize("training", [True, False])
def test_draws_differ_in_both_modes(training):
    model = MCDropout(mlp(4, (50,), 3)).train(training)
    out = model(torch.randn(6, 4), 2)
    assert not torch.equal(out[0], out[1])


def test_defaults_are_one_draw_in_training_and_ten_in_evaluation():
    model, x = MCDropout(mlp(4, (5,), 3)), torch.randn(6, 4)
    assert len(model(x)) == 1
    assert len(model.eval()(x)) == 10
    assert len(MCDropout(mlp(4, (5,), 3), evaluation_samples=3).eval()(x)) == 3


def test_inserted_before_every_weight_layer_the_input_included():
    """Each layer sees a masked input; the logits themselves are not masked."""
    network = nn.Sequential(nn.Conv2d(2, 4, 1), nn.Flatten(), nn.Linear(36, 20), nn.Linear(20, 3))
    model = MCDropout(network, rate=0.25)
    seen = {}
    for layer in (0, 2, 3):
        # Registered after the dropout, so this sees what the layer sees.
        model.network[layer].register_forward_pre_hook(
            lambda _, inputs, layer=layer: seen.__setitem__(layer, inputs[0])
        )
    logits = model(torch.rand(500, 2, 3, 3) + 1)
    for inputs in seen.values():
        dropped = (inputs == 0).double().mean().item()
        assert abs(dropped - 0.25) < 4 * math.sqrt(0.25 * 0.75 / inputs.numel())
    assert (logits != 0).all()


def test_inserted_dropout_leaves_the_mean_of_a_linear_network_unbiased():
    network, x = mlp(5, (), 3).double(), torch.randn(1, 5, dtype=torch.float64)
    draws = MCDropout(network, rate=0.2)(x, 20_000)[:, 0]
    error = draws.std(0) / math.sqrt(len(draws))
    assert ((draws.mean(0) - network(x)[0]).abs() < 4 * error).all()
    # Var[b / (1 - p)] = p / (1 - p) for the mask, hence for the logits Σ (w x)² p / (1 - p).
    variance = (network[1].weight * x).square().sum(-1) * 0.2 / 0.8
    torch.testing.assert_close(draws.var(0), variance, rtol=0.05, atol=0)


def test_own_dropout_layers_are_taken_over_with_their_rates():
    model = MCDropout(two_linear(0.4))
    (dropout,) = [m for m in model.modules() if isinstance(m, ActiveDropout)]
    assert model.network[2] is dropout
    assert dropout.rate == 0.4
    assert MCDropout(two_linear(0.4), rate=0.1).network[2].rate == 0.1


def test_a_dropout_layer_used_twice_is_taken_over_twice():
    shared = nn.Dropout(0.3)
    network = nn.Sequential(nn.Linear(4, 4), shared, nn.Linear(4, 4), shared, nn.Linear(4, 3))
    model = MCDropout(network)
    assert not any(isinstance(m, nn.Dropout) for m in model.network.modules())
    assert model.network[1] is model.network[3]


def test_feature_dropout_drops_whole_maps():
    model = MCDropout(nn.Sequential(nn.Dropout2d(0.5), nn.Flatten(), nn.Identity()))
    alive = model(torch.ones(20, 10, 3, 3)).view(20, 10, 9) != 0
    assert (alive.all(-1) == alive.any(-1)).all()
    assert alive.any()
    assert not alive.all()


def test_a_mask_per_draw_makes_a_draw_one_function():
    x = torch.randn(1, 4).expand(6, 4)
    shared = MCDropout(mlp(4, (50, 50), 3).double(), mask="draw")(x.double(), 3)
    torch.testing.assert_close(shared, shared[:, :1].expand_as(shared))
    assert not torch.allclose(shared[0], shared[1])
    own = MCDropout(mlp(4, (50, 50), 3), mask="item")(x, 3)
    assert not torch.allclose(own[:, 0], own[:, 1])


def test_mask_reaches_dropout_layers_that_were_there():
    out = MCDropout(two_linear().double(), mask="draw")(torch.ones(6, 4, dtype=torch.float64), 3)
    torch.testing.assert_close(out, out[:, :1].expand_as(out))


def test_skip_leaves_layers_without_dropout():
    model, seen = MCDropout(mlp(4, (50, 50), 3), skip=("1",)), {}
    for layer in (1, 3, 5):
        model.network[layer].register_forward_pre_hook(
            lambda _, inputs, layer=layer: seen.__setitem__(layer, inputs[0])
        )
    network_inputs = torch.rand(6, 4) + 1
    model(network_inputs)
    assert torch.equal(seen[1], network_inputs)
    positive = torch.relu(model.network[1](network_inputs))
    assert ((seen[3] == 0) & (positive > 0)).any()
    with pytest.raises(ValueError, match="omit skip"):
        MCDropout(two_linear(), skip=("0",))


@pytest.mark.parametrize("make", [lambda: mlp(4, (5,), 3), two_linear])
def test_weights_keep_their_names_and_the_network_is_untouched(make):
    network, x = make().eval(), torch.randn(6, 4)
    before, names = network(x), [type(m) for m in network.modules()]
    model = MCDropout(network, rate=0.9)
    assert list(model.network.state_dict()) == list(network.state_dict())
    network.load_state_dict(model.network.state_dict())
    assert torch.equal(network(x), before)
    assert [type(m) for m in network.modules()] == names


def test_each_draw_normalises_its_own_batch():
    """With batch statistics, a draw does not depend on the other draws."""
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    x = torch.randn(16, 4)
    model = MCDropout(network, rate=0.0)
    torch.testing.assert_close(model(x, 3)[2], copy.deepcopy(network).train()(x))


@pytest.mark.parametrize("layer", [nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_alpha_dropout_is_the_networks_own(layer):
    network = nn.Sequential(nn.Linear(4, 50), nn.SELU(), layer(0.3), nn.Linear(50, 3))
    model, x = MCDropout(network).eval(), torch.randn(6, 4)
    assert not any(isinstance(part, ActiveDropout) for part in model.modules())
    assert not any(part._forward_pre_hooks for part in model.modules())
    draws = model(x, 2)
    assert not torch.equal(draws[0], draws[1])
    assert MCDropout(network, rate=0.1).network[2].p == 0.1
    assert MCDropout(nn.Sequential(network, nn.Dropout(0.1)), mask="draw").without_dropout == (
        "0.2",
    )


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.filterwarnings("ignore:dropout option")
def test_dropout_of_a_single_recurrent_layer_is_none(kind):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.recurrent = kind(4, 8, num_layers=1, dropout=0.5, batch_first=True)
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            return self.head(self.recurrent(x)[0][:, -1])

    draws = MCDropout(Recurrent()).eval()(torch.randn(2, 5, 4))
    assert bool((draws.std(0) > 0).all())
