"""Adam must be torch's own in everything but time, so each test trains with both."""

import copy
import pickle

import pytest
import torch
from torch import nn

import felbo
from felbo.training import Adam, adam

X = torch.randn(32, 6, generator=torch.Generator().manual_seed(1))


def network(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)


def theirs(params, **options):
    fused = not (options.get("foreach") or options.get("differentiable"))
    return torch.optim.Adam(params, **{"fused": fused, **options})


def backward(model, step):
    model(X.to(model[0].weight.dtype)).sub(step).square().mean().backward()


def train(model, optimizer, steps=6, first=0):
    for step in range(first, first + steps):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()


def assert_same(model, optimizer, other, other_optimizer):
    for ours, expected in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, expected)
    states = (o.state_dict()["state"] for o in (optimizer, other_optimizer))
    for ours, expected in zip(*(s.values() for s in states), strict=True):
        assert ours.keys() == expected.keys()
        assert all(torch.equal(ours[name], expected[name]) for name in ours)


def assert_as_torch(training, dtype=torch.float32, **options):
    """Let ours and torch's do the same training and compare the outcome; return ours."""
    pairs = []
    for make in (Adam, theirs):
        model = network(dtype)
        optimizer = make(model.parameters(), **options)
        training(model, optimizer)
        pairs += [model, optimizer]
    assert_same(*pairs)
    return pairs[1]


@pytest.fixture
def updates(monkeypatch):
    """Count the quick updates, so that a test can tell which way was taken."""
    calls = []

    def counted(*args, **options):
        calls.append(len(args[0]))
        return torch._fused_adam_(*args, **options)

    monkeypatch.setattr(adam, "_UPDATE", counted)
    return calls


