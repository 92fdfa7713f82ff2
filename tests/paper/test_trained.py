"""Trained weights are read again only if settings and code are those that made them."""

import torch

import felbo
from felbo.paper.trained import keeping_weights_in, trained


def build():
    felbo.seed_everything(0)
    return felbo.MAP(felbo.networks.mlp(2, (), 2))


def to_ones(model):
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(1.0)


def to_twos(model):
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(2.0)


def refuse(model):
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
