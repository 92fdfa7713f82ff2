"""The models of the CIFAR experiments: published settings and sizes, and two real steps each."""

import itertools
import math
from pathlib import Path

import pytest
import torch

import felbo
from felbo.paper import cifar
from felbo.paper.corrupted_cifar import ABLATION, BASELINES, SERIES

PAPER = {**cifar.PAPER, "kl_scale": 1.0}
# Every training of the paper preset. The conventional ensemble and Laplace are made of MAP cells,
# and one draw in training is the default.
TRAININGS = [
    name.removesuffix(" (1 sample)")
    for name in dict.fromkeys((*SERIES, *BASELINES, *ABLATION))
    if name not in ("Ensemble", "Subnetwork")
]
TRAININGS = list(dict.fromkeys(TRAININGS))
PARAMETERS = 11_173_962  # of the ResNet-18 for 32×32 images and ten classes


@pytest.fixture
def eight_images(monkeypatch):
    """Eight images to train with, and enough of the other data set for a batch outside."""
    sizes = {"cifar10": 8, "cifar100": 128}

    def training_data(dataset, size):
        images = torch.randn(sizes[dataset], 3, 32, 32, generator=torch.Generator().manual_seed(0))
        return images.contiguous(memory_format=torch.channels_last), torch.arange(len(images)) % 10

    monkeypatch.setattr(cifar, "training_data", training_data)


def test_there_are_fourteen_trainings():
    assert len(TRAININGS) == 14
    assert {name.partition(" fVI")[0] for name in SERIES} == set(cifar.KINDS)


def test_the_paper_preset_is_the_published_protocol():
    assert cifar.PAPER == {
        "network": "resnet18",
        "width": 64,
        "train_size": 50_000,
        "epochs": 200,
        "rank1_epochs": 250,
        "schedule": "step",
        "rate": 0.1,
        "batch_size": 128,
        "members": 5,
        "rank1_members": 4,
        "precision": "32-true",
    }


def test_the_reduced_preset_keeps_data_members_and_batches():
    reduced = {"network", "width", "epochs", "rank1_epochs", "schedule", "rate"}
    assert {key for key in cifar.PAPER if cifar.CPU[key] != cifar.PAPER[key]} == reduced


