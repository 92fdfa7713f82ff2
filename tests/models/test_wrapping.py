"""How a network is taken into a model: checked, copied, without compilation."""

import warnings

import pytest
import torch
from torch import nn

import felbo
from felbo.models import MAP, Ensemble, MCDropout, MeanField, Rank1, SubnetworkLaplace
from felbo.models._wrapping import own_copy
from felbo.networks import mlp

WRAPPERS = [MAP, MCDropout, MeanField, Rank1, SubnetworkLaplace]
X = torch.randn(6, 4)


def network():
    torch.manual_seed(0)
    return mlp(4, (50,), 3)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_what_is_no_network_is_refused(wrap):
    with pytest.raises(TypeError, match=r"got function. Call it first"):
        wrap(network)
    with pytest.raises(TypeError, match=r"Expected a network \(nn.Module\), got list"):
        wrap([network()])
    with pytest.raises(TypeError, match="got MAP, which is a stochastic classifier already"):
        wrap(MAP(network()))


@pytest.mark.parametrize("wrap", [*WRAPPERS, lambda net: Ensemble(lambda: net, 1)])
@pytest.mark.parametrize(
    "end", [nn.Softmax(-1), nn.Softmax2d(), nn.Sequential(nn.Softmax(-1)), nn.Sigmoid()]
)
def test_networks_that_end_in_probabilities_are_refused(wrap, end):
    with pytest.raises(ValueError, match=r"ends in nn.S.*takes logits.*leave out the last layer"):
        wrap(nn.Sequential(nn.Linear(4, 3), end))


def test_other_places_and_logarithms_of_a_softmax_are_accepted():
    MAP(nn.Sequential(nn.Linear(4, 3), nn.Softmax(-1), nn.Linear(3, 3)))
    logits = MAP(nn.Sequential(network(), nn.LogSoftmax(-1)))(X)
    torch.testing.assert_close(logits[0].softmax(-1), network()(X).softmax(-1))


def test_an_ensemble_takes_a_function_that_builds_networks():
    with pytest.raises(TypeError, match=r"got the network Sequential itself.*from_networks"):
        Ensemble(network())
    with pytest.raises(TypeError, match=r"got list; for existing networks.*from_networks"):
        Ensemble([network()])
    with pytest.raises(TypeError, match="Expected a network"):
        Ensemble(lambda: None, 2)


def compiled_by_function():
    return torch.compile(network(), backend="eager")


def compiled_in_place():
    net = network()
    net.compile(backend="eager")
    return net


def compiled_inside():
    return nn.Sequential(nn.Identity(), compiled_by_function())


def compiled_twice():
    return torch.compile(compiled_inside(), backend="eager")


@pytest.mark.parametrize(
    "make", [compiled_by_function, compiled_in_place, compiled_inside, compiled_twice]
)
def test_networks_that_were_compiled_and_run_get_their_dropout(make):
    net = make()
    expected = net(X)
    model = MCDropout(net, rate=0.5).eval()
    first, second = model(X, 2)
    assert not torch.equal(first, second)
    torch.testing.assert_close(MAP(net)(X)[0], expected)
    kinds = {type(module).__name__ for module in own_copy(net).modules()}
    assert kinds <= {"Sequential", "Flatten", "Identity", "Linear", "ReLU"}
    torch.testing.assert_close(net(X), expected)  # the user's own stays compiled and as it was


def test_a_forward_that_a_decorator_compiled_says_that_dropout_never_ran():
    class Decorated(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        @torch.compile(backend="eager")
        def forward(self, x):
            return self.layer(x)

    net = Decorated()
    net(X)
    model = MCDropout(net).eval()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first, second = model(X, 2)
    said = any("compiled by a decorator" in str(warning.message) for warning in caught)
    assert said == torch.equal(first, second)


def test_a_network_with_a_forward_of_its_own_is_no_compiled_one():
    net = nn.Sequential(nn.Linear(4, 3))
    net.forward = lambda x: net[0](x) * 2
    assert type(own_copy(net)) is nn.Sequential


class Remembering(nn.Sequential):
    """A network that keeps its last features, which belong to the graph of that call."""

    def forward(self, x):
        self.features = self[0](x)
        return self[1](self.features)


@pytest.mark.parametrize(
    "network",
    [
        lambda: Remembering(nn.Linear(2, 4), nn.Linear(4, 3)),
        lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(2, 4)), nn.Linear(4, 3)),
        lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(2, 4)), nn.Linear(4, 3)),
    ],
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_networks_that_hold_values_of_their_last_call_are_copied(network):
    network, x = network(), torch.randn(8, 2)
    network(x).sum().backward()
    network.eval()
    model = MAP(network)
    torch.testing.assert_close(model(x)[0], network(x))
    model(x).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert Ensemble.from_networks([network, network])(x).shape == (2, 8, 3)
    tuned = felbo.finetune(model, (x, torch.arange(8) % 3), epochs=1, progress=False)
    assert felbo.ModelPrior(tuned, 5.0)(x).concentration.shape == (8, 3)
