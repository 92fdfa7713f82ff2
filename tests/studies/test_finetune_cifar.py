"""Fine-tuning trained ResNets: files, shapes, one cell of each way on small data."""

import pytest
import torch

import felbo
from felbo.paper.results import Raw, summarise
from felbo.paper.trained import keeping_weights_in
from felbo.studies import finetune_cifar, tuned_resnets
from felbo.studies.tuned_resnets import KINDS

from . import fakes

SETTINGS = {
    **finetune_cifar.STUDY.presets["smoke"].settings,
    "train_size": 8,
    "test_size": 4,
    "clean_size": 10,
}


@pytest.fixture
def ready(tmp_path, monkeypatch):
    """A folder with one network, and small data."""
    torch.manual_seed(0)
    state = felbo.networks.resnet_cifar(20).state_dict()
    torch.save(
        {"state_dict": {f"module.{k}": v for k, v in state.items()}}, tmp_path / "resnet20-0.th"
    )
    monkeypatch.setenv("FELBO_TRAINED", str(tmp_path))
    monkeypatch.setattr(felbo.data, "load", fakes.load)
    monkeypatch.setattr(felbo.data, "corrupted", fakes.corrupted)
    tuned_resnets.training_data.cache_clear()
    with keeping_weights_in(tmp_path):
        yield tmp_path
    tuned_resnets.training_data.cache_clear()


def test_a_missing_file_is_named_with_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("FELBO_TRAINED", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"resnet20-\*\.th.*set FELBO_TRAINED"):
        tuned_resnets.ready((20,))


def test_grey_images_become_those_of_the_networks():
    images = torch.full((2, 1, 28, 28), 255, dtype=torch.uint8)
    x = tuned_resnets.prepared(images)
    assert x.shape == (2, 3, 32, 32)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    torch.testing.assert_close(x[0, :, 16, 16], (1 - mean) / std)
    torch.testing.assert_close(x[0, :, 0, 0], -mean / std)


WAYS = ["", "everywhere", "label smoothing", "LogitNorm", "outlier exposure", "Laplace"]


@pytest.mark.parametrize("way", WAYS)
def test_a_cell_measures_clean_corrupted_turned_and_foreign_images(ready, way):
    found = finetune_cifar.run(f"ResNet-20 {way}".strip(), 0, SETTINGS)
    value = {(o.metric, o.shift): o.value for o in found}
    scores = {(m, s) for m in finetune_cifar.METRICS for s in (0.0, 3.0)}
    turned = {(f"turned_{m}", 90.0) for m in finetune_cifar.METRICS}
    foreign = {(f"auroc_{n}", 0.0) for n in ("cifar100", "mnist", "fashion-mnist", "noise")}
    energy = {(name.replace("auroc", "energy"), 0.0) for name, _ in foreign if not way}
    assert set(value) == scores | turned | foreign | energy
    kept = list(ready.rglob("*.safetensors"))
    assert len(kept) == (0 if way in ("", "Laplace") else 1)


def test_an_ensemble_has_settings_of_its_own_and_strengths_belong_to_everywhere():
    settings = finetune_cifar.STUDY.presets["cpu"].settings
    single, several = (finetune_cifar.uses(f"{kind} everywhere", settings) for kind in KINDS)
    assert (single["depths"], several["depths"]) == ((20,), (20, 32, 44))
    assert single["strength"] == several["strength"] == settings["strength"]
    assert not {"strength", "data_strength"} & set(finetune_cifar.uses("Ensemble", settings))
    assert "ensemble" not in several


def test_tuning_changes_the_weights_and_not_the_statistics(ready, tmp_path):
    model = tuned_resnets.ready((20,))
    old = {name: value.clone() for name, value in model.state_dict().items()}
    tuned_resnets.tune(model, tmp_path, way="fVI", seed=0, settings=SETTINGS)
    moved = {name for name, new in model.state_dict().items() if not torch.equal(new, old[name])}
    assert "network.conv1.weight" in moved
    assert not [name for name in moved if "running" in name]


def test_the_figures_are_drawn(tmp_path):
    rows = [
        Raw("finetune_cifar10", metric, model, severity, 0, 0.5)
        for metric in finetune_cifar.METRICS
        for model in ("Ensemble everywhere", *finetune_cifar.BEFORE_AFTER)
        for severity in (0.0, 5.0)
    ]
    finetune_cifar.draw(summarise(rows), str(tmp_path / "tuned"))
    one = (tmp_path / "tuned_before_after.svg").read_text()
    assert "felbo.finetune" in one
    assert "Ensemble" not in one
    assert "Ensemble everywhere" in (tmp_path / "tuned.svg").read_text()
    finetune_cifar.draw(summarise(rows[:2]), str(tmp_path / "other"))
    assert not (tmp_path / "other_before_after.svg").exists()
