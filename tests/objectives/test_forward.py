"""One set of draws for batch and points, in one pass; points that leave no trace."""

import pytest
import torch
from torch import nn

from felbo import MAP, Ensemble, FunctionSpaceELBO, MCDropout, MeanField, Radial, UniformPrior
from felbo.measurement import Augmented
from felbo.networks import mlp
from felbo.objectives.forward import checked, forward_once, forward_points

X, POINTS = torch.linspace(-1, 1, 16).view(8, 2), torch.linspace(5, 9, 10).view(5, 2)
RANDOM = {
    "dropout": lambda net: MCDropout(net, rate=0.2, mask="draw"),
    "mean-field": lambda net: MeanField(net, rho=0.0),
    "radial": lambda net: Radial(net, rho=0.0),
}


def normalised():
    return nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


@pytest.mark.parametrize("kind", RANDOM)
@pytest.mark.parametrize("network", [lambda: mlp(2, (20,), 3), normalised])
def test_batch_and_points_see_the_same_draws_in_one_pass(kind, network):
    model, calls = RANDOM[kind](network()), []
    model.register_forward_hook(lambda *_: calls.append(1))
    batch, [(logits, points)] = forward_once(model, X, [X.clone()], [False], num_samples=4)
    assert calls == [1]
    assert torch.equal(points, X)
    torch.testing.assert_close(logits, batch)
    assert (batch - batch[:1]).abs().max() > 1e-3


def test_both_terms_of_the_bound_see_the_same_draw():
    model, y = RANDOM["dropout"](mlp(2, (20,), 3).double()), torch.zeros(8, dtype=torch.int64)
    objective = FunctionSpaceELBO(UniformPrior(3), 50, Augmented(torch.clone), num_samples=4)
    torch.manual_seed(3)
    logits = model(X.double(), 4).detach()
    torch.manual_seed(3)
    loss = objective(model, X.double(), y)
    torch.testing.assert_close(loss.nll, -logits.log_softmax(-1)[:, :, 0].mean())
    torch.testing.assert_close(loss.kl, objective.divergence(logits, X).mean())


def test_each_set_gets_its_own_logits_and_places():
    model = MAP(normalised())
    batch, measured = forward_once(
        model, X, [None, POINTS, POINTS + 1], [True, False, True], num_samples=None
    )
    # Batch normalisation in training mode sees all of them together.
    expected = model(torch.cat([X, POINTS, POINTS + 1])).split([8, 5, 5], dim=1)
    torch.testing.assert_close(batch, expected[0])
    wanted = [expected[0], expected[1], torch.cat([expected[0], expected[2]], 1)]
    torch.testing.assert_close([logits for logits, _ in measured], wanted)
    places = [X, POINTS, torch.cat([X, POINTS + 1])]
    torch.testing.assert_close([points for _, points in measured], places)


def test_points_by_themselves_leave_no_trace_in_batch_normalisation():
    model = MAP(normalised())
    model(X)
    before = {name: value.clone() for name, value in model.named_buffers()}
    found = forward_points(model, POINTS, None)
    for name, value in model.named_buffers():
        assert torch.equal(value, before[name]), name
    assert all(module.training for module in model.modules())
    torch.testing.assert_close(found, model.eval()(POINTS))
    model.train().network[1].eval()
    forward_points(model, POINTS, None)
    assert not model.network[1].training, "a frozen layer was unfrozen"


def test_modes_are_put_back_after_an_error():
    model = MAP(normalised())
    with pytest.raises(RuntimeError):
        forward_points(model, torch.zeros(3, 7), None)
    assert all(module.training for module in model.modules())


def test_inputs_of_several_tensors():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 3)

        def forward(self, left, right):
            return self.linear(left + right)

    model, x = Ensemble(Sum, members=2), {"left": X, "right": -2 * X}
    twice = {"left": 2 * X, "right": X}
    batch, [(logits, points)] = forward_once(model, x, [twice], [True], None)
    torch.testing.assert_close(batch, model(x))
    torch.testing.assert_close(logits, torch.cat([model(x), model(twice)], 1))
    assert torch.equal(points["right"], torch.cat([-2 * X, X]))


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        ((8, 3), TypeError, r"logits \[M, B, K\].*got \[8, 3\].*felbo.MAP"),
        ((1, 9, 3), ValueError, r"logits of 8 items.*got \[1, 9, 3\].*one row of K logits"),
        ((1, 16, 3), ValueError, r"got \[1, 16, 3\]"),
        ((1, 8, 1), ValueError, "at least 2 classes"),
    ],
)
def test_logits_of_another_shape_are_refused(shape, error, message):
    with pytest.raises(error, match=message):
        checked(torch.zeros(shape), items=8)
