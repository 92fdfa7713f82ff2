import copy

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo.training import TensorBatches


def data(size=50):
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(size, 2, generator=generator)
    return x, (x.sum(1) > 0).long()


def network():
    return felbo.networks.mlp(2, (8,), 2)


def objective():
    return felbo.FunctionSpaceELBO(felbo.UniformPrior(2), num_data=50)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def run(model, data, **options):
    options = {"epochs": 3, "progress": False, **options}
    return felbo.fit(model, options.pop("objective", objective()), data, **options)


def by_hand(model, batches, optimizer, epochs=3):
    """Train in the plainest way and return the history as lists."""
    history = {"total": [], "nll": [], "kl": []}
    for _ in range(epochs):
        losses = []
        for x, y in batches:
            optimizer.zero_grad()
            loss = objective()(model, x, y)
            loss.total.backward()
            optimizer.step()
            losses.append(loss)
        for name, values in history.items():
            values.append(sum(getattr(loss, name).item() for loss in losses) / len(losses))
    return history


def assert_same(history, expected):
    for name, values in expected.items():
        assert getattr(history, name) == pytest.approx(values, rel=1e-5)


@pytest.mark.parametrize("batch_size", [None, 16])
def test_tensors_train_as_a_loop_by_hand(batch_size):
    model = felbo.MCDropout(network())
    twin = copy.deepcopy(model)
    history = run(model, data(), batch_size=batch_size, seed=4, learning_rate=0.01)
    torch.manual_seed(4)
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.01)
    assert_same(history, by_hand(twin, TensorBatches(*data(), batch_size), optimizer))
    torch.testing.assert_close(weights(model), weights(twin))


def test_a_data_loader_trains_as_a_loop_by_hand():
    loader = DataLoader(TensorDataset(*data()), batch_size=16, shuffle=True)
    model = felbo.Ensemble(network, members=3)
    twin = copy.deepcopy(model)
    history = run(model, loader, seed=4, optimizer=lambda p: torch.optim.SGD(p, lr=0.1))
    torch.manual_seed(4)
    assert_same(history, by_hand(twin, loader, torch.optim.SGD(twin.parameters(), lr=0.1)))
    torch.testing.assert_close(weights(model), weights(twin))


@pytest.mark.parametrize("loader", [True, False])
def test_the_same_seed_gives_the_same_numbers(loader):
    first = felbo.MCDropout(network())
    same, other = copy.deepcopy(first), copy.deepcopy(first)
    source = DataLoader(TensorDataset(*data()), 16, shuffle=True) if loader else data()
    options = {} if loader else {"batch_size": 16}
    expected = run(first, source, seed=1, **options)
    torch.rand(17)
    assert run(same, source, seed=1, **options) == expected
    assert torch.equal(weights(first), weights(same))
    assert run(other, source, seed=2, **options) != expected


def test_a_seed_leaves_the_generator_of_the_caller_alone():
    model = felbo.MAP(network())
    state = torch.get_rng_state()
    run(model, data(), batch_size=16, seed=1)
    assert torch.equal(torch.get_rng_state(), state)


def test_training_lowers_the_loss_and_learns():
    model, (x, y) = felbo.MAP(network()), data()
    history = run(model, (x, y), batch_size=10, epochs=40, learning_rate=0.02)
    assert history.total[-1] < 0.7 * history.total[0]
    assert felbo.score(felbo.predict(model, x).probs, y).accuracy > 90


def test_the_scheduler_is_stepped_once_per_epoch():
    rates, schedules = [], []

    def scheduler(optimizer):
        schedules.append(torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], gamma=0.1))
        return schedules[0]

    run(
        felbo.MAP(network()),
        data(),
        batch_size=16,
        epochs=4,
        optimizer=lambda p: torch.optim.SGD(p, lr=1.0),
        scheduler=scheduler,
        on_epoch=lambda epoch, loss: rates.append(schedules[0].get_last_lr()[0]),
    )
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01])


def test_a_rate_of_zero_from_the_scheduler_stops_learning():
    model, snapshots = felbo.MAP(network()), []
    run(
        model,
        data(),
        scheduler=lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [1], gamma=0.0),
        on_epoch=lambda epoch, loss: snapshots.append(weights(model)),
    )
    assert torch.equal(snapshots[0], snapshots[1])


@pytest.mark.parametrize("training", [True, False])
def test_the_model_trains_in_training_mode_and_gets_its_own_back(training):
    model, modes = felbo.MAP(network()).train(training), []

    def watched(model_, x, y):
        modes.append(model.training)
        return objective()(model_, x, y)

    run(model, data(), objective=watched)
    assert modes == [True] * 3
    assert model.training is training


def test_the_mode_comes_back_after_an_error_too():
    model = felbo.MAP(network()).eval()
    with pytest.raises(ValueError, match="prior has 3 classes"):
        run(model, data(), objective=felbo.FunctionSpaceELBO(felbo.UniformPrior(3), 50))
    assert model.training is False


def test_gradients_left_from_before_do_not_enter_the_first_step():
    model = felbo.MAP(network())
    twin = copy.deepcopy(model)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 100.0)
    options = {"epochs": 1, "optimizer": lambda p: torch.optim.SGD(p, lr=0.1)}
    run(model, data(), **options)
    run(twin, data(), **options)
    assert torch.equal(weights(model), weights(twin))


def test_a_loss_that_is_not_a_number_stops_the_run():
    x, y = data()
    x[7, 1] = torch.nan
    epochs = []
    with pytest.raises(FloatingPointError, match="loss became nan"):
        run(felbo.MAP(network()), (x, y), on_epoch=lambda *a: epochs.append(a))
    assert epochs == []


def test_on_epoch_gets_what_the_history_keeps():
    calls = []
    history = run(felbo.MAP(network()), data(), on_epoch=lambda *a: calls.append(a))
    assert [epoch for epoch, _ in calls] == [0, 1, 2]
    assert [float(loss.kl) for _, loss in calls] == history.kl


def test_the_progress_bar_shows_the_last_loss(capsys):
    history = run(felbo.MAP(network()), data(), progress=True)
    shown = capsys.readouterr().out
    assert "3/3 epochs" in shown
    assert f"loss {history.total[-1]:.4f}" in shown
    run(felbo.MAP(network()), data(), progress=False)
    assert capsys.readouterr().out == ""


def test_impossible_arguments_are_refused():
    model = felbo.MAP(network())
    loader = DataLoader(TensorDataset(*data()), batch_size=16)
    with pytest.raises(ValueError, match="epochs must be at least 1, got 0"):
        run(model, data(), epochs=0)
    with pytest.raises(ValueError, match="batch_size = 8 is for tensors"):
        run(model, loader, batch_size=8)
    with pytest.raises(TypeError, match=r"DataLoader or a tuple of tensors .* got list"):
        run(model, list(data()))
    with pytest.raises(ValueError, match=r"gave no batch.*drop_last"):
        run(model, DataLoader(TensorDataset(*data()), batch_size=64, drop_last=True))
