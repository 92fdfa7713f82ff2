import io

import pytest
import torch
from torch import nn

import felbo
from felbo.evaluation import pgd
from felbo.models import MAP, Ensemble, MCDropout, MeanField, Tempered, TemperedMean
from felbo.networks import mlp

from .kinds import KINDS, NETWORKS, X, Y


def build(kind):
    torch.manual_seed(0)
    return KINDS[kind].make(NETWORKS["mlp"]).eval()


def seeded_logits(model):
    torch.manual_seed(1)
    return model(X)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_divided_draw_by_draw(kind):
    model = build(kind)
    expected = (seeded_logits(model) / 2.5).softmax(-1)
    tempered = Tempered(model, 2.5)
    torch.testing.assert_close(seeded_logits(tempered).softmax(-1), expected)
    assert tempered.is_random == model.is_random
    assert tempered.evaluation_samples == model.evaluation_samples
    assert tempered.training_samples == model.training_samples
    assert tempered.weight_kl() == model.weight_kl()


@pytest.mark.parametrize("kind", KINDS)
def test_a_temperature_of_one_changes_no_prediction(kind):
    model = build(kind)
    plain, tempered = (felbo.predict(m, X, seed=0) for m in (model, Tempered(model, 1.0)))
    torch.testing.assert_close(tempered.probs, plain.probs)
    torch.testing.assert_close(tempered.concentration, plain.concentration, rtol=1e-3, atol=1e-3)
    assert tempered.is_random == plain.is_random


@pytest.mark.parametrize("kind", ["MAP", "Ensemble", "ConcentrationNetwork", "Rank1"])
def test_the_mean_is_raised_to_a_power(kind):
    model = build(kind)
    powers = seeded_logits(model).softmax(-1).mean(0) ** 0.5
    tempered = TemperedMean(model, 2.0)
    torch.manual_seed(1)
    prediction = felbo.predict(tempered, X)
    torch.testing.assert_close(prediction.probs, powers / powers.sum(-1, keepdim=True))
    assert not prediction.is_random
    assert tempered(X, 3).shape == (3, 32, 10)


def test_the_mean_takes_as_many_draws_as_told():
    model = MCDropout(mlp(64, (8,), 10)).eval()
    torch.manual_seed(0)
    expected = model(X.flatten(1), 50).softmax(-1).mean(0)
    torch.manual_seed(0)
    found = TemperedMean(model, 1.0, draws=50)(X.flatten(1))
    torch.testing.assert_close(found[0].softmax(-1), expected)


def test_a_concentration_keeps_its_precision():
    model = felbo.ConcentrationNetwork(mlp(64, (8,), 10))
    alpha, tempered = model.concentration(X), Tempered(model, 3.0).concentration(X)
    torch.testing.assert_close(tempered.sum(-1), alpha.sum(-1))
    powers = alpha ** (1 / 3)
    torch.testing.assert_close(
        tempered / tempered.sum(-1, keepdim=True), powers / powers.sum(-1, keepdim=True)
    )


def test_modes_and_weights_are_shared():
    model = MCDropout(mlp(64, (8,), 10))
    tempered = Tempered(model.eval(), 2.0)
    assert not tempered.training
    tempered.train()
    assert model.training
    names = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in tempered.parameters()} == names
    assert tempered.last_layer_parameters() == model.last_layer_parameters()


def test_the_temperature_is_part_of_the_state():
    file = io.BytesIO()
    model = Tempered(Ensemble(lambda: mlp(64, (8,), 10), 2), 2.5)
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = Tempered(Ensemble(lambda: mlp(64, (8,), 10), 2), 1.0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert float(other.temperature) == 2.5
    torch.testing.assert_close(other(X), model(X))


@pytest.mark.parametrize(
    "other",
    [
        lambda net: Tempered(MAP(net()), 1.0),
        lambda net: TemperedMean(Ensemble(net, 2), 1.0),
        lambda net: Ensemble(net, 2),
    ],
)
def test_the_state_of_another_kind_is_refused(other):
    state = Tempered(Ensemble(lambda: mlp(64, (8,), 10), 2), 2.5).state_dict()
    with pytest.raises((RuntimeError, ValueError)):
        other(lambda: mlp(64, (8,), 10)).load_state_dict(state)


def test_it_trains_and_can_be_attacked():
    tempered = Tempered(MeanField(mlp(64, (16,), 10)), 2.0)
    objective = felbo.FunctionSpaceELBO(felbo.UniformPrior(10), num_data=32)
    history = felbo.fit(tempered, objective, (X, Y), epochs=3, progress=False)
    assert history is not None
    adversarial = pgd(tempered, X, Y, 0.1, steps=2, restarts=1, seed=0)
    right = [
        felbo.predict(tempered, x, seed=0).probs.gather(-1, Y[:, None]).mean()
        for x in (X, adversarial)
    ]
    assert right[1] < right[0]


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_temperatures_without_meaning_are_refused(temperature):
    with pytest.raises(ValueError, match="positive and finite"):
        Tempered(MAP(mlp(2, (4,), 3)), temperature)


def test_plain_networks_are_refused():
    with pytest.raises(TypeError, match=r"felbo\.MAP\(network\)"):
        Tempered(nn.Linear(2, 3), 1.0)
