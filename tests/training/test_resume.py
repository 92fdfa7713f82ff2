"""A training that was interrupted at any instant ends as one that was not."""

import functools
import multiprocessing
import os
import random
import signal
import threading
import time
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, Dataset, TensorDataset

import felbo
from felbo.errors import CheckpointError, CheckpointWriteError, DamagedCheckpointWarning
from felbo.training import Checkpoint

from .small import data, elbo, network, normalised


class Killed(BaseException):
    """Stands for the end of the process: nothing is saved any more."""


class Identity:
    """An augmentation that does nothing, and ends the training at one of its calls."""

    def __init__(self, last=None):
        self.last, self.calls = last, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.last:
            raise Killed
        return x


def trained(folder, make, kills=(), seconds=0.0, **options):
    """Train, with as many interruptions; return the weights, the history and the objective."""
    for last in (*kills, None):
        # Everything is built anew, as in a new process.
        felbo.seed_everything(0)
        model, objective, given, own = make()
        options = {"epochs": 4, "seed": 1, "progress": False} | own | options
        try:
            history = felbo.fit(
                model,
                objective,
                given,
                augment=Identity(last),
                checkpoint=Checkpoint(folder, seconds),
                **options,
            )
        except Killed:
            continue
        return model.state_dict(), history, objective
    raise AssertionError("never reached")


def same(found, expected):
    """Bit-identical weights and statistics, equal histories."""
    for name, value in expected[0].items():
        assert torch.equal(found[0][name], value), name
    assert found[0].keys() == expected[0].keys()
    assert found[1] == expected[1]


def check(tmp_path, make, kills=(3, 2, 6), every=("step", "epoch"), **options):
    """Compare an interrupted training with one that was not interrupted."""
    whole = trained(tmp_path / "whole", make, **options)
    for each in every:
        # Without checkpoints in an epoch, only kills after a whole one leave progress.
        seconds = {"step": 0.0, "epoch": 1e9}[each]
        same(trained(tmp_path / each, make, kills, seconds, **options), whole)


def of(model, objective=None, given=None, **options):
    """Return a function that builds a training of tensors."""
    return lambda: (model(), (objective or elbo)(), (given or data)(), {"batch_size": 16} | options)


MODELS = {
    "map": lambda: felbo.MAP(normalised()),
    "mc-dropout": lambda: felbo.MCDropout(network(), rate=0.2),
    "ensemble": lambda: felbo.Ensemble(network, members=3),
    "radial": lambda: felbo.Radial(network()),
    "mean-field": lambda: felbo.MeanField(network()),
    "rank1": lambda: felbo.Rank1(network(), members=2),
}


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_of_model(kind, tmp_path):
    check(tmp_path, of(MODELS[kind]))


OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "rprop": torch.optim.Rprop,
    "asgd": torch.optim.ASGD,
    "adadelta": torch.optim.Adadelta,
    "adamax": torch.optim.Adamax,
    "radam": torch.optim.RAdam,
    "adafactor": torch.optim.Adafactor,
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser(name, tmp_path):
    make = of(MODELS["mc-dropout"], optimizer=OPTIMISERS[name])
    check(tmp_path, make, kills=(6, 3), every=["step"])


def test_lbfgs(tmp_path):
    make = of(
        MODELS["mc-dropout"],
        optimizer=lambda p: torch.optim.LBFGS(p, lr=0.5, max_iter=3, line_search_fn="strong_wolfe"),
    )
    check(tmp_path, make, kills=(2, 1, 2), batch_size=None)


PER_EPOCH = {
    "step": lambda o: lr_scheduler.StepLR(o, 2),
    "multi-step": lambda o: lr_scheduler.MultiStepLR(o, [1, 3]),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.8**epoch),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 4),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, factor=0.5),
    "sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.5), lr_scheduler.ExponentialLR(o, 0.9)], [2]
    ),
    "chained": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.5), lr_scheduler.ExponentialLR(o, 0.9)], o
    ),
}
PER_STEP = {
    "one-cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=16),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 3, cycle_momentum=False),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, factor=0.5),
}


@pytest.mark.parametrize("name", PER_EPOCH)
def test_every_schedule(name, tmp_path):
    check(tmp_path, of(MODELS["map"], scheduler=PER_EPOCH[name]), kills=(6, 6), every=["step"])


@pytest.mark.parametrize("name", PER_STEP)
def test_every_schedule_per_step(name, tmp_path):
    make = of(MODELS["map"], scheduler=PER_STEP[name], scheduler_step="step")
    check(tmp_path, make, kills=(6, 6), every=["step"])


