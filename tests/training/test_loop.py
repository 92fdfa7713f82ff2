"""`fit` does what a loop by hand does, and nothing else."""

import copy
import functools
import threading
import warnings

import pytest
import torch
from torch.optim.lr_scheduler import MultiStepLR, OneCycleLR, ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo.training import TensorBatches

from .small import data, elbo, fit, modes, network, normalised, weights


def by_hand(model, batches, optimizer, epochs=3, augment=lambda x: x, after_step=lambda: None):
    """Train in the plainest way and return the history as lists."""
    history, objective = felbo.History(), elbo()
    for _ in range(epochs):
        losses = []
        for x, y in batches:
            optimizer.zero_grad()
            loss = objective(model, augment(x), y)
            loss.total.backward()
            optimizer.step()
            after_step()
            losses.append(torch.stack(loss).detach())
        mean = torch.stack(losses).mean(0).tolist()
        history.append(felbo.Epoch(len(history), *mean, optimizer.param_groups[0]["lr"]))
    return history


def assert_same(model, twin, history, expected):
    for name in ("total", "nll", "kl"):
        assert getattr(history, name) == pytest.approx(getattr(expected, name), rel=1e-5)
    torch.testing.assert_close(weights(model), weights(twin))


@pytest.mark.parametrize("batch_size", [None, 16])
def test_tensors_train_as_a_loop_by_hand(batch_size):
    model = felbo.MCDropout(network())
    twin = copy.deepcopy(model)
    history = fit(model, data(), batch_size=batch_size, seed=4, learning_rate=0.01)
    torch.manual_seed(4)
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.01)
    expected = by_hand(twin, TensorBatches(*data(), batch_size), optimizer)
    assert_same(model, twin, history, expected)


@pytest.mark.parametrize("kind", ["loader", "dataset"])
@pytest.mark.parametrize("instance", [True, False])
def test_loaders_and_datasets_train_as_a_loop_by_hand(kind, instance):
    dataset = TensorDataset(*data())
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    model = felbo.Ensemble(network, members=3)
    twin = copy.deepcopy(model)
    made = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"optimizer": made if instance else lambda p: torch.optim.SGD(p, lr=0.1)}
    if kind == "loader":
        history = fit(model, loader, seed=4, **options)
    else:
        history = fit(model, dataset, batch_size=16, seed=4, **options)
    torch.manual_seed(4)
    expected = by_hand(twin, loader, torch.optim.SGD(twin.parameters(), lr=0.1))
    assert_same(model, twin, history, expected)


def test_a_scheduler_per_step_and_augmentation_train_as_a_loop_by_hand():
    model, rates = felbo.MAP(network()), []
    twin = copy.deepcopy(model)

    def noisy(x):
        return x + 0.1 * torch.randn_like(x)

    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    def cycle(optimizer):
        return OneCycleLR(optimizer, max_lr=0.5, total_steps=13)

    history = fit(
        model,
        data(),
        batch_size=16,
        seed=4,
        optimizer=sgd,
        scheduler=cycle,
        scheduler_step="step",
        augment=noisy,
    )
    torch.manual_seed(4)
    optimizer = sgd(twin.parameters())
    schedule = cycle(optimizer)

    def after_step():
        rates.append(schedule.get_last_lr()[0])
        schedule.step()

    batches = TensorBatches(*data(), 16)
    expected = by_hand(twin, batches, optimizer, augment=noisy, after_step=after_step)
    assert_same(model, twin, history, expected)
    assert max(rates) > 0.4 > 0.1 > rates[-1]


def test_augmentation_may_change_the_shape_to_what_the_network_takes():
    model, (x, y) = felbo.MAP(network()), data()
    fit(model, (torch.cat([x, x], 1), y), batch_size=16, augment=lambda batch: batch[:, :2])


@pytest.mark.parametrize("loader", [True, False])
def test_the_same_seed_gives_the_same_numbers_and_leaves_the_generator_alone(loader):
    first = felbo.MCDropout(network())
    same, other = copy.deepcopy(first), copy.deepcopy(first)
    source = DataLoader(TensorDataset(*data()), 16, shuffle=True) if loader else data()
    options = {} if loader else {"batch_size": 16}
    expected = fit(first, source, seed=1, **options)
    state = torch.rand(17), torch.get_rng_state()
    assert fit(same, source, seed=1, **options) == expected
    assert torch.equal(torch.get_rng_state(), state[1])
    assert torch.equal(weights(first), weights(same))
    assert fit(other, source, seed=2, **options) != expected


