"""Trainings that give the same result in one process and in several.

Run as a script in each of several processes, which torchrun's variables describe, it writes its
results to a file: ``python cases.py FOLDER [member_ranks]``.
"""

import itertools
import os
import signal
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo.distributed import Grid, ShardedEnsemble
from felbo.errors import CheckpointWriteError, DamagedCheckpointWarning
from felbo.networks import mlp
from felbo.training import Checkpoint, resuming

TIMEOUT = timedelta(seconds=60)
ALL = ("data_", "members_", "statistics_")
CLASSES, SIZE = 3, 49  # batches of 16 leave one item, so that other processes get none


def data(size=SIZE):
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(size, 4, generator=generator)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long()


def network():
    return mlp(4, (8,), CLASSES)


def normalised():
    """A network that runs member by member, with layer normalisation."""
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, CLASSES))


def batch_normalised():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES))


def elbo(**settings):
    prior = felbo.DirichletPrior(torch.tensor([2.0, 1.0, 0.5]))
    return felbo.FunctionSpaceELBO(prior, num_data=SIZE, **settings)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def trained(model, fabric, objective=None, given=None, **options):
    """Return the weights, the history and the predictions of a training."""
    settings = {"epochs": 2, "optimizer": sgd, "seed": 3, "progress": False, **options}
    if not isinstance(given, DataLoader):
        settings.setdefault("batch_size", 16)
    history = felbo.fit(model, objective or elbo(), given or data(), fabric=fabric, **settings)
    x = data()[0].to(next(model.parameters()).dtype)
    whole = model.gather() if isinstance(model, ShardedEnsemble) else model
    numbers = [*history.total, *history.nll, *history.kl]
    numbers += [number for s in history.validation for number in (s.loss, s.nll, s.accuracy)]
    return {
        "weights": torch.cat([p.detach().double().flatten() for p in whole.parameters()]),
        "history": torch.tensor(numbers, dtype=torch.float64),
        "predictions": felbo.predict(model, x, seed=0).concentration.log(),
        "num_data": torch.tensor(float(whole.num_data)),
    }


class Cases:
    """All cases, by name.

    Args:
        fabric: of several processes; ``None`` for the reference in one.
        grid: divides ensembles; ``None`` for the reference.
    """

    def __init__(self, fabric=None, grid=None):
        self.fabric, self.grid = fabric, grid

    def results(self, *prefixes):
        names = [name for name in dir(self) if name.startswith(prefixes)]
        found = {}
        for name in names:
            felbo.seed_everything(0)
            found[name] = getattr(self, name)()
        return found

    # Data parallel.

    def data_tensors(self):
        return trained(felbo.MAP(network()), self.fabric)

    def data_whole_batches(self):
        return trained(felbo.MAP(network()), self.fabric, batch_size=None)

    def data_uneven_parts(self):
        return trained(felbo.MAP(network()), self.fabric, batch_size=15)

    def data_shuffled_loader(self):
        loader = DataLoader(TensorDataset(*data()), 15, shuffle=True)
        return trained(felbo.MAP(network()), self.fabric, given=loader)

    def data_dataset(self):
        return trained(felbo.MAP(network()), self.fabric, given=TensorDataset(*data()))

    def data_accumulated_and_clipped(self):
        return trained(felbo.MAP(network()), self.fabric, accumulate=3, clip_norm=0.05)

    def data_stopped_early(self):
        x, y = data(30)
        return trained(
            felbo.MAP(network()), self.fabric, epochs=9, patience=1, validation=(x, 2 - y)
        )

    def data_validated_by_a_loader(self):
        loader = DataLoader(TensorDataset(*data(21)), 8, shuffle=True)
        return trained(felbo.MAP(network()), self.fabric, validation=loader)

    def data_held_out(self):
        return trained(felbo.MAP(network()), self.fabric, validation=0.2, patience=2)

    def data_random_weights(self):
        return trained(felbo.MeanField(network()), self.fabric)

    def data_weight_space(self):
        return trained(felbo.MeanField(network()), self.fabric, felbo.WeightSpaceELBO(SIZE))

    def data_ensemble(self):
        return trained(felbo.Ensemble(network, 3), self.fabric)

    def data_line_search(self):
        x, y = data()
        return trained(
            felbo.MAP(network().double()),
            self.fabric,
            given=(x.double(), y),
            optimizer=torch.optim.LBFGS,
            batch_size=None,
        )

    def statistics_of_batch_norm(self):
        """Which differ from those of one process: here the first process gives them to all."""
        model = felbo.MAP(batch_normalised())
        result = trained(model, self.fabric, batch_size=None, epochs=1)
        result["buffers"] = torch.cat([b.double().flatten() for b in model.buffers()])
        return result

    # Member parallel, or both.

    def ensemble(self, factory=network, members=5):
        if self.grid is None:
            return felbo.Ensemble(factory, members)
        return ShardedEnsemble(factory, members, self.grid)

    def members_stacked(self):
        return trained(self.ensemble(), self.fabric)

    def members_one_by_one(self):
        return trained(self.ensemble(normalised), self.fabric)

    def members_in_float64(self):
        x, y = data()
        ensemble = self.ensemble(lambda: network().double())
        return trained(ensemble, self.fabric, given=(x.double(), y))

    def members_clipped_and_validated(self):
        return trained(
            self.ensemble(), self.fabric, clip_norm=0.05, validation=data(20), patience=5
        )

    def members_accumulated(self):
        loader = DataLoader(TensorDataset(*data()), 16, shuffle=True)
        return trained(self.ensemble(), self.fabric, given=loader, accumulate=2)

    def members_total_gradient(self):
        return trained(self.ensemble(), self.fabric, elbo(gradient="total"))

    def members_likelihood_only(self):
        return trained(self.ensemble(), self.fabric, felbo.NegativeLogLikelihood())

    def statistics_of_members(self):
        model = self.ensemble(batch_normalised)
        result = trained(model, self.fabric, batch_size=None, epochs=1)
        whole = model.gather() if self.grid else model
        result["buffers"] = torch.cat([b.double().flatten() for b in whole.buffers()])
        return result


