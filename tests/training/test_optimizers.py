"""Optimisers and schedulers: what is built, what is refused, and LBFGS."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau, StepLR

import felbo

from .small import data, fit, network, refused, state, weights


@pytest.fixture(scope="module")
def iris():
    features, labels = load_iris(return_X_y=True)
    features = (features - features.mean(0)) / features.std(0)
    return torch.tensor(features, dtype=torch.float64), torch.tensor(labels)


def ridge(model, x, y, penalty=0.01):
    """Logistic regression with a penalty on the weights, as scikit-learn's."""
    loss = nn.functional.cross_entropy(model(x)[0], y)
    loss = loss + penalty / 2 * model.network[0].weight.square().sum()
    return felbo.Loss(loss, loss, 0 * loss)


def test_lbfgs_converges_to_the_solution_of_scikit_learn(iris):
    x, y = iris
    exact = LogisticRegression(C=1 / (0.01 * len(y)), tol=1e-10, max_iter=10_000).fit(x, y)
    model = felbo.MAP(nn.Sequential(nn.Linear(4, 3)).double())
    search = partial(torch.optim.LBFGS, line_search_fn="strong_wolfe", tolerance_change=1e-12)
    history = fit(model, iris, ridge, epochs=20, optimizer=search)
    np.testing.assert_allclose(model.network[0].weight.detach(), exact.coef_, atol=1e-4)
    probs = felbo.predict(model, x).probs
    np.testing.assert_allclose(probs, exact.predict_proba(x), atol=1e-5)
    assert history.total[0] > history.total[-1]


@pytest.mark.parametrize("accumulate", [1, 3])
def test_lbfgs_steps_as_by_hand(iris, accumulate):
    x, y = iris
    model = felbo.MAP(nn.Sequential(nn.Linear(4, 3)).double())
    twin = copy.deepcopy(model)
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 150 // accumulate)
    made = torch.optim.LBFGS(model.parameters(), lr=0.5)
    history = fit(model, batches, ridge, epochs=4, optimizer=made, accumulate=accumulate)
    by_hand, losses = torch.optim.LBFGS(twin.parameters(), lr=0.5), []

    def closure():
        by_hand.zero_grad()
        loss = ridge(twin, x, y).total
        loss.backward()
        return loss

    for _ in range(4):
        losses.append(by_hand.step(closure).item())
    torch.testing.assert_close(weights(model), weights(twin), rtol=1e-6, atol=1e-8)
    assert history.total == pytest.approx(losses)


def test_one_search_of_lbfgs_sees_the_same_draws_and_the_next_one_others():
    model, found = felbo.MCDropout(network(), rate=0.5), []

    def watched(model_, x, y):
        found.append(float(model_(torch.ones_like(x)).std()))
        return felbo.NegativeLogLikelihood()(model_, x, y)

    still = partial(torch.optim.LBFGS, lr=1e-12, max_iter=3, tolerance_change=0, tolerance_grad=0)
    fit(model, data(), watched, optimizer=still, epochs=2, seed=0)
    first, second = found[:3], found[3:]
    assert len(found) == 6
    assert max(first) - min(first) < 1e-5
    assert max(second) - min(second) < 1e-5
    assert abs(first[0] - second[0]) > 1e-4


def test_an_infinite_trial_of_a_line_search_does_not_end_the_training():
    """The loss overflows beyond the minimum; the search must come back from there."""
    model, evaluations = felbo.MAP(nn.Sequential(nn.Linear(2, 2))), []

    def cliff(m, x, y):
        distance = (m.network[0].weight - 1).square().sum()
        evaluations.append(float(distance))
        loss = distance if distance < 30 or len(evaluations) == 1 else distance * torch.inf
        return felbo.Loss(loss, loss, 0 * loss)

    with torch.no_grad():
        model.network[0].weight.fill_(-1.5)
    search = partial(torch.optim.LBFGS, lr=4.0, line_search_fn="strong_wolfe")
    fit(model, data(), cliff, optimizer=search, epochs=3)
    assert max(evaluations) > 30
    assert evaluations[-1] < 1e-6


def test_strings_and_other_things_are_refused_in_words_that_help():
    model = felbo.MAP(network())
    message = r"optimizer must be .*lambda parameters: torch.optim.SGD.*got 'adam'"
    refused(model, data(), TypeError, message, optimizer="adam")
    refused(model, data(), TypeError, "got None", optimizer=lambda parameters: None)
    refused(model, data(), TypeError, "scheduler must be .* got 'cosine'", scheduler="cosine")


