"""Trainings as others set them up: a part of the weights, masks, line searches, wrappers, numpy."""

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset, WeightedRandomSampler

import felbo
from felbo.measurement import Box, MeasurementSet, WorstCase

from .small import data, elbo, fit, network, state, weights


def test_clipping_looks_at_the_gradients_that_the_optimiser_uses():
    """Those of other weights are not set to zero, and grow from step to step."""
    x, y = data()
    moved = []
    for whole in (False, True):
        torch.manual_seed(0)
        model = felbo.MAP(network())
        head = list(model.network.children())[-1]
        if whole:
            for part in list(model.network.children())[:-1]:
                part.requires_grad_(False)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        fit(model, (x, y), epochs=20, batch_size=None, clip_norm=0.01, optimizer=optimizer)
        moved.append(weights(model))
    assert torch.equal(*moved)


class Masked(nn.Module):
    """A network with a mask that is infinite on purpose."""

    def __init__(self):
        super().__init__()
        self.inner = network()
        self.register_buffer("mask", torch.full((3, 3), -torch.inf).triu(1))

    def forward(self, x):
        return self.inner(x)


def test_weights_are_rescued_beside_an_infinite_mask():
    torch.manual_seed(0)
    model = felbo.MAP(Masked())
    calls = []

    def spoiled(m, x, y):
        calls.append(1)
        loss = felbo.NegativeLogLikelihood()(m, x, y)
        if len(calls) == 5:
            loss.total.register_hook(lambda gradient: gradient * torch.nan)
        return loss

    with pytest.raises(felbo.errors.DivergedError, match="weights after step 0"):
        fit(model, data(), spoiled, epochs=9)
    assert all(p.isfinite().all() for p in model.parameters())


class Recorded(MeasurementSet):
    """Points of a box, and a record of them."""

    includes_batch = False

    def __init__(self):
        self.box, self.seen = Box(generator=torch.Generator().manual_seed(0)), []

    def __call__(self, x, comparison=None):
        self.seen.append(self.box(x))
        return self.seen[-1]


def lbfgs(parameters):
    return torch.optim.LBFGS(parameters, max_iter=6)


def test_a_line_search_sees_the_same_points_in_all_evaluations():
    points = Recorded()
    fit(felbo.MAP(network()), data(), elbo(measurement=points), optimizer=lbfgs, epochs=2)
    same = [torch.equal(a, b) for a, b in zip(points.seen[1:], points.seen[:-1], strict=True)]
    assert same.count(False) == 1  # between the two steps
    assert len(same) > 5


def test_a_line_search_counts_as_one_step():
    objective = felbo.Evidential(annealing_steps=100)
    model = felbo.ConcentrationNetwork(
        nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    )
    fit(model, data(), objective, optimizer=lbfgs, epochs=2)
    assert objective.step == 2
    assert int(model.network[1].num_batches_tracked) == 2


def test_an_error_in_a_line_search_leaves_the_weights():
    model, calls = felbo.MAP(network()), []
    before = state(model)

    def failing(m, x, y):
        calls.append(1)
        if len(calls) == 4:
            raise RuntimeError("stop")
        return felbo.NegativeLogLikelihood()(m, x, y)

    with pytest.raises(RuntimeError, match="stop"):
        fit(model, data(), failing, optimizer=lbfgs, epochs=1)
    assert all(torch.equal(before[name], value) for name, value in state(model).items())


def test_a_trial_of_a_line_search_may_be_infinite_with_clipping():
    calls = []

    def steep(m, x, y):
        calls.append(1)
        loss = felbo.NegativeLogLikelihood()(m, x, y)
        return loss._replace(total=loss.total * (torch.inf if len(calls) == 2 else 1.0))

    def search(parameters):
        return torch.optim.LBFGS(parameters, line_search_fn="strong_wolfe")

    fit(felbo.MAP(network()), data(), steep, optimizer=search, clip_norm=1.0, epochs=1)
    assert len(calls) > 2


@pytest.mark.parametrize(
    ("sampler", "size"),
    [
        (SubsetRandomSampler(range(20)), 20),
        (WeightedRandomSampler(torch.ones(50), 500), 50),
    ],
)
def test_the_number_of_data_is_that_of_the_items_in_an_epoch(sampler, size):
    model = felbo.MAP(network())
    loader = DataLoader(TensorDataset(*data()), 10, sampler=sampler)
    assert len(loader.dataset) == 50
    fit(model, loader, felbo.NegativeLogLikelihood(), batch_size=None)
    assert model.num_data == size