class MemberCases(Cases):
    """Cases with random points: equal to one process if the batch itself is not divided."""

    def members_elsewhere(self):
        prior = felbo.UniformPrior(CLASSES)
        return trained(
            self.ensemble(), self.fabric, felbo.FunctionSpaceELBO.everywhere(prior, SIZE)
        )

    def members_worst_case(self):
        points = felbo.measurement.WorstCase(steps=2)
        return trained(self.ensemble(), self.fabric, elbo(measurement=points, kl_weight=0.1))


def failures(fabric, grid):
    """Return the errors of trainings that fail in one process, as (type, message)."""
    x, y = data()
    x[5] = float("nan")  # in the part of the first process
    loader = DataLoader(TensorDataset(x, y), 16)
    sampler = torch.utils.data.DistributedSampler(TensorDataset(x, y))
    dropping = ShardedEnsemble(lambda: nn.Sequential(network(), nn.Dropout(0.5)), 5, grid)

    def differing(x):
        return x + torch.full_like(x, float(fabric.global_rank))

    calls = {
        "nan": lambda: trained(felbo.MAP(network()), fabric, given=loader),
        "small batch": lambda: trained(felbo.MAP(network()), fabric, batch_size=1),
        "sampler": lambda: trained(
            felbo.MAP(network()), fabric, given=DataLoader(TensorDataset(x, y), 16, sampler=sampler)
        ),
        "one process": lambda: trained(dropping, None),
        "few members": lambda: ShardedEnsemble(network, 1, grid),
        "inputs": lambda: trained(dropping, fabric, augment=differing),
        "wrapped": lambda: trained(felbo.TemperedMean(dropping, 2.0), fabric),
        "lbfgs": lambda: trained(dropping, fabric, optimizer=torch.optim.LBFGS),
        "grid": lambda: Grid(3),
    }
    found = {}
    for name, call in calls.items():
        felbo.seed_everything(0)
        try:
            call()
        except Exception as error:
            found[name] = (type(error).__name__, str(error))
    # Dropout in its members leaves the shuffles and points of the processes in step.
    found["dropout"] = trained(dropping, fabric, elbo(measurement=felbo.measurement.Box()))
    found["dropout"] = found["dropout"]["history"]
    return found


class KilledError(Exception):
    """In place of a kill, in a process that goes on to the next case."""


