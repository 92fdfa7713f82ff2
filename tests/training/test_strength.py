"""The choice of a strength: the strongest that the data can afford."""

import pytest
import torch

import felbo
from felbo.objectives import NegativeLogLikelihood
from felbo.training.strength import Trial, choose_strength, strongest


def trial(strength, nats=0.0, points=0.0):
    return Trial(strength, 90.0, -0.3, 0.02, 0.9, 0.5, nats, points)


def test_the_strongest_before_the_first_that_costs_too_much():
    cheap = [trial(0.0), trial(0.1, 0.01), trial(0.3, -0.5, 0.3)]
    assert strongest(cheap, 0.02, 0.3) == 0.3
    assert strongest([*cheap, trial(1.0, 0.03)], 0.02, 0.3) == 0.3
    assert strongest([*cheap, trial(1.0, 0.0, 0.4), trial(3.0)], 0.02, 0.3) == 0.3
    assert strongest([trial(0.0), trial(0.1, 0.021)], 0.02, 0.3) == 0.0


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 2, generator=generator)
    return x, (x[:, 0] > 0).long()


def make_model():
    return felbo.MAP(felbo.networks.mlp(2, (16,), 2))


@pytest.fixture(scope="module")
def choice(data):
    options = {"epochs": 30, "batch_size": 32, "learning_rate": 1e-2}
    return choose_strength(make_model, data, strengths=(30.0, 0.003), **options), options


def test_a_weak_prior_is_affordable_and_a_strong_one_is_not(choice):
    found, _ = choice
    assert [t.strength for t in found.trials] == [0.0, 0.003, 30.0]
    assert found.strength == 0.003
    weak, strong = found.trials[1:]
    assert strong.nats > 0.1 > weak.nats
    assert strong.confidence < weak.confidence < found.trials[0].confidence
    assert strong.auroc > found.trials[0].auroc


def test_strength_zero_is_cross_entropy_on_the_training_part(choice, data):
    found, options = choice
    x, y = data
    with felbo.random.torch_seed(0):
        make_model()
        order = torch.randperm(300)
    train, held_out = order[60:], order[:60]
    with felbo.random.torch_seed(0):
        model = make_model()
    objective = NegativeLogLikelihood()
    felbo.fit(model, objective, (x[train], y[train]), seed=0, progress=False, **options)
    expected = felbo.score(felbo.predict(model, x[held_out]), y[held_out])
    assert found.trials[0].log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-6)
    lost = expected.log_likelihood - found.trials[2].log_likelihood
    assert found.trials[2].nats == pytest.approx(lost, abs=1e-6)


def test_the_table_marks_the_choice(choice):
    marked = [line for line in str(choice[0]).splitlines() if line.endswith("*")]
    assert [line.split()[0] for line in marked] == ["0.003"]


def test_one_item_of_few_may_be_lost():
    x = torch.linspace(-1, 1, 10)[:, None]
    y = (x[:, 0] > 0).long()
    found = choose_strength(
        lambda: felbo.MAP(felbo.networks.mlp(1, (4,), 2)),
        (x, y),
        strengths=(1e-6,),
        validation=(x[:4], y[:4]),
        max_points=-1.0,
        max_nats=100.0,
        epochs=1,
    )
    assert found.strength == 1e-6


@pytest.mark.parametrize("strengths", [(), (0.0, 0.1), (-1.0,)])
def test_refuses_strengths_that_are_none(data, strengths):
    with pytest.raises(ValueError, match="strengths must all be positive"):
        choose_strength(make_model, data, strengths=strengths, epochs=1)


def test_refuses_a_split_that_leaves_nothing(data):
    with pytest.raises(ValueError, match=r"items on both sides, got 1\.0 of 300"):
        choose_strength(make_model, data, validation=1.0, epochs=1)


@pytest.mark.parametrize("limit", ["max_nats", "max_points"])
def test_refuses_a_limit_that_nothing_exceeds(data, limit):
    with pytest.raises(ValueError, match=f"{limit}=nan"):
        choose_strength(make_model, data, epochs=1, **{limit: float("nan")})