def generator(seed=7):
    return torch.Generator().manual_seed(seed)


MEASUREMENTS = {
    "elsewhere": lambda: felbo.measurement.Elsewhere(generator=generator()),
    "global": felbo.measurement.Elsewhere,
    "mixture": lambda: felbo.measurement.Mixture(
        felbo.measurement.Batch(), felbo.measurement.ShuffledColumns(generator())
    ),
    "worst": lambda: felbo.measurement.WorstCase(
        felbo.measurement.ShuffledColumns(generator()), size=0.1
    ),
    "function": lambda: functools.partial(_shifted, generator()),
    "numpy": lambda: _numpy(np.random.default_rng(3), random.Random(3)),
}


def _shifted(source, x):
    return x + torch.randn(x.shape, generator=source)


def _numpy(array, plain):
    def moved(x):
        return x + torch.from_numpy(array.normal(size=x.shape)).float() + plain.random()

    return moved


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_every_measurement_set(name, tmp_path):
    objective = lambda: elbo(measurement=MEASUREMENTS[name]())  # noqa: E731
    x, y = data(80)
    make = of(MODELS["map"], objective, lambda: (x[:50], y[:50]), validation=(x[50:], y[50:]))
    check(tmp_path, make)


def test_counters_of_objectives(tmp_path):
    make = of(
        lambda: felbo.ConcentrationNetwork(network()), lambda: felbo.Evidential(annealing_steps=9)
    )
    check(tmp_path, make)


def test_early_stopping_and_best_weights(tmp_path):
    x, y = data(80)
    make = of(
        lambda: felbo.MAP(network()),
        felbo.NegativeLogLikelihood,
        lambda: (x[:50], y[:50]),
        validation=(x[50:], y[50:].flip(0)),  # wrong labels: soon nothing gets better
        patience=2,
        learning_rate=0.05,
    )
    check(tmp_path, make, kills=(6, 9), epochs=30)
    history = trained(tmp_path / "step", make, epochs=30)[1]
    assert len(history) < 30
    assert history.best.number == len(history) - 3


def test_accumulation_and_clipping(tmp_path):
    check(tmp_path, of(MODELS["map"], accumulate=3, clip_norm=0.1, batch_size=8))


class Noisy(Dataset):
    """Items with noise of torch, NumPy and Python, as augmentations draw it."""

    def __len__(self):
        return 50

    def __getitem__(self, index):
        x, y = data()
        noise = torch.rand(2) + np.random.rand() + random.random()  # noqa: NPY002
        return x[index] + noise, y[index]


LOADERS = {
    "shuffled": lambda: DataLoader(TensorDataset(*data()), 16, shuffle=True),
    "generator": lambda: DataLoader(
        TensorDataset(*data()), 16, shuffle=True, drop_last=True, generator=generator()
    ),
    "weighted": lambda: DataLoader(
        TensorDataset(*data()),
        16,
        sampler=torch.utils.data.WeightedRandomSampler(torch.rand(50), 50, generator=generator()),
    ),
    "noisy": lambda: DataLoader(Noisy(), 16, shuffle=True),
}


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("seed", [1, None])
def test_every_loader(name, seed, tmp_path):
    make = of(MODELS["mc-dropout"], given=LOADERS[name])
    check(tmp_path, make, seed=seed, batch_size="auto")


def test_a_loader_with_workers(tmp_path):
    make = of(
        MODELS["mc-dropout"],
        given=lambda: DataLoader(Noisy(), 16, shuffle=True, num_workers=1),
    )
    check(tmp_path, make, kills=(6,), batch_size="auto", epochs=2)


def simple(folder, **options):
    """Train a small model with checkpoints, in the same way each time."""
    felbo.seed_everything(0)
    model = felbo.MCDropout(network(), rate=0.2)
    settings = {"epochs": 3, "batch_size": 16, "seed": 1, "progress": False, "checkpoint": folder}
    history = felbo.fit(model, elbo(), data(), **(settings | options))
    return model.state_dict(), history


def test_a_finished_training_is_given_back_without_a_step(tmp_path):
    whole = simple(tmp_path)
    same(simple(tmp_path, augment=Identity(1)), whole)


def test_checkpoints_do_not_change_a_training(tmp_path):
    same(simple(tmp_path), simple(None))