class Resumed:
    """Trainings that are interrupted and started again.

    Args:
        fabric: of several processes.
        grid: divides ensembles.
        folder: of all processes.
    """

    def __init__(self, fabric, grid, folder):
        self.fabric, self.grid, self.folder = fabric, grid, folder
        self.first, self.last = fabric.global_rank == 0, fabric.global_rank == 1

    def results(self):
        names = [name for name in dir(self) if name.startswith(("goes_on_", "stops_"))]
        return {name: getattr(self, name)(self.folder / name) for name in names}

    def trained(self, checkpoint=None, dropout=True, at=None, action=None):
        """Train; ``action`` is called at step ``at``, in the middle of an epoch."""
        felbo.seed_everything(0)
        steps = itertools.count()

        def augment(x):
            if next(steps) == at:
                action()
            return x

        drops = felbo.MCDropout(network(), rate=0.3)
        model = drops if dropout else ShardedEnsemble(network, 3, self.grid)
        folder = None if checkpoint is None else Checkpoint(checkpoint, seconds=0.0)
        objective = elbo(measurement=felbo.measurement.Box())
        options = {"checkpoint": folder, "augment": augment, "epochs": 3}
        return trained(model, self.fabric, objective, **options)["weights"]

    def error_of(self, **settings):
        try:
            self.trained(**settings)
        except BaseException as error:
            return type(error).__name__, str(error)

    def killed(self, folder, **settings):
        def kill():
            raise KilledError

        assert self.error_of(checkpoint=folder, at=6, action=kill, **settings)[0] == "KilledError"

    def both(self, folder, **settings):
        """Return the weights of a training that goes on, and of one without interruption."""
        return self.trained(folder, **settings), self.trained(**settings)

    def newest(self, folder):
        return sorted((folder / f"process-{self.fabric.global_rank}").glob("checkpoint-*"))[-1]

    def goes_on_data_parallel(self, folder):
        self.killed(folder)
        return self.both(folder)

    def goes_on_member_parallel(self, folder):
        self.killed(folder, dropout=False)
        return self.both(folder, dropout=False)

    def goes_on_killed_while_saving(self, folder):
        """The first process has not written its last checkpoint, and the other one has."""
        self.killed(folder)
        if self.first:
            self.newest(folder).unlink()
        return self.both(folder)

    def goes_on_damaged(self, folder):
        self.killed(folder)
        if self.last:
            path = self.newest(folder)
            path.write_bytes(path.read_bytes()[:-9])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamagedCheckpointWarning)
            return self.both(folder)

    def goes_on_after_a_signal(self, folder):
        def send():
            if self.last:
                os.kill(os.getpid(), signal.SIGTERM)

        kind, said = self.error_of(checkpoint=folder, at=6, action=send)
        assert kind == "TrainingInterrupted", said
        assert said.startswith("SIGTERM" if self.last else "A signal to another process")
        return self.both(folder)

    def stops_at_a_full_disk(self, folder):
        """Of one process: the other one does not wait for it."""

        def fill():
            if self.last:
                resuming.CheckpointFolder.save = full

        def full(*_):
            raise CheckpointWriteError("No space left on device.")

        save = resuming.CheckpointFolder.save
        try:
            return self.error_of(checkpoint=folder, at=6, action=fill)
        finally:
            resuming.CheckpointFolder.save = save

    def stops_without_a_common_checkpoint(self, folder):
        self.killed(folder)
        if self.last:
            for path in (folder / "process-1").glob("checkpoint-*"):
                path.unlink()
        return self.error_of(checkpoint=folder)

    def stops_in_a_folder_of_one_process(self, folder):
        folder.mkdir(exist_ok=True)
        (folder / "checkpoint-00000000.safetensors").touch()
        return self.error_of(checkpoint=folder)


def messages(fabric, grid):
    """Return the numbers that each message of a member-parallel step holds."""
    sizes, originals = [], {name: getattr(dist, name) for name in ("all_reduce", "all_gather")}

    def counting(original):
        def send(*arguments, **options):
            sizes.append(arguments[-1].numel())
            return original(*arguments, **options)

        return send

    model = ShardedEnsemble(network, 6, grid)
    try:
        for name, original in originals.items():
            setattr(dist, name, counting(original))
        options = {"epochs": 1, "batch_size": None, "progress": False}
        felbo.fit(model, elbo(), data(16), fabric=fabric, **options)
    finally:
        for name, original in originals.items():
            setattr(dist, name, original)
    return sizes


def launched():
    """Return the Fabric of the processes that torchrun's variables describe."""
    from lightning_fabric import Fabric
    from lightning_fabric.strategies import DDPStrategy

    torch.set_num_threads(1)
    strategy = DDPStrategy(timeout=TIMEOUT, process_group_backend="gloo")
    devices = int(os.environ["LOCAL_WORLD_SIZE"])
    fabric = Fabric(accelerator="cpu", devices=devices, strategy=strategy)
    fabric.launch()
    return fabric


def main(folder, member_ranks=None):
    fabric = launched()
    grid = Grid(member_ranks, timeout=TIMEOUT)
    kind = Cases if grid.data_ranks > 1 else MemberCases
    wanted = ALL if member_ranks is None else ("members_", "statistics_of_members")
    found = kind(fabric, grid).results(*wanted)
    if member_ranks is None:
        found["failures"] = failures(fabric, grid)
        found["resumed"] = Resumed(fabric, grid, Path(folder)).results()
        found["messages"] = messages(fabric, grid)
    torch.save(found, Path(folder) / f"{fabric.global_rank}.pt")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