def test_seeded_trainings_in_two_threads_do_not_disturb_each_other():
    """The second starts in the midst of the first, and would end after it."""
    models = [felbo.MCDropout(network()) for _ in range(2)]
    twins = copy.deepcopy(models)
    for seed, twin in enumerate(twins):
        fit(twin, data(), batch_size=16, seed=seed)
    state, inside, ended = torch.get_rng_state(), threading.Event(), threading.Event()

    def second():
        fit(models[1], data(), batch_size=16, seed=1, on_epoch=lambda *_: inside_second())

    def inside_second():
        inside.set()
        ended.wait(5)

    thread = threading.Thread(target=second)

    def inside_first(epoch):
        if epoch == 0:
            thread.start()
            inside.wait(0.3)

    fit(models[0], data(), batch_size=16, seed=0, on_epoch=lambda epoch: inside_first(epoch.number))
    ended.set()
    thread.join()
    assert inside.is_set()
    for model, twin in zip(models, twins, strict=True):
        assert torch.equal(weights(model), weights(twin))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda o: MultiStepLR(o, [1, 3], gamma=0.1), [0.1, 0.1, 0.01, 0.01]),
        (
            lambda o: ReduceLROnPlateau(o, patience=0, threshold=9, threshold_mode="abs"),
            [1.0, 0.1, 0.01, 0.001],
        ),
    ],
)
def test_the_scheduler_advances_once_per_epoch(make, expected):
    rates, optimizers = [], []

    def scheduler(optimizer):
        optimizers.append(optimizer)
        return make(optimizer)

    fit(
        felbo.MAP(network()),
        data(),
        batch_size=16,
        epochs=4,
        optimizer=lambda p: torch.optim.SGD(p, lr=1.0),
        scheduler=scheduler,
        on_epoch=lambda epoch: rates.append(optimizers[0].param_groups[0]["lr"]),
    )
    assert rates == pytest.approx(expected)


def trained_modes(model, **options):
    """Modes of all modules in each step."""
    seen = []

    def watched(model_, x, y):
        seen.append(modes(model))
        return elbo()(model_, x, y)

    fit(model, data(), watched, **options)
    return seen


@pytest.mark.parametrize("training", [True, False])
def test_the_model_trains_in_training_mode_and_gets_its_own_back(training):
    model = felbo.MAP(normalised()).train(training)
    before = modes(model)
    assert all(all(found.values()) for found in trained_modes(model))
    assert modes(model) == before


def test_layers_frozen_by_the_user_stay_frozen():
    net = normalised()
    net[1].eval()
    other = normalised()
    other[1].eval()
    for model in (felbo.MAP(net), felbo.Ensemble.from_networks([net, other])):
        before = modes(model)
        statistics = {n: b.clone() for n, b in model.named_buffers()}
        assert trained_modes(model) == [before] * 3
        assert modes(model) == before
        assert sum(not mode for mode in before.values()) == len(statistics) // 3
        for name, buffer in model.named_buffers():
            assert torch.equal(buffer, statistics[name])


def test_modes_come_back_after_an_error_too():
    model = felbo.MAP(normalised()).eval()
    model.network[2].train()
    before = modes(model)
    with pytest.raises(ValueError, match="prior has 3 classes"):
        fit(model, data(), felbo.FunctionSpaceELBO(felbo.UniformPrior(3), 50))
    assert modes(model) == before


def test_gradients_left_from_before_do_not_enter_the_first_step():
    model = felbo.MAP(network())
    twin = copy.deepcopy(model)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 100.0)
    for candidate in (model, twin):
        fit(candidate, data(), epochs=1, optimizer=lambda p: torch.optim.SGD(p, lr=0.1))
    assert torch.equal(weights(model), weights(twin))


def test_on_epoch_gets_what_the_history_keeps():
    calls = []
    history = fit(felbo.MAP(network()), data(), on_epoch=calls.append)
    assert [epoch.number for epoch in calls] == [0, 1, 2]
    assert calls == history.epochs


@pytest.mark.parametrize("no_gradient", [torch.inference_mode, torch.no_grad])
def test_validation_after_an_epoch_leaves_no_trace_in_the_training(no_gradient):
    (x, y), histories = data(), []

    def validate(model, objective):
        with no_gradient():
            loss = objective(model.eval(), x, y)
            prediction = felbo.predict(model, x, seed=3)
        assert loss.total.isfinite()
        assert prediction.precision.isfinite().all()  # fitted outside of that mode

    def silent(model, objective):
        assert not model.training

    for look in (validate, silent):
        felbo.seed_everything(0)
        model, objective = felbo.Ensemble(normalised, members=3), elbo()
        look_now = functools.partial(look, model, objective)
        histories.append(
            fit(model, (x, y), objective, batch_size=16, on_epoch=lambda *_, f=look_now: f())
        )
    assert histories[0] == histories[1]


def test_the_progress_bar_shows_the_last_loss(capsys):
    history = fit(felbo.MAP(network()), data(), progress=True)
    shown = capsys.readouterr().out
    assert "3/3 epochs" in shown
    assert f"loss {history.total[-1]:.4f}" in shown
    fit(felbo.MAP(network()), data(), progress=False)
    assert capsys.readouterr().out == ""


def test_no_warning_comes_from_an_ordinary_training():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(felbo.MCDropout(network()), data(), batch_size=16)


@pytest.mark.parametrize("batch_size", [None, 16])
def test_augmentation_in_place_leaves_the_data_alone(batch_size):
    x, y = torch.randn(32, 2), torch.arange(32) % 2
    before = x.clone()

    def far(batch):
        return batch.mul_(2.0)

    fit(felbo.MAP(network()), (x, y), epochs=2, batch_size=batch_size, augment=far)
    felbo.finetune(network(), (x, y), epochs=1, augment=far, progress=False)
    assert torch.equal(x, before)