def test_two_checkpoints_are_kept(tmp_path):
    simple(Checkpoint(tmp_path, seconds=0))
    assert len(list(tmp_path.glob("checkpoint-*"))) == 2
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_checkpoint_is_reported_and_the_one_before_is_used(damage, tmp_path):
    whole = simple(tmp_path)
    newest = max(tmp_path.glob("checkpoint-*"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    cut = {"cut": content[:-7], "flipped": content, "empty": b""}
    newest.write_bytes(cut[damage])
    with pytest.warns(DamagedCheckpointWarning, match=newest.name):
        same(simple(tmp_path), whole)
    for path in tmp_path.glob("checkpoint-*"):
        path.write_bytes(b"nothing")
    with (
        pytest.warns(DamagedCheckpointWarning),
        pytest.raises(CheckpointError, match=r"All checkpoints .* are damaged"),
    ):
        simple(tmp_path)


OTHER = {
    "epochs was 3 and is 4": {"epochs": 4},
    "seed was 1 and is 2": {"seed": 2},
    "batch_size was 16 and is 25": {"batch_size": 25},
    "optimizer was 'Adam": {"optimizer": torch.optim.SGD},
    "lr=0.001.* and is .*lr=0.5": {"learning_rate": 0.5},
    "scheduler was 'NoneType' and is 'StepLR'": {"scheduler": lambda o: lr_scheduler.StepLR(o, 2)},
}


@pytest.mark.parametrize("words", OTHER)
def test_a_training_of_other_settings_is_refused(words, tmp_path):
    simple(tmp_path)
    with pytest.raises(CheckpointError, match=words):
        simple(tmp_path, **OTHER[words])


def test_other_models_objectives_and_data_are_refused(tmp_path):
    simple(tmp_path)
    x, y = data()
    trainings = {
        "model was 'MCDropout' and is 'MAP'": (felbo.MAP(network()), elbo(), (x, y)),
        "weights was": (felbo.MCDropout(normalised(), rate=0.2), elbo(), (x, y)),
        "objective was": (felbo.MCDropout(network(), rate=0.2), elbo(smoothing=0.1), (x, y)),
        "data was '50 items": (felbo.MCDropout(network(), rate=0.2), elbo(), (x, 1 - y)),
    }
    for words, parts in trainings.items():
        with pytest.raises(CheckpointError, match=words):
            felbo.fit(*parts, epochs=3, batch_size=16, seed=1, checkpoint=tmp_path, progress=False)


def test_other_data_in_a_loader_are_refused(tmp_path):
    x, y = data()
    trainings = {
        None: DataLoader(TensorDataset(x, y), 16),
        r"data was '50 items in 4 batches \[": DataLoader(TensorDataset(x, 1 - y), 16),
        "and is '50 items in 5 batches": DataLoader(TensorDataset(x, y), 10),
    }
    for words, loader in trainings.items():
        model = felbo.MAP(network())
        refused = nullcontext() if words is None else pytest.raises(CheckpointError, match=words)
        with refused:
            felbo.fit(model, elbo(), loader, epochs=2, checkpoint=tmp_path, progress=False)


def test_short_epochs_need_not_all_be_saved(tmp_path):
    saved = []
    rare = Checkpoint(tmp_path, seconds=1e9, every_epoch=False)
    whole = simple(rare, on_epoch=lambda epoch: saved.append(len(list(tmp_path.glob("c*")))))
    assert saved == [1, 1, 1]  # before the first step, and no more
    same(simple(rare, augment=Identity(1)), whole)  # the end is saved
    same(simple(None), whole)


def test_a_second_training_in_the_folder_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="Another training"):
        simple(tmp_path, on_epoch=lambda epoch: simple(tmp_path))
    simple(tmp_path)  # the lock is released


def test_the_folder_of_several_processes_is_refused(tmp_path):
    (tmp_path / "process-1").mkdir()
    with pytest.raises(CheckpointError, match="Start it in as many"):
        simple(tmp_path)


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path, monkeypatch):
    whole = simple(tmp_path / "whole")
    real = os.fsync
    calls = []

    def full(number):
        calls.append(number)
        if len(calls) == 5:  # two for each checkpoint: of the file and of the folder
            raise OSError(28, "No space left on device")
        real(number)

    monkeypatch.setattr(os, "fsync", full)
    folder = tmp_path / "full"
    with pytest.raises(CheckpointWriteError, match=r"No space left on device\. The last good one"):
        simple(folder)
    assert len(list(folder.glob("checkpoint-*"))) == 2
    same(simple(folder), whole)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_and_saves(number, tmp_path, request):
    # A process that a shell started in the background ignores SIGINT, and felbo leaves that so.
    handler = signal.signal(number, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(number, handler))
    whole = simple(tmp_path / "whole")
    before = signal.getsignal(number)
    calls = []

    def interrupt(x):
        calls.append(x)
        if len(calls) == 6:  # the second step of the second epoch
            os.kill(os.getpid(), number)
        return x

    folder = tmp_path / "interrupted"
    with pytest.raises(felbo.TrainingInterrupted, match=f"{number.name}.*2 steps") as caught:
        simple(folder, augment=interrupt)
    assert len(caught.value.history) == 1
    assert caught.value.checkpoint.exists()
    assert len(calls) == 6
    assert signal.getsignal(number) is before
    same(simple(folder, augment=Identity()), whole)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_signal_while_a_checkpoint_is_written(epoch, tmp_path, monkeypatch, request):
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGTERM, handler))
    whole = simple(None)
    real, calls = os.fsync, []

    def interrupted(number):
        calls.append(number)
        if len(calls) == 2 * epoch + 1:  # after two for the first checkpoint
            os.kill(os.getpid(), signal.SIGTERM)
        real(number)

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(felbo.TrainingInterrupted, match=f"SIGTERM.*after {epoch} epochs"):
        simple(tmp_path)
    same(simple(tmp_path), whole)


