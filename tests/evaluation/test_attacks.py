"""FGSM and PGD: closed forms, strength, and a model that is left as it was."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from felbo.data import REGISTRY, normalize
from felbo.evaluation import fgsm, pgd, predict
from felbo.evaluation.attacks import _log_odds_against
from felbo.models import (
    MAP,
    ConcentrationNetwork,
    Ensemble,
    MCDropout,
    MeanField,
    Radial,
    Rank1,
    SubnetworkLaplace,
    Tempered,
)
from felbo.networks import compact, mlp

FEW = {"evaluation_samples": 3}
KINDS = {
    "MAP": lambda new: MAP(new()),
    "MCDropout": lambda new: MCDropout(new(), 0.2, **FEW),
    "Ensemble": lambda new: Ensemble(new, 3),
    "Ensemble, low memory": lambda new: Ensemble(new, 2, low_memory=True),
    "MeanField": lambda new: MeanField(new(), rho=-3.0, **FEW),
    "Radial": lambda new: Radial(new(), rho=-1.0, **FEW),
    "Rank1": lambda new: Rank1(new(), 2),
    "ConcentrationNetwork": lambda new: ConcentrationNetwork(new()),
    "Tempered": lambda new: Tempered(MCDropout(new(), 0.2, **FEW), 1.5),
    "SubnetworkLaplace": lambda new: linearised(new()),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_attack = pytest.mark.parametrize("attack", [fgsm, pgd])
IMAGES = torch.randn(8, 3, 12, 12, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(8) % 5


def linearised(network):
    """A posterior over some weights of a network of the images below, or of four numbers."""
    convolutions = next(network.parameters()).ndim == 4
    x, y = (IMAGES, LABELS) if convolutions else (torch.randn(12, 4), torch.arange(12) % 3)
    model = SubnetworkLaplace(network, size=10, **FEW)
    return model.fit(DataLoader(TensorDataset(x, y), 4))


def convolutional(kind):
    """A model with batch normalisation that has statistics of its own."""
    model = KINDS[kind](lambda: compact(5, width=2))
    with torch.no_grad():
        model(IMAGES)
    return model


def perceptron(kind):
    return KINDS[kind](lambda: mlp(4, (16, 16), 3))


def linear(weight, bias=None):
    layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    layer.weight.data = weight
    layer.bias.data = torch.zeros_like(layer.bias) if bias is None else bias
    return layer


def wrongness(model, x, y, **settings):
    """−log p̄(y | x) as a user of predict sees it."""
    probs = predict(model, x, **settings).probs
    return -probs.gather(-1, y[:, None]).squeeze(-1).log()


def test_log_odds_are_those_of_the_mean_predictive():
    logits, y = 3 * torch.randn(4, 6, 5, dtype=torch.float64), torch.arange(6) % 5
    right = logits.softmax(-1).mean(0)[torch.arange(6), y]
    torch.testing.assert_close(_log_odds_against(logits, y), ((1 - right) / right).log())
    torch.testing.assert_close(
        _log_odds_against(logits.to(torch.bfloat16), y).double(),
        ((1 - right) / right).log(),
        rtol=0.02,
        atol=0.05,
    )


def test_fgsm_on_a_linear_softmax_model_is_the_closed_form():
    weight, x = torch.randn(3, 7, dtype=torch.float64), torch.randn(50, 7, dtype=torch.float64)
    y = torch.randint(3, (50,))
    bias = torch.randn(3, dtype=torch.float64)
    probs = (x @ weight.T + bias).softmax(-1)
    gradient = (probs - nn.functional.one_hot(y, 3)) @ weight  # of −log p_y
    found = fgsm(MAP(linear(weight, bias)), x, y, 0.3)
    torch.testing.assert_close(found, x + 0.3 * gradient.sign(), rtol=0, atol=1e-12)


def test_fgsm_averages_the_gradients_of_the_draws():
    weights = [2 * torch.randn(3, 7, dtype=torch.float64) for _ in range(4)]
    x, y = torch.randn(50, 7, dtype=torch.float64), torch.randint(3, (50,))
    probs = [(x @ weight.T).softmax(-1) for weight in weights]
    # ∇ −log mean_m p_m = Σ p_m ∇(−log p_m) / Σ p_m
    gradient = sum(
        p.gather(-1, y[:, None]) * ((p - nn.functional.one_hot(y, 3)) @ weight)
        for p, weight in zip(probs, weights, strict=True)
    )
    model = Ensemble.from_networks([linear(weight) for weight in weights])
    found = fgsm(model, x, y, 0.1)
    torch.testing.assert_close(found, x + 0.1 * gradient.sign(), rtol=0, atol=1e-12)


def test_a_saturated_prediction_does_not_hide_the_gradient():
    weight = 1e4 * torch.tensor([[1.0, -2.0], [-1.0, 3.0]])
    model = MAP(linear(weight))
    x, y = torch.tensor([[1.0, -1.0]]), torch.tensor([0])
    at = x.clone().requires_grad_()
    nll = nn.functional.cross_entropy(model(at)[0], y)
    assert not torch.autograd.grad(nll, at)[0].any()  # what the usual loss would see
    assert torch.equal(fgsm(model, x, y, 0.5), torch.tensor([[0.5, -0.5]]))


@every_kind
def test_gradients_reach_the_input_through_every_kind(kind):
    model = convolutional(kind)
    moved = fgsm(model, IMAGES, LABELS, 0.25, seed=0) - IMAGES
    touched = moved != 0
    torch.testing.assert_close(moved[touched].abs(), torch.full_like(moved[touched], 0.25))
    assert (touched.flatten(1).double().mean(1) > 0.9).all()


@every_kind
@pytest.mark.parametrize("batch_size", [64, 7])
def test_pgd_is_at_least_as_strong_as_fgsm_for_every_item(kind, batch_size):
    model = perceptron(kind)
    x, y = torch.randn(30, 4), torch.randint(3, (30,))
    settings = {"batch_size": batch_size, "seed": 3}
    single = fgsm(model, x, y, 0.5, **settings)
    several = pgd(model, x, y, 0.5, steps=5, restarts=2, **settings)
    weaker = wrongness(model, single, y, **settings)
    stronger = wrongness(model, several, y, **settings)
    assert (stronger >= weaker - 1e-5).all()
    assert (several - x).abs().max() <= 0.5 + 1e-6


def test_pgd_finds_what_fgsm_misses():
    # Several ridges lie within reach, and the first gradient sees one side of one of them.
    class Ridges(nn.Module):
        def forward(self, x):
            return torch.cat([3 * (4 * x).cos() * (1 - x), torch.zeros_like(x)], dim=-1)

    model = MAP(Ridges())
    x, y = torch.linspace(-1, 1, 41)[:, None], torch.zeros(41, dtype=torch.int64)
    single = wrongness(model, fgsm(model, x, y, 0.8), y)
    several = wrongness(model, pgd(model, x, y, 0.8, steps=80, restarts=10, seed=0), y)
    grid = torch.linspace(-0.8, 0.8, 801)
    best = torch.stack([wrongness(model, x + shift, y) for shift in grid]).amax(0)
    assert several.mean() > single.mean() + 0.3
    assert (several > best - 0.05).all()


def test_pgd_on_a_linear_model_of_two_classes_ends_in_the_same_corner_as_fgsm():
    model = MAP(linear(torch.randn(2, 6)))
    x, y = torch.randn(20, 6), torch.randint(2, (20,))
    torch.testing.assert_close(pgd(model, x, y, 0.3, steps=4), fgsm(model, x, y, 0.3))


def test_more_restarts_and_the_worst_of_them():
    model = MAP(mlp(4, (16, 16), 3))
    x, y = torch.randn(30, 4), torch.randint(3, (30,))
    few, many = (
        wrongness(model, pgd(model, x, y, 1.0, steps=3, restarts=n, seed=0), y) for n in (1, 6)
    )
    assert (many >= few - 1e-6).all()  # the first start is the same
    assert (many > few + 1e-4).any()


@every_attack
@every_kind
def test_the_model_is_left_as_it_was(attack, kind):
    model = convolutional(kind)
    model(IMAGES).square().sum().backward()
    model.train()
    next(model.children()).eval()  # a mode of its own somewhere inside
    next(model.parameters()).requires_grad_(False)
    modes = [part.training for part in model.modules()]
    flags = [p.requires_grad for p in model.parameters()]
    grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    state = copy.deepcopy(model.state_dict())
    x, y, generator = IMAGES.clone(), LABELS.clone(), torch.get_rng_state()

    result = attack(model, x, y, 0.1, seed=5, **({"steps": 2} if attack is pgd else {}))

    assert not result.requires_grad
    assert [part.training for part in model.modules()] == modes
    assert [p.requires_grad for p in model.parameters()] == flags
    for parameter, grad in zip(model.parameters(), grads, strict=True):
        assert (parameter.grad is None) == (grad is None)
        assert grad is None or torch.equal(parameter.grad, grad)
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert torch.equal(x, IMAGES)
    assert torch.equal(y, LABELS)
    assert torch.equal(torch.get_rng_state(), generator)


@every_attack
def test_the_modes_come_back_after_an_error_too(attack):
    model = MAP(mlp(4, (8,), 3)).train()
    with pytest.raises(ValueError, match=r"0 … 2.*from 3 to 3"):
        attack(model, torch.zeros(2, 4), torch.tensor([3, 3]), 0.1)
    assert all(part.training for part in model.modules())


@every_attack
@every_kind
def test_works_where_gradients_are_switched_off(attack, kind):
    model, short = convolutional(kind).eval(), {"steps": 2} if attack is pgd else {}
    expected = attack(model, IMAGES, LABELS, 0.1, seed=1, **short)
    with torch.no_grad():
        assert torch.equal(attack(model, IMAGES, LABELS, 0.1, seed=1, **short), expected)
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        x, y = IMAGES.clone(), LABELS.clone()  # tensors that cannot take part in gradients
        assert torch.equal(attack(model, x, y, 0.1, seed=1, **short), expected)


@every_attack
def test_frozen_parameters_do_not_matter(attack):
    model = MAP(mlp(4, (8,), 3))
    x, y = torch.randn(5, 4), torch.arange(5) % 3
    expected = attack(model, x, y, 0.1, seed=0)
    assert torch.equal(attack(model.requires_grad_(False), x, y, 0.1, seed=0), expected)


@every_attack
def test_seeds_repeat_and_differ(attack):
    model = perceptron("MCDropout")
    x, y = torch.randn(40, 4), torch.randint(3, (40,))
    first = attack(model, x, y, 0.3, seed=1)
    assert torch.equal(attack(model, x, y, 0.3, seed=1), first)
    assert not torch.equal(attack(model, x, y, 0.3, seed=2), first)
    torch.manual_seed(1)
    drawn = attack(model, x, y, 0.3)
    torch.manual_seed(1)
    assert torch.equal(attack(model, x, y, 0.3), drawn)
    assert not torch.equal(attack(model, x, y, 0.3), drawn)


@every_attack
def test_the_number_of_draws_is_passed_on(attack):
    class Counting(MAP):
        def forward(self, x, num_samples=None):
            asked.add(num_samples)
            return super().forward(x, num_samples)

    asked = set()
    attack(Counting(mlp(4, (), 3)), torch.randn(2, 4), torch.tensor([0, 1]), 0.1, num_samples=6)
    assert asked == {6}


def cifar_settings():
    info = REGISTRY["cifar10"]
    return {
        "std": info.std,
        "low": [-m / s for m, s in zip(info.mean, info.std, strict=True)],
        "high": [(1 - m) / s for m, s in zip(info.mean, info.std, strict=True)],
    }


def cifar_images():
    # All bytes in every channel, the smallest and the largest among them.
    pixels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(4, 3, 16, 16)
    return normalize(pixels, REGISTRY["cifar10"].mean, REGISTRY["cifar10"].std)


@every_attack
@every_kind
def test_no_radius_predicts_as_without_an_attack(attack, kind):
    model = perceptron(kind)
    x, y = torch.randn(9, 4), torch.arange(9) % 3
    clean = predict(model, x, seed=2).probs
    assert torch.equal(predict(model, attack(model, x, y, 0.0, seed=1), seed=2).probs, clean)


@every_attack
def test_no_radius_gives_the_inputs_back_exactly(attack):
    model, x = MAP(compact(5, width=2)), cifar_images()
    y = torch.arange(4)
    found = attack(model, x, y, 0.0, **cifar_settings())
    assert torch.equal(found, x)
    assert found.data_ptr() != x.data_ptr()
    assert torch.equal(attack(model, x, y, 0.0), x)


@every_attack
def test_pixel_units_and_the_valid_range_of_each_channel(attack):
    model, x = MAP(compact(5, width=2)), cifar_images()
    info = REGISTRY["cifar10"]
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (info.mean, info.std))
    found = attack(model, x, torch.arange(4), 8 / 255, **cifar_settings())
    before, after = x * std + mean, found * std + mean  # pixels in [0, 1]
    change = (after - before).abs()
    torch.testing.assert_close(change.amax((0, 2, 3)), torch.full((3,), 8 / 255))
    assert after.min() > -1e-6
    assert after.max() < 1 + 1e-6
    assert after.min() < 1e-6  # the bounds are reached
    assert after.max() > 1 - 1e-6


@every_attack
def test_normalised_units_change_every_channel_alike(attack):
    found = attack(MAP(compact(5, width=2)), IMAGES, LABELS, 0.05)
    change = (found - IMAGES).abs().amax((0, 2, 3))
    torch.testing.assert_close(change, torch.full((3,), 0.05))


@every_attack
def test_one_bound_for_all_channels(attack):
    x = torch.rand(20, 4)
    found = attack(MAP(mlp(4, (8,), 3)), x, torch.arange(20) % 3, 0.4, low=0.0, high=1.0)
    assert found.min() == 0.0
    assert found.max() == 1.0


def test_an_input_that_rounding_puts_outside_the_range_is_not_pulled_in():
    model = MAP(linear(torch.tensor([[-1.0, 1.0], [1.0, -1.0]])))  # against label 0: up, down
    x = torch.tensor([[1.00001, -0.00001]])
    assert torch.equal(fgsm(model, x, torch.tensor([0]), 0.5, low=0.0, high=1.0), x)
    expected = x + torch.tensor([[-0.5, 0.5]])
    assert torch.equal(fgsm(model, x, torch.tensor([1]), 0.5, low=0.0, high=1.0), expected)


def test_memory_format_and_type_stay():
    model = MAP(compact(5, width=2)).double().to(memory_format=torch.channels_last)
    x = IMAGES.double().contiguous(memory_format=torch.channels_last)
    for found in (fgsm(model, x, LABELS, 0.1), pgd(model, x, LABELS, 0.1, steps=2)):
        assert found.is_contiguous(memory_format=torch.channels_last)
        assert found.dtype == torch.float64


def test_batches_do_not_change_the_attack_on_a_fixed_function():
    model = MAP(mlp(4, (16,), 3))
    x, y = torch.randn(25, 4), torch.randint(3, (25,))
    torch.testing.assert_close(fgsm(model, x, y, 0.1, batch_size=4), fgsm(model, x, y, 0.1))


@every_attack
@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"model": mlp(4, (), 3)}, TypeError, r"felbo\.MAP"),
        ({"x": torch.zeros(2, 4, dtype=torch.uint8)}, TypeError, "floating-point.*uint8"),
        ({"x": torch.zeros(2)}, TypeError, r"\[B, C, \.\.\.\].*\[2\]"),
        ({"x": torch.full((2, 4), torch.nan)}, ValueError, "nan"),
        ({"y": torch.zeros(3, dtype=torch.int64)}, ValueError, r"shape \[2\].*\[3\]"),
        ({"y": torch.zeros(2)}, TypeError, "integer"),
        ({"y": torch.tensor([0, 7])}, ValueError, "0 … 2"),
        ({"epsilon": -0.1}, ValueError, r"at least 0.*-0\.1"),
        ({"epsilon": float("inf")}, ValueError, "finite"),
        ({"std": [1.0, 0.0, 1.0, 1.0]}, ValueError, "std must be positive"),
        ({"std": [1.0, 1.0]}, ValueError, r"std.*4 for inputs.*\[2\]"),
        ({"low": [0.0]}, ValueError, r"low.*one per channel"),
        ({"low": 1.0, "high": -1.0}, ValueError, "below high"),
        ({"low": 0.5, "high": 1.0}, ValueError, r"from 0 to 0.*units of x"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"num_samples": 0}, ValueError, "num_samples"),
    ],
)
def test_bad_input_is_refused(attack, change, error, match):
    good = {"model": MAP(mlp(4, (), 3)), "x": torch.zeros(2, 4), "y": torch.tensor([0, 1])}
    with pytest.raises(error, match=match):
        attack(**{**good, "epsilon": 0.1, **change})


@pytest.mark.parametrize("change", [{"steps": 0}, {"restarts": 0}, {"step_size": 0.0}])
def test_an_empty_search_is_refused(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        pgd(MAP(mlp(4, (), 3)), torch.zeros(2, 4), torch.tensor([0, 1]), 0.1, **change)


def test_a_gradient_that_is_not_finite_is_refused():
    model = MAP(linear(torch.full((2, 2), torch.inf)))
    with pytest.raises(ValueError, match="not finite"):
        fgsm(model, torch.ones(1, 2), torch.tensor([0]), 0.1)
