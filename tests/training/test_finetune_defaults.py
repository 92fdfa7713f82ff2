"""Without any option, fine-tuning keeps what a network knows and makes it doubt elsewhere."""

import copy
import sys

import pytest
import torch
from torch import nn
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


class LlamaRMSNorm(nn.Identity):
    """A normalisation layer of another library."""


class Normalize(nn.Identity):
    """Scales inputs, as torchvision's does."""


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(8),
        nn.InstanceNorm1d(8),
        nn.LayerNorm(8),
        nn.GroupNorm(2, 8),
        nn.RMSNorm(8),
        LlamaRMSNorm(),
        nn.Sequential(nn.ReLU(), nn.LayerNorm(8)),
    ],
)
@pytest.mark.parametrize(("given", "taken"), [(None, 0.01), (0.5, 0.5)])
def test_networks_with_normalisation_take_sgd_at_a_hundredth(layer, given, taken, monkeypatch):
    made = optimizer_of(nn.Sequential(nn.Linear(4, 8), layer, nn.Linear(8, 2)), given, monkeypatch)
    assert type(made) is torch.optim.SGD
    (group,) = made.param_groups
    assert (group["lr"], group["momentum"], group["nesterov"]) == (taken, 0.9, True)
    assert group["weight_decay"] == 0


@pytest.mark.parametrize("layer", [nn.ReLU(), nn.Dropout(), Normalize()])
@pytest.mark.parametrize(("given", "taken"), [(None, 0.003), (0.5, 0.5)])
def test_networks_without_normalisation_take_adam(layer, given, taken, monkeypatch):
    network = nn.Sequential(nn.Linear(4, 8), layer, nn.Linear(8, 2))
    made = optimizer_of(network, given, monkeypatch)
    assert type(made) is torch.optim.Adam
    (group,) = made.param_groups
    assert (group["lr"], group["betas"], group["weight_decay"]) == (taken, (0.9, 0.999), 0)
    made = optimizer_of(Ensemble.from_networks([network] * 2), given, monkeypatch)
    assert type(made) is torch.optim.Adam


def optimizer_of(network, rate, monkeypatch):
    """Return the optimiser that finetune hands to fit."""
    seen = []
    monkeypatch.setattr(
        finetune_module,
        "fit",
        lambda model, *_, optimizer, **__: seen.append(optimizer(model.parameters())),
    )
    x, y = torch.randn(40, 4), torch.arange(40) % 2
    felbo.finetune(network, (x, y), Watched(), learning_rate=rate, progress=False)
    return seen[0]


def test_fine_tuning_with_normalisation_is_sgd_with_frozen_statistics_step_by_step():
    """An independent loop of torch alone gives the same weights."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    x, y = torch.randn(40, 4), torch.arange(40) % 2
    found = felbo.finetune(
        network, (x, y), felbo.NegativeLogLikelihood(), batch_size=40, epochs=20, progress=False
    )
    expected = copy.deepcopy(network).eval()
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.0, momentum=0.9, nesterov=True)
    for step in range(20):
        optimizer.param_groups[0]["lr"] = 0.01 * min((step + 1) / 5, (20 - step) / 15)
        optimizer.zero_grad()
        nn.functional.cross_entropy(expected(x), y).backward()
        optimizer.step()
    for new, old in zip(found.network.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(new, old, rtol=1e-5, atol=1e-6)


def test_inputs_of_any_scale_are_fine_tuned_without_normalisation_layers(digits):
    """Values in 0 … 1000, as of a sensor: SGD at 0.01 falls to guessing here."""
    ((x, y), (held, labels)) = (((x + 1) * 500, y) for x, y in digits)
    torch.manual_seed(0)
    network = mlp(64, (50, 50), 10)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    after = felbo.finetune(network, (x, y), seed=0, progress=False)
    noise = 1000 * torch.rand(500, 1, 8, 8, generator=torch.Generator().manual_seed(2))
    before, now, _, far = compare_before_after(network, after, (held, labels), {"noise": noise})
    assert before.accuracy > 85
    assert now.accuracy > before.accuracy - 1
    assert now.log_likelihood > before.log_likelihood - 0.02
    assert far.auroc > 0.98


def test_the_rate_rises_in_a_quarter_of_the_steps_and_falls_to_nothing(monkeypatch):
    rates = []

    def step(self, closure=None):
        rates.append(self.param_groups[0]["lr"])

    monkeypatch.setattr(torch.optim.Adam, "step", step)
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