def test_other_threads_train_without_handlers(tmp_path):
    found = []
    thread = threading.Thread(target=lambda: found.append(simple(tmp_path / "thread")))
    thread.start()
    thread.join()
    same(found[0], simple(tmp_path / "main"))


def test_an_iterator_goes_on_with_the_epoch_that_was_not_finished(tmp_path):
    def train():
        felbo.seed_everything(0)
        model = felbo.MCDropout(network(), rate=0.2)
        options = {"epochs": 4, "batch_size": 16, "seed": 1, "checkpoint": tmp_path}
        return model, felbo.train(model, elbo(), data(), **options)

    for epoch in train()[1]:
        if epoch.number == 2:
            break
    model, training = train()
    assert [epoch.number for epoch in training] == [2, 3]
    assert [epoch.number for epoch in training.history.epochs] == [0, 1, 2, 3]
    same((model.state_dict(), training.history), simple(tmp_path / "whole", epochs=4))


def run(folder, out, seconds):
    """Train and save: what the processes do that are killed."""
    felbo.seed_everything(0)
    model = felbo.MCDropout(network(), rate=0.2)
    points = felbo.measurement.Elsewhere(generator=generator())
    x, y = data(120)
    history = felbo.fit(
        model,
        elbo(measurement=points),
        (x[:100], y[:100]),
        epochs=30,
        batch_size=8,
        validation=(x[100:], y[100:]),
        patience=12,
        scheduler=lambda o: lr_scheduler.CosineAnnealingLR(o, 30),
        seed=3,
        checkpoint=Checkpoint(folder, seconds),
        progress=False,
    )
    felbo.save(model, out)
    out.with_suffix(".txt").write_text(repr(history.epochs))


def killed_and_resumed(tmp_path, seconds, waits):
    """Kill a process again and again; return the files that it ends with."""
    folder, out = tmp_path / f"{seconds}", tmp_path / f"{seconds}.safetensors"
    # Forked, since a new interpreter would take longer to import torch than to train.
    context = multiprocessing.get_context("fork")
    for wait in (*waits, None):
        process = context.Process(target=run, args=(folder, out, seconds))
        process.start()
        process.join(wait)
        process.kill()
        process.join()
    assert process.exitcode == 0
    return out.read_bytes(), out.with_suffix(".txt").read_text()


def test_a_process_that_is_killed_at_any_instant(tmp_path):
    whole = killed_and_resumed(tmp_path, 1e9, [])
    instants = random.Random(time.time())
    waits = [instants.uniform(0, 1) for _ in range(5)]
    assert killed_and_resumed(tmp_path, 0.0, waits) == whole, waits


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.05, 1e8])
def test_a_process_that_is_killed_many_times(seconds, tmp_path):
    whole = killed_and_resumed(tmp_path, 1e9, [])
    instants = random.Random(time.time())
    for attempt in range(5):
        waits = [instants.uniform(0, 2) for _ in range(4)]
        folder = tmp_path / f"{attempt}"
        folder.mkdir()
        assert killed_and_resumed(folder, seconds, waits) == whole, waits