def test_an_objective_inside_a_function_knows_the_batch():
    inner = elbo()
    fit(felbo.MAP(network()), data(), lambda *given: inner(*given), batch_size=10, accumulate=3)
    assert inner.full_batch == 30


def test_evidence_is_annealed_by_training_steps_in_mixed_precision():
    objective = felbo.Evidential(annealing_steps=100)
    model = felbo.ConcentrationNetwork(network())
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    fit(model, data(), objective, epochs=3, batch_size=30, validation=data(), fabric=fabric)
    assert objective.step == 6


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true"])
def test_worst_cases_are_found_in_low_precision(precision):
    fabric = Fabric(accelerator="cpu", devices=1, precision=precision)
    history = fit(
        felbo.MAP(network()), data(), elbo(measurement=WorstCase()), fabric=fabric, epochs=1
    )
    assert np.isfinite(history.kl).all()


def test_one_draw_of_rank_1_factors_is_validated_with_all_members():
    objective = felbo.NegativeLogLikelihood(num_samples=1)
    history = fit(felbo.Rank1(network()), data(), objective, validation=data(), batch_size=20)
    assert objective.num_samples == 1
    assert len(history.validation) == len(history)


def test_numbers_of_numpy(tmp_path):
    first, second = felbo.MAP(network()), felbo.MAP(network())
    second.load_state_dict(first.state_dict())
    fit(first, data(), seed=3, clip_norm=3.0)
    options = {"seed": np.int64(3), "clip_norm": np.float64(3), "checkpoint": tmp_path}
    fit(second, data(), **options)
    assert torch.equal(weights(first), weights(second))
    a, b = (felbo.predict(second, data()[0], seed=seed).probs for seed in (3, np.int64(3)))
    assert torch.equal(a, b)


class ByName(nn.Module):
    """A network that calls its layers with keywords."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(2, 8), nn.BatchNorm1d(8)
        self.drop, self.last = nn.Dropout(0.3), nn.Linear(8, 2)

    def forward(self, x):
        return self.last(input=self.drop(input=self.norm(input=self.first(input=x))))


@pytest.mark.parametrize("kind", [felbo.MAP, felbo.MCDropout, felbo.Rank1, felbo.MeanField])
def test_layers_that_are_called_with_keywords(kind):
    history = fit(kind(ByName()), data(), batch_size=20)
    assert np.isfinite(history.total).all()


class Tables(nn.BatchNorm1d):
    """A normalisation with a buffer of two axes."""

    def __init__(self, size):
        super().__init__(size)
        self.register_buffer("table", torch.zeros(2, 3))


class Conditional(nn.BatchNorm1d):
    """A normalisation with a further argument."""

    def forward(self, input, scale):
        return scale * super().forward(input)


class WithConditional(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(2, 8), Conditional(8), nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.norm(self.first(x), 2.0))


def test_normalisations_with_further_arguments():
    assert np.isfinite(fit(felbo.MAP(WithConditional()), data(), batch_size=20).total).all()


def test_normalisations_with_other_buffers():
    model = felbo.MAP(nn.Sequential(nn.Linear(2, 8), Tables(8), nn.Linear(8, 2)))
    assert np.isfinite(fit(model, data(), batch_size=20).total).all()


def test_the_recorded_rate_is_that_of_the_last_step():
    used = []

    def watched(m, x, y):
        used.append(optimizer.param_groups[0]["lr"])
        return elbo()(m, x, y)

    model = felbo.MAP(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    history = fit(
        model,
        data(),
        watched,
        batch_size=30,
        epochs=2,
        optimizer=optimizer,
        scheduler=scheduler,
        scheduler_step="step",
    )
    assert history.learning_rate == [used[1], used[3]]


def test_a_training_that_diverges_says_that_it_has_its_best_weights():
    calls = []

    def spoiled(m, x, y):
        calls.append(1)
        loss = felbo.NegativeLogLikelihood()(m, x, y)
        return loss._replace(total=loss.total * (torch.nan if len(calls) > 12 else 1.0))

    options = {"validation": data(), "patience": 9, "epochs": 9, "batch_size": 30}
    with pytest.raises(felbo.errors.DivergedError, match="weights after the best epoch"):
        fit(felbo.MAP(network()), data(), spoiled, **options)


def test_a_wrong_label_in_a_validation_loader_is_named():
    x, y = data()
    loader = DataLoader(TensorDataset(x, y + 7), 20)
    with pytest.raises(ValueError, match="Labels must lie in 0"):
        fit(felbo.MAP(network()), data(), validation=loader)