@pytest.mark.parametrize(
    ("options", "quick"),
    [
        ({}, True),
        ({"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.1}, True),
        ({"amsgrad": True}, False),
        ({"fused": False}, False),
        ({"maximize": True}, False),
        ({"foreach": True}, False),
        ({"lr": torch.tensor(0.1)}, False),
        ({"betas": (torch.tensor(0.5), torch.tensor(0.9))}, False),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_and_states_equal_those_of_torch(options, quick, dtype, updates):
    assert_as_torch(train, dtype, **options)
    # The first step is torch's own: it makes the state.
    assert updates == ([4] * 5 if quick else [])


def test_groups_with_options_of_their_own_and_a_schedule(updates):
    def training(model, optimizer):
        first, second = dict(optimizer.param_groups[0]), dict(optimizer.param_groups[0])
        first.update(params=list(model[0].parameters()), lr=0.05)
        second.update(params=list(model[2].parameters()), weight_decay=0.2)
        optimizer.param_groups[:] = [first, second]
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
        for step in range(4):
            train(model, optimizer, steps=2, first=2 * step)
            schedule.step()
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
        train(model, optimizer, steps=2)

    assert_as_torch(training)
    assert updates == [2] * 2 * 9


def test_parameters_that_are_frozen_for_a_while(updates):
    def training(model, optimizer):
        model[0].requires_grad_(False)
        train(model, optimizer, steps=3)
        model[0].requires_grad_(True)
        train(model, optimizer, steps=3)
        model[2].requires_grad_(False)
        train(model, optimizer, steps=3)

    optimizer = assert_as_torch(training)
    assert [int(state["step"]) for state in optimizer.state.values()] == [6] * 4
    assert updates == [2, 2, 4, 4, 2, 2, 2]


@pytest.mark.parametrize("source", [Adam, theirs])
@pytest.mark.parametrize("target", [Adam, theirs])
def test_states_can_be_exchanged_with_torch(source, target):
    model, straight = network(), network()
    optimizer, uninterrupted = source(model.parameters(), lr=0.02), theirs(straight.parameters())
    uninterrupted.param_groups[0]["lr"] = 0.02
    train(model, optimizer, steps=3)
    resumed = target(model.parameters())
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(model, resumed, steps=3, first=3)
    train(straight, uninterrupted)
    assert_same(model, resumed, straight, uninterrupted)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_a_copy_goes_on_by_itself(copied):
    model = network()
    optimizer = Adam(model.parameters())
    train(model, optimizer, steps=3)
    twin, twin_optimizer = copied((model, optimizer))
    train(twin, twin_optimizer, steps=2, first=3)
    assert int(next(iter(optimizer.state.values()))["step"]) == 3
    train(model, optimizer, steps=2, first=3)
    assert_same(model, optimizer, twin, twin_optimizer)


def test_a_state_that_was_cleared_or_changed_counts():
    def training(model, optimizer):
        train(model, optimizer, steps=3)
        optimizer.state.clear()
        train(model, optimizer, steps=3)
        state = optimizer.state[model[0].weight]
        state["exp_avg"] = torch.ones_like(state["exp_avg"])
        state["step"] = torch.tensor(40.0)
        train(model, optimizer, steps=3)

    assert_as_torch(training)


def test_a_state_whose_data_were_exchanged_counts():
    """As when a training is moved to another device and back."""

    def training(model, optimizer):
        train(model, optimizer, steps=3)
        for state in optimizer.state.values():
            for tensor in state.values():
                tensor.data = tensor.data.clone()
        train(model, optimizer, steps=3)

    optimizer = assert_as_torch(training)
    assert [int(state["step"]) for state in optimizer.state.values()] == [6] * 4


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_a_parameter_that_is_there_twice():
    found = []
    for make in (Adam, theirs):
        weight = nn.Parameter(torch.ones(3))
        optimizer = make([weight, weight])
        for _ in range(4):
            optimizer.zero_grad()
            weight.square().sum().backward()
            optimizer.step()
        found += [weight, optimizer.state[weight]["step"]]
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[1], found[3])


def test_counts_from_elsewhere_and_inference_mode():
    def training(model, optimizer):
        train(model, optimizer, steps=1)
        backward(model, 1)
        with torch.inference_mode():
            optimizer.step()
        train(model, optimizer, steps=2)
        state = optimizer.state[model[0].weight]
        state["step"] = state["step"].view(1).clone()
        train(model, optimizer, steps=2)

    assert_as_torch(training)


def test_options_that_this_torch_does_not_know(monkeypatch, updates):
    monkeypatch.setattr(adam, "_MORE", (*adam._MORE, "of_another_version"))
    model = network()
    train(model, Adam(model.parameters()), steps=2)
    assert updates == [4]


def test_hooks_are_called_once_on_either_way():
    # An instance of torch's class puts hooks around that class's step.
    theirs(network().parameters())
    model = network()
    optimizer = Adam(model.parameters())
    called = []
    optimizer.register_step_post_hook(lambda *_: called.append("after"))
    train(model, optimizer, steps=2)
    optimizer.param_groups[0]["maximize"] = True
    train(model, optimizer, steps=1)
    assert called == ["after"] * 3


def test_closures_are_called_with_gradients_enabled():
    model = network()
    optimizer = Adam(model.parameters())

    def closure():
        optimizer.zero_grad()
        loss = model(X).square().mean()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(5)]
    assert losses[-1] < losses[0]


def test_a_gradient_scaler_is_listened_to():
    model = network()
    optimizer = Adam(model.parameters())
    train(model, optimizer, steps=2)
    before = copy.deepcopy(model.state_dict())
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    optimizer.zero_grad()
    scaler.scale(model(X).sum() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_step_can_be_differentiated_like_torchs():
    found = []
    for make in (Adam, theirs):
        rate = torch.tensor(0.1, requires_grad=True)
        weight = torch.ones(2, requires_grad=True)
        moved = weight.clone()
        optimizer = make([moved], lr=rate, differentiable=True)
        moved.square().sum().backward()
        moved.grad = torch.ones(2)
        optimizer.step()
        moved.sum().backward()
        found.append(rate.grad)
    assert torch.equal(*found)
    assert found[0] != 0


def test_no_gradient_and_sparse_gradients():
    model = network()
    optimizer = Adam(model.parameters())
    optimizer.step()
    assert all(not state for state in optimizer.state.values())
    table = nn.Embedding(4, 2, sparse=True)
    optimizer = Adam(table.parameters())
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="sparse gradients"):
        optimizer.step()


def test_zero_grad_forgets_or_fills():
    model = network()
    optimizer = Adam(model.parameters())
    backward(model, 1)
    optimizer.zero_grad(set_to_none=False)
    assert all(not p.grad.any() for p in model.parameters())
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_without_the_quick_update_torch_does_it(monkeypatch):
    monkeypatch.setattr(adam, "_UPDATE", None)
    assert_as_torch(train)


def test_fit_takes_it():
    taken = []
    model = felbo.MAP(network())
    felbo.fit(
        model,
        felbo.NegativeLogLikelihood(),
        (X, torch.arange(32) % 3),
        epochs=1,
        batch_size=16,
        progress=False,
        scheduler=lambda optimizer: taken.append(type(optimizer)) or None,
    )
    assert taken == [Adam]