@pytest.mark.parametrize("width", [4, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TRAININGS)
def test_two_real_steps(name, width, eight_images, monkeypatch, tmp_path):
    losses = []
    fit = felbo.fit
    monkeypatch.setattr(felbo, "fit", lambda *args, **kw: losses.append(fit(*args, **kw)))
    settings = {**PAPER, "train_size": 8, "batch_size": 4, "epochs": 1, "rank1_epochs": 1}
    settings["width"] = width
    settings["kl_scale"] = 4 / 128  # the weight of a full batch
    model = cifar.build("cifar10", name, 0, settings)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    cifar.train(model, tmp_path, dataset="cifar10", name=name, seed=0, settings=settings)
    assert math.isfinite(losses[0].total[0])
    assert losses[0].nll[0] > 0
    assert (losses[0].kl[0] != 0.0) == ("fVI" in name or name in ("Radial", "Rank1", *cifar.DIRECT))
    after = dict(model.named_parameters())
    assert all(torch.isfinite(p).all() for p in after.values())
    # The last layer's weight has a gradient in the first step already, the first convolution too.
    first = next(n for n in before if "conv1" in n)
    last = next(n for n in before if "fc" in n and n.endswith("weight"))
    assert not torch.equal(after[first], before[first])
    assert not torch.equal(after[last], before[last])
    tracked = [b for n, b in model.named_buffers() if n.endswith("num_batches_tracked")]
    expected = (2 if "5 samples" not in name else 10) * (2 if name == "Prior Networks" else 1)
    assert {int(b.max()) for b in tracked} <= {2, expected}


def build(name, dataset="cifar10"):
    return cifar.build(dataset, name, 0, PAPER)


def count(model):
    return sum(p.numel() for p in model.parameters())


def test_point_dropout_and_direct_models_have_the_weights_of_one_network():
    for name in ("MAP", "MC Dropout fVI (5 samples)", *cifar.DIRECT):
        assert count(build(name)) == PARAMETERS
    assert count(build("MAP fVI", "cifar100")) == PARAMETERS + 90 * 513


def test_dropout_stands_before_every_layer_but_the_first():
    model = build("MC Dropout")
    assert isinstance(model, felbo.MCDropout)
    model.train()
    x = torch.randn(2, 3, 32, 32)
    conv1, last = model.network.conv1, model.network.fc
    seen = {}
    for name, layer in (("conv1", conv1), ("fc", last)):
        layer.register_forward_hook(lambda m, i, o, name=name: seen.update({name: i[0]}))
    with torch.no_grad():
        model(x)
    assert torch.equal(seen["conv1"], x)
    dropped = (seen["fc"] == 0).float().mean().item()
    assert dropped == pytest.approx(0.2, abs=0.05)


def test_the_function_space_ensemble_has_five_members():
    model = build("Ensemble fVI")
    assert isinstance(model, felbo.Ensemble)
    assert count(model) == 5 * PARAMETERS


def test_radial_draws_all_convolutions_and_not_the_last_layer():
    model = build("Radial")
    convolutions = [n for n, m in model.network.named_modules() if isinstance(m, torch.nn.Conv2d)]
    assert sorted(model.converted) == sorted(convolutions)
    assert len(convolutions) == 20
    rho = torch.cat([p.flatten() for n, p in model.named_parameters() if n.startswith("rho.")])
    assert torch.equal(rho, torch.full_like(rho, -5.0))
    assert model.prior_std == 0.1


def test_rank1_has_four_members_around_one():
    model = build("Rank1")
    assert model.members == 4
    assert model.prior_std == 0.1
    assert len(model.converted) == 21
    for name, parameter in model.named_parameters():
        if name.endswith((".input.mean", ".output.mean")):
            assert len(parameter) == 4
            assert torch.equal(parameter, torch.ones_like(parameter))
        if name.endswith((".input.rho", ".output.rho")):
            assert torch.equal(parameter, torch.full_like(parameter, -3.0))


def test_seeds_decide_where_the_weights_start():
    first, again, other = (
        cifar.build("cifar10", "MAP", seed, {**PAPER, "width": 4}).network.conv1.weight
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def objective(name, dataset="cifar10", kl_scale=1.0):
    return cifar.objective(dataset, name, {**PAPER, "kl_scale": kl_scale}, 200, 78_200)


@pytest.mark.parametrize("name", [name for name in TRAININGS if "fVI" in name])
def test_function_space_models_have_a_uniform_prior_on_the_batch(name):
    found = objective(name)
    assert isinstance(found, felbo.FunctionSpaceELBO)
    assert found.num_data == 50_000
    assert found.kl_weight == 1 / 128
    assert found.num_samples == (5 if "5 samples" in name else None)
    assert len(found.terms) == 1
    assert found.terms[0].measurement.includes_batch
    beta = found.prior(torch.zeros(2, 3, 32, 32)).concentration
    assert torch.equal(beta, torch.ones_like(beta))
    assert beta.shape[-1] == 10
    assert objective(name, "cifar100", 0.1).kl_weight == 0.1 / 128


def test_other_models_have_their_own_objectives(eight_images):
    for name in ("MAP", "MC Dropout", "MC Dropout (5 samples)"):
        assert isinstance(objective(name), felbo.NegativeLogLikelihood)
        assert objective(name).num_samples == (5 if "5 samples" in name else None)
    for name in ("Radial", "Rank1"):
        assert isinstance(objective(name), felbo.WeightSpaceELBO)
        assert objective(name).num_data == 50_000
    assert isinstance(objective("Belief Matching"), felbo.BeliefMatching)
    assert isinstance(objective("Evidential"), felbo.Evidential)
    assert objective("Evidential").annealing_steps == 39_100
    assert isinstance(objective("Prior Networks"), felbo.PriorNetwork)


def test_prior_networks_see_the_other_data_set_as_outside(monkeypatch):
    asked = []

    def training_data(dataset, size):
        asked.append((dataset, size))
        return torch.zeros(200, 3, 4, 4), None

    monkeypatch.setattr(cifar, "training_data", training_data)
    objective("Prior Networks")
    objective("Prior Networks", "cifar100")
    assert asked == [("cifar100", 50_000), ("cifar10", 50_000)]


def handed_to_fit(name, preset, monkeypatch):
    """What ``train`` gives to ``felbo.fit``, with a small model in place of the full one."""
    seen = {}
    monkeypatch.setattr(felbo, "fit", lambda *args, **kw: seen.update(kw, model=args[0]))
    settings = {**preset, "width": 2, "kl_scale": 1.0}
    model = cifar.build("cifar10", name, 0, settings)
    folder = Path("checkpoints")
    cifar.train(model, folder, dataset="cifar10", name=name, seed=3, settings=settings)
    return seen


@pytest.mark.parametrize(
    ("name", "decay"),
    [
        ("MAP", 5e-4),
        ("MC Dropout", 5e-4),
        ("MC Dropout (5 samples)", 5e-4),
        ("Rank1", 1e-4),
        ("Radial", 0.0),
        *((name, 0.0) for name in TRAININGS if "fVI" in name),
        *((name, 5e-4) for name in cifar.DIRECT),
    ],
)
def test_optimiser_and_weight_decay(name, decay, eight_images, monkeypatch):
    seen = handed_to_fit(name, PAPER, monkeypatch)
    optimizer = seen["optimizer"](seen["model"].parameters())
    assert isinstance(optimizer, torch.optim.SGD)
    groups = optimizer.param_groups
    assert [g["momentum"] for g in groups] == [0.9] * len(groups)
    assert [g["nesterov"] for g in groups] == [False] * len(groups)
    assert [g["lr"] for g in groups] == [0.1] * len(groups)
    decays = {id(p): g["weight_decay"] for g in groups for p in g["params"]}
    assert len(decays) == len(list(seen["model"].parameters()))
    for parameter_name, parameter in seen["model"].named_parameters():
        factor = name.startswith("Rank1") and parameter_name.endswith((".mean", ".rho"))
        assert decays[id(parameter)] == (0.0 if factor else decay)
    assert seen["batch_size"] == 128
    assert seen["seed"] == 3
    assert seen["checkpoint"] == Path("checkpoints")
    assert seen["fabric"].strategy.precision.precision == "32-true"
    assert seen["augment"] is felbo.data.augmentation.random_crop_flip


def rates(seen, count):
    """The learning rate at ``count`` successive steps of the scheduler, the first included."""
    optimizer = seen["optimizer"](seen["model"].parameters())
    scheduler = seen["scheduler"](optimizer)
    found = []
    for _ in range(count):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.parametrize(
    ("name", "epochs", "falls"), [("MAP", 200, (100, 150)), ("Rank1 fVI", 250, (150, 200))]
)
def test_the_rate_falls_to_a_tenth_at_the_published_epochs(
    name, epochs, falls, eight_images, monkeypatch
):
    seen = handed_to_fit(name, PAPER, monkeypatch)
    assert seen["epochs"] == epochs
    assert seen["scheduler_step"] == "epoch"
    expected = [0.1 * 0.1 ** sum(epoch >= fall for fall in falls) for epoch in range(epochs)]
    assert rates(seen, epochs) == pytest.approx(expected)


def test_the_reduced_preset_has_one_cycle_per_step(eight_images, monkeypatch):
    # Eight images are one step per epoch.
    seen = handed_to_fit("MAP", {**cifar.CPU, "epochs": 41}, monkeypatch)
    assert seen["scheduler_step"] == "step"
    found = rates(seen, 40)
    top = max(range(40), key=found.__getitem__)
    assert found[top] == pytest.approx(0.2, rel=0.05)
    assert top in (9, 10)
    steps = [b - a for a, b in itertools.pairwise(found)]
    assert steps[:9] == pytest.approx([steps[0]] * 9)  # straight up
    assert steps[11:] == pytest.approx([steps[20]] * 28)  # straight down
    assert steps[0] > 0 > steps[20]


@pytest.mark.parametrize("epochs", [3, 4, 5])
def test_one_cycle_of_very_few_steps_reaches_its_top(epochs, eight_images, monkeypatch):
    found = rates(handed_to_fit("MAP", {**cifar.CPU, "epochs": epochs}, monkeypatch), epochs - 1)
    assert max(found) == pytest.approx(0.2)


def test_mixed_precision_trains_float32_weights(eight_images, monkeypatch, tmp_path):
    found = {}
    for precision in ("32-true", "bf16-mixed"):
        settings = {
            **cifar.SMOKE,
            "kl_scale": 1.0,
            "precision": precision,
            "train_size": 8,
            "epochs": 3,
        }
        model = cifar.build("cifar10", "MAP fVI", 0, settings)
        cifar.train(
            model,
            tmp_path / precision,
            dataset="cifar10",
            name="MAP fVI",
            seed=0,
            settings=settings,
        )
        found[precision] = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert found["bf16-mixed"].dtype == torch.float32
    full, mixed = found.values()
    assert not torch.equal(full, mixed)
    start = torch.cat(
        [p.detach().flatten() for p in cifar.build("cifar10", "MAP fVI", 0, settings).parameters()]
    )
    assert (mixed - full).norm() < 0.5 * (full - start).norm()


def test_conventional_ensembles_are_map_cells_of_other_seeds(monkeypatch):
    asked = []

    def trained(name, settings, build, train):
        asked.append((name, settings["name"], settings["seed"]))
        return build()

    monkeypatch.setattr(cifar, "trained", trained)
    small = {**PAPER, "width": 2}
    model = cifar.trained_model("cifar10", "Ensemble", 2, small)
    assert isinstance(model, felbo.Ensemble)
    assert asked == [(f"cifar10/resnet18-2/map-{s}", "MAP", s) for s in (10, 11, 12, 13, 14)]
    x = torch.randn(3, 3, 32, 32)
    parts = [cifar.build("cifar10", "MAP", seed, small).eval() for seed in range(10, 15)]
    with torch.no_grad():
        expected = torch.cat([part(x) for part in parts])
        torch.testing.assert_close(model.eval()(x), expected, rtol=1e-4, atol=1e-5)


def test_draws_in_prediction():
    ten = ("MC Dropout", "MC Dropout fVI (5 samples)", "Radial fVI", "Subnetwork")
    assert {cifar.draws_of(name) for name in ten} == {10}
    assert {cifar.draws_of(name) for name in ("MAP", "Ensemble fVI", "Rank1")} == {None}
    small = {**PAPER, "width": 2}
    for name, draws in (("MAP", 1), ("Ensemble fVI", 5), ("Rank1", 4)):
        with torch.no_grad():
            model = cifar.build("cifar10", name, 0, small).eval()
            assert len(model(torch.randn(2, 3, 32, 32))) == draws


def test_images_are_normalised_and_channels_last():
    pixels = torch.randint(256, (5, 3, 32, 32), dtype=torch.uint8)
    found = cifar.prepared(pixels, "cifar100")
    info = felbo.data.REGISTRY["cifar100"]
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (info.mean, info.std))
    torch.testing.assert_close(found * std + mean, pixels / 255, rtol=0, atol=1e-5)
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.slow
def test_laplace_over_the_full_network(eight_images):
    network = cifar.network_of(build("MAP"))
    model = cifar.fitted_laplace(network, "cifar10", 8)
    assert len(model.indices) == 500
    with torch.no_grad():
        draws = model(torch.randn(2, 3, 32, 32), 10)
    assert draws.shape == (10, 2, 10)
    assert draws.isfinite().all()
