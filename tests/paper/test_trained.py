"""Trained weights are read again only if settings and code are those that made them."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import felbo
from felbo.paper.trained import keeping_weights_in, trained


def build():
    felbo.seed_everything(0)
    return felbo.MAP(felbo.networks.mlp(2, (), 2))


def to_ones(model, checkpoints):
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(1.0)


def to_twos(model, checkpoints):
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(2.0)


def refuse(*args):
    raise AssertionError("trained again")


def weights(model):
    return torch.nn.utils.parameters_to_vector(model.parameters()).tolist()


def test_a_kept_training_is_not_repeated(tmp_path, monkeypatch):
    with keeping_weights_in(tmp_path):
        first = trained("map", {"rate": 0.1}, build, to_ones)
        monkeypatch.setattr(torch.Tensor, "fill_", refuse)
        again = trained("map", {"rate": 0.1}, build, to_ones)
    assert weights(again) == weights(first) == [1.0] * 6


def test_other_settings_train_anew(tmp_path):
    with keeping_weights_in(tmp_path):
        trained("map", {"rate": 0.1}, build, to_ones)
        path = tmp_path / "trained" / "map.safetensors"
        before = path.read_bytes()
        trained("map", {"rate": 0.2}, build, to_ones)
    assert path.read_bytes() != before


def test_other_code_trains_anew(tmp_path):
    with keeping_weights_in(tmp_path):
        trained("map", {"rate": 0.1}, build, to_ones)
        anew = trained("map", {"rate": 0.1}, build, to_twos)
    assert weights(anew) == [2.0] * 6


def test_a_damaged_file_is_replaced(tmp_path):
    with keeping_weights_in(tmp_path):
        trained("map", {}, build, to_ones)
        path = tmp_path / "trained" / "map.safetensors"
        path.write_bytes(path.read_bytes()[:40])
        assert weights(trained("map", {}, build, to_twos)) == [2.0] * 6


def test_an_interrupted_training_goes_on_from_its_checkpoints(tmp_path):
    seen = []

    def train(model, checkpoints):
        seen.append([path.name for path in checkpoints.glob("*")])
        if len(seen) == 1:
            checkpoints.mkdir()
            (checkpoints / "half").touch()
            raise KeyboardInterrupt

    with keeping_weights_in(tmp_path):
        with pytest.raises(KeyboardInterrupt):
            trained("map", {"rate": 0.1}, build, train)
        trained("map", {"rate": 0.2}, build, train)  # of other settings: not its checkpoints
        trained("map", {"rate": 0.1}, build, train)
    assert seen == [[], [], ["half"]]


def test_checkpoints_are_deleted_when_the_weights_are_kept(tmp_path):
    def train(model, checkpoints):
        checkpoints.mkdir()

    with keeping_weights_in(tmp_path):
        trained("map", {}, build, train)
    assert [path for path in (tmp_path / "trained").iterdir() if path.is_dir()] == []


def test_a_second_cell_waits_for_the_weights_of_the_first(tmp_path):
    trainings = []

    def slow(model, checkpoints):
        trainings.append(len(trainings))
        time.sleep(0.3)
        to_ones(model, checkpoints)

    def cell(_):
        with keeping_weights_in(tmp_path):
            return weights(trained("map", {}, build, slow))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(cell, range(2))) == [[1.0] * 6] * 2
    assert trainings == [0]
