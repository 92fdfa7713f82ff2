"""One set of draws for batch and points, with and without batch normalisation."""

import pytest
import torch
from torch import nn

from felbo import MAP, Ensemble, FunctionSpaceELBO, MCDropout, MeanField, Radial, UniformPrior
from felbo.measurement import Augmented
from felbo.networks import mlp
from felbo.objectives.forward import checked, forward_once

X, POINTS = torch.linspace(-1, 1, 16).view(8, 2), torch.linspace(5, 9, 10).view(5, 2)
RANDOM = {
    "dropout": lambda net: MCDropout(net, rate=0.5, mask="draw"),
    "mean-field": lambda net: MeanField(net, rho=0.0),
    "radial": lambda net: Radial(net, rho=0.0),
}


def normalised(**options):
    return nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6, **options), nn.ReLU(), nn.Linear(6, 3))


def statistics(model):
    return {name: value.clone() for name, value in model.named_buffers()}


def calls_of(model):
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    return calls


@pytest.mark.parametrize("kind", RANDOM)
# Without running statistics a batch is normalised by itself in evaluation mode too.
@pytest.mark.parametrize(
    ("network", "passes"),
    [(lambda: mlp(2, (20,), 3), 1), (lambda: normalised(track_running_stats=False), 2)],
)
def test_batch_and_points_see_the_same_draws(kind, network, passes):
    model = RANDOM[kind](network())
    calls = calls_of(model)
    batch, [(logits, points)] = forward_once(model, X, [X.clone()], [False], num_samples=4)
    assert len(calls) == passes
    assert torch.equal(points, X)
    torch.testing.assert_close(logits, batch)
    assert (batch - batch[:1]).abs().max() > 1e-3
    again, _ = forward_once(model, X, [X.clone()], [False], num_samples=4)
    assert (again - batch).abs().max() > 1e-3, "the generator was put back for good"


def test_both_terms_of_the_bound_see_the_same_draw():
    model, y = RANDOM["dropout"](mlp(2, (20,), 3).double()), torch.zeros(8, dtype=torch.int64)
    objective = FunctionSpaceELBO(UniformPrior(3), 50, Augmented(torch.clone), num_samples=4)
    torch.manual_seed(3)
    logits = model(X.double(), 4).detach()
    torch.manual_seed(3)
    loss = objective(model, X.double(), y)
    torch.testing.assert_close(loss.nll, -logits.log_softmax(-1)[:, :, 0].mean())
    torch.testing.assert_close(loss.kl, objective.divergence(logits, X).mean())


def test_points_leave_no_trace_in_batch_normalisation():
    torch.manual_seed(1)
    alone = MAP(normalised())
    torch.manual_seed(1)
    model = MAP(normalised())
    expected = alone(X)
    batch, [(elsewhere, _), (both, places)] = forward_once(
        model, X, [POINTS, POINTS + 1], [False, True], None
    )
    assert torch.equal(batch, expected)
    for (name, found), (_, wanted) in zip(
        model.named_buffers(), alone.named_buffers(), strict=True
    ):
        assert torch.equal(found, wanted), name
    # The points themselves see the running statistics, as in prediction.
    torch.testing.assert_close(elsewhere, alone.eval()(POINTS))
    torch.testing.assert_close(both, torch.cat([expected, alone(POINTS + 1)], 1))
    assert torch.equal(places, torch.cat([X, POINTS + 1]))
    assert all(module.training for module in model.modules())


def test_frozen_batch_normalisation_needs_one_pass():
    model = MAP(normalised())
    model.network[1].eval()
    calls, before = calls_of(model), statistics(model)
    forward_once(model, X, [POINTS], [False], None)
    assert len(calls) == 1
    assert not model.network[1].training
    for name, value in model.named_buffers():
        assert torch.equal(value, before[name]), name


def test_modes_are_put_back_after_an_error():
    model = MAP(normalised())
    with pytest.raises(RuntimeError):
        forward_once(model, X, [torch.zeros(3, 7)], [False], None)
    assert all(module.training for module in model.modules())


def test_losses_of_several_batches_may_be_summed_before_the_backward_pass():
    model, y = MAP(normalised()), torch.arange(8) % 3
    objective = FunctionSpaceELBO(UniformPrior(3), 50, torch.neg)
    (objective(model, X, y).total + objective(model, X + 1, y).total).backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


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