def test_a_learning_rate_beside_an_optimiser_is_not_ignored():
    model = felbo.MAP(network())
    ready = torch.optim.SGD(model.parameters(), lr=0.1)
    for given in (ready, lambda p: torch.optim.SGD(p, lr=0.1)):
        message = "learning_rate=0.01 would be ignored"
        refused(model, data(), ValueError, message, optimizer=given, learning_rate=0.01)


def test_a_class_takes_the_learning_rate():
    model = felbo.MAP(network())
    twin = copy.deepcopy(model)
    history = fit(model, data(), optimizer=torch.optim.SGD, learning_rate=0.2)
    fit(twin, data(), optimizer=lambda p: torch.optim.SGD(p, lr=0.2))
    assert torch.equal(weights(model), weights(twin))
    assert history.learning_rate == [0.2] * 3
    assert fit(twin, data()).learning_rate == [1e-3] * 3


def test_functions_that_ignore_the_parameters_are_refused():
    model, other = felbo.MAP(network()), network()
    message = "holds no parameter of this MAP"
    foreign = torch.optim.SGD(other.parameters(), lr=0.1)
    refused(model, data(), ValueError, message, optimizer=lambda parameters: foreign)


@pytest.mark.parametrize("validated", [True, False])
def test_a_plateau_looks_at_the_validation_nll_or_the_training_loss(validated):
    """A threshold between the changes of both decides which one it was."""
    seen = []

    class Watching(ReduceLROnPlateau):
        def step(self, metrics):
            seen.append(metrics)
            super().step(metrics)

    options = {"validation": data(70)} if validated else {}
    history = fit(felbo.MAP(network()), data(), scheduler=Watching, **options)
    expected = [scores.nll for scores in history.validation] if validated else history.total
    assert seen == expected
    if validated:
        seen.clear()
        options["monitor"] = "loss"
        history = fit(felbo.MAP(network()), data(), scheduler=Watching, **options)
        assert seen == [scores.loss for scores in history.validation]


def test_a_plateau_reduces_the_learning_rate():
    model = felbo.MAP(network())
    plateau = partial(ReduceLROnPlateau, factor=0.5, patience=1, threshold=9, threshold_mode="abs")
    history = fit(
        model, data(), scheduler=plateau, validation=data(70), epochs=7, learning_rate=0.08
    )
    assert history.learning_rate == pytest.approx([0.08, 0.08, 0.08, 0.04, 0.04, 0.02, 0.02])
    message = "mode='min'"
    refused(model, data(), ValueError, message, scheduler=partial(ReduceLROnPlateau, mode="max"))


def test_ready_schedulers_are_taken_with_their_optimiser():
    model = felbo.MAP(network())
    made = torch.optim.SGD(model.parameters(), lr=1.0)
    history = fit(model, data(), optimizer=made, scheduler=StepLR(made, 1))
    assert history.learning_rate == pytest.approx([1.0, 0.1, 0.01])
    message = "scheduler belongs to another optimiser"
    refused(model, data(), ValueError, message, scheduler=StepLR(made, 1))


def test_a_scheduler_per_step_counts_optimiser_steps():
    model, made = felbo.MAP(network()), []

    def cycle(optimizer):
        made.append(OneCycleLR(optimizer, max_lr=0.5, total_steps=2 * 3 + 1))
        return made[0]

    fit(model, data(), batch_size=8, accumulate=3, scheduler=cycle, scheduler_step="step", epochs=2)
    assert made[0].last_epoch == 6


def test_the_state_of_an_optimiser_goes_on():
    model = felbo.MAP(network())
    twin = copy.deepcopy(model)
    made = torch.optim.Adam(model.parameters())
    for _ in range(2):
        fit(model, data(), optimizer=made, epochs=2)
    fit(twin, data(), optimizer=torch.optim.Adam, epochs=4)
    torch.testing.assert_close(state(model)["network.1.weight"], state(twin)["network.1.weight"])


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("optimizer", [None, torch.optim.SGD])
def test_impossible_learning_rates_are_refused(rate, optimizer):
    with pytest.raises(felbo.errors.SettingError, match="learning_rate must be a number ≥ 0"):
        fit(felbo.MAP(network()), data(), learning_rate=rate, optimizer=optimizer)
