"""Without any option, fine-tuning keeps what a network knows and makes it doubt elsewhere."""

import copy
import sys

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import felbo
from felbo.models import MAP, Ensemble, MCDropout
from felbo.networks import mlp
from felbo.training import compare_before_after

# felbo.training.finetune is the function; its module has the same name.
finetune_module = sys.modules["felbo.training.finetune"]


def test_by_default_it_knows_no_less_on_the_data_and_doubts_elsewhere(digits, trained):
    train, (x, y) = digits
    kept = copy.deepcopy(trained.state_dict())
    after = felbo.finetune(trained, train, seed=0, progress=False)
    upside_down = x.rot90(2, (-2, -1))
    noise = torch.rand(500, 1, 8, 8, generator=torch.Generator().manual_seed(2)) * 2 - 1
    rows = compare_before_after(
        trained, after, (x, y), {"turned": (upside_down, y), "noise": noise}
    )
    before, now = rows[:2]
    assert before.accuracy > 95
    assert now.accuracy > before.accuracy - 2
    assert now.log_likelihood > before.log_likelihood - 0.15
    turned_before, turned, noise_before, far = rows[2:]
    assert turned.log_likelihood > turned_before.log_likelihood + 1.0
    assert turned.auroc > turned_before.auroc
    assert far.auroc > max(noise_before.auroc, 0.98)
    assert far.confidence < noise_before.confidence - 0.2
    assert isinstance(after, MAP)
    assert not after.training
    for name, value in trained.state_dict().items():
        assert torch.equal(value, kept[name])


def test_an_ensemble_that_exists_and_dropout_gain_too(digits, trained):
    train, (x, y) = digits
    noise = torch.rand(500, 1, 8, 8, generator=torch.Generator().manual_seed(2)) * 2 - 1
    for network, model in ((Ensemble.from_networks([trained] * 2), MAP), (trained, MCDropout)):
        after = felbo.finetune(network, train, model=model, seed=0, progress=False)
        rows = compare_before_after(trained, after, (x, y), {"noise": noise})
        assert rows[1].accuracy > rows[0].accuracy - 4
        assert rows[3].confidence < rows[2].confidence - 0.2


class Watched(felbo.Objective):
    """Cross-entropy that notes the size of every step."""

    def __init__(self):
        self.sizes = []

    def __call__(self, model, x, y):
        self.sizes.append(len(y))
        return felbo.NegativeLogLikelihood()(model, x, y)


def test_three_hundred_steps_unless_the_data_are_more_or_the_user_says():
    x, y = torch.randn(100, 4), torch.arange(100) % 2
    for settings, steps in [
        ({}, 300),
        ({"batch_size": 32}, 300),
        ({"batch_size": 30, "epochs": 3}, 12),
    ]:
        watched = Watched()
        felbo.finetune(mlp(4, (), 2), (x, y), watched, progress=False, **settings)
        assert len(watched.sizes) == steps
    watched = Watched()
    loader = DataLoader(TensorDataset(x, y), batch_size=50)
    felbo.finetune(mlp(4, (), 2), loader, watched, progress=False)
    assert watched.sizes == [50] * 300


def test_the_rate_rises_in_a_quarter_of_the_steps_and_falls_to_nothing(monkeypatch):
    rates = []

    def step(self, closure=None):
        rates.append(self.param_groups[0]["lr"])

    monkeypatch.setattr(torch.optim.SGD, "step", step)
    x, y = torch.randn(40, 4), torch.arange(40) % 2
    felbo.finetune(mlp(4, (), 2), (x, y), epochs=100, learning_rate=0.5, progress=False)
    assert len(rates) == 100
    assert max(rates) == pytest.approx(0.5)
    assert rates[24] == pytest.approx(0.5)
    assert rates[:2] == pytest.approx([0.02, 0.04])
    assert rates[62] == pytest.approx(0.5 * 38 / 75)
    assert rates[-1] == pytest.approx(0.5 / 75)


@pytest.mark.parametrize("kind", ["arrays", "dataset", "loader"])
def test_the_default_objective_knows_the_classes_and_the_number_of_data(kind, monkeypatch):
    x, y = torch.randn(50, 4), torch.arange(50) % 3
    dataset = TensorDataset(x, y)
    data = {
        "arrays": (x.double().numpy(), y.numpy()),
        "dataset": dataset,
        "loader": DataLoader(dataset, batch_size=10, drop_last=True),
    }[kind]
    seen = []
    monkeypatch.setattr(
        finetune_module, "fit", lambda model, objective, *_, **__: seen.append(objective)
    )
    felbo.finetune(mlp(4, (), 3), data, progress=False)
    (objective,) = seen
    expected = felbo.FunctionSpaceELBO.everywhere(felbo.UniformPrior(3), num_data=50)
    assert objective.num_data == 50
    assert [(type(t.measurement), t.weight) for t in objective.terms] == [
        (type(t.measurement), t.weight) for t in expected.terms
    ]
    assert torch.equal(objective.prior(x).concentration, torch.ones(3))


class Stream(IterableDataset):
    def __iter__(self):
        yield from ((torch.randn(4), torch.tensor(k % 2)) for k in range(6))


def test_a_stream_is_passed_once_and_needs_an_objective():
    watched = Watched()
    stream = DataLoader(Stream(), batch_size=3)
    felbo.finetune(mlp(4, (), 2), stream, watched, progress=False)
    assert watched.sizes == [3, 3]
    with pytest.raises(TypeError, match=r"no length.*everywhere"):
        felbo.finetune(mlp(4, (), 2), stream, progress=False)
