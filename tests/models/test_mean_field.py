"""Mean-field weights: moments, divergence, any layer, tied weights, names."""

import copy

import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

from felbo.models.mean_field import MeanField
from felbo.models.radial import Radial
from felbo.networks import mlp, resnet18

KINDS = [MeanField, Radial]
CONVOLUTIONS = {
    "stride": nn.Conv2d(4, 6, 3, stride=2),
    "groups": nn.Conv2d(4, 6, 3, groups=2),
    "depthwise": nn.Conv2d(4, 4, 3, groups=4),
    "dilation": nn.Conv2d(4, 6, 3, dilation=2),
    "circular": nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"),
    "reflect": nn.Conv2d(4, 6, 3, padding=(1, 2), padding_mode="reflect"),
    "same": nn.Conv2d(4, 6, (3, 5), padding="same"),
    "no bias": nn.Conv2d(4, 6, 3, bias=False),
}


def draws_of(model, name, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([model.draw_weights(generator=generator)[name] for _ in range(count)])


def test_moments_of_the_weights():
    torch.manual_seed(1)
    model = MeanField(nn.Linear(5, 4), rho=0.3)
    count = 4000
    draws = draws_of(model, "weight", count).detach()
    sigma = torch.nn.functional.softplus(torch.tensor(0.3))
    z = (draws - model.network.weight.detach()) / sigma
    assert (z.mean(0).abs() < 4.5 / count**0.5).all()
    assert ((z.var(0) - 1).abs() < 4.5 * (2 / count) ** 0.5).all()
    correlation = torch.corrcoef(z.flatten(1).T) - torch.eye(20)
    assert (correlation.abs() < 4.5 / count**0.5).all()


def test_divergence_agrees_with_torch_distributions():
    torch.manual_seed(2)
    model = MeanField(mlp(3, (4,), 2), prior_std=0.7).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    expected = sum(
        kl_divergence(Normal(mean, scale), Normal(torch.zeros_like(mean), 0.7)).sum()
        for layer in model.layer_posteriors()
        for mean, scale in zip(layer.mean, layer.scale, strict=True)
    )
    torch.testing.assert_close(model.weight_kl(), expected)


def test_divergence_is_zero_at_the_prior():
    rho = torch.tensor(0.1).double().expm1().log().item()  # softplus⁻¹(0.1)
    model = MeanField(nn.Linear(3, 2), rho=rho, prior_std=0.1).double()
    for parameter in model.network.parameters():
        nn.init.zeros_(parameter)
    assert model.weight_kl().item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_forward_runs_the_network_with_the_drawn_weights(kind):
    torch.manual_seed(3)
    network = mlp(3, (4,), 2)
    model = kind(network, rho=0.0)
    x = torch.randn(5, 3)
    torch.manual_seed(7)
    logits = model(x, num_samples=3)
    torch.manual_seed(7)
    for m in range(3):
        w = model.draw_weights()
        h = (x @ w["1.weight"].T + w["1.bias"]).relu()
        torch.testing.assert_close(logits[m], h @ w["3.weight"].T + w["3.bias"])
    assert not torch.allclose(logits[0], logits[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_small_scale_gives_the_original_convolution(kind, convolution):
    layer = CONVOLUTIONS[convolution]
    network = nn.Sequential(layer, nn.Flatten(), nn.LazyLinear(3))
    x = torch.randn(2, 4, 9, 9)
    expected = network(x)
    torch.testing.assert_close(kind(network, rho=-40.0)(x)[0], expected)
    assert (kind(network, rho=0.0)(x)[0] - expected).abs().max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_small_scale_gives_the_original_conv1d(kind):
    network = nn.Sequential(nn.Conv1d(2, 3, 3, stride=2, padding=1), nn.Flatten(), nn.Linear(12, 2))
    x = torch.randn(2, 2, 8)
    torch.testing.assert_close(kind(network, rho=-40.0)(x)[0], network(x))


@pytest.mark.parametrize("kind", KINDS)
def test_batch_normalisation_learns_its_statistics_once_per_draw(kind):
    model = kind(resnet18(3, width=2), rho=-40.0)
    plain = copy.deepcopy(model.network)
    x = torch.randn(8, 3, 8, 8)
    model(x, num_samples=2)
    for _ in range(2):
        plain(x)
    assert model.network.bn1.num_batches_tracked == 2
    torch.testing.assert_close(model.network.bn1.running_mean, plain.bn1.running_mean)
    torch.testing.assert_close(
        model.network.layer4[1].bn2.running_var, plain.layer4[1].bn2.running_var
    )


@pytest.mark.parametrize("kind", KINDS)
def test_names_report_and_state_dict(kind):
    network = resnet18(10, width=1)
    model = kind(network, skip=("fc", "layer1"))
    assert model.converted[:2] == ("conv1", "layer2.0.conv1")
    assert {"fc", "bn1", "layer1.0.conv1"} <= set(model.not_converted)
    assert set(model.converted).isdisjoint(model.not_converted)
    state = model.state_dict()
    shape = state["network.layer2.0.conv1.weight"].shape
    assert state["rho.layer2.0.conv1.weight"].shape == shape
    assert not any(name.startswith(("rho.fc", "rho.layer1", "rho.bn1")) for name in state)


@pytest.mark.parametrize("kind", KINDS)
def test_skipped_layer_is_the_same_in_every_draw(kind):
    torch.manual_seed(4)
    network = mlp(3, (4,), 2)
    model = kind(network, skip=("1",), rho=0.0)
    hidden = []
    model.network[1].register_forward_hook(lambda _m, _i, out: hidden.append(out))
    logits = model(torch.randn(5, 3), num_samples=2)
    torch.testing.assert_close(hidden[0], hidden[1], rtol=0, atol=0)
    assert not torch.allclose(logits[0], logits[1])


class Tied(nn.Module):
    """The last layer shares the weight of an embedding, which comes first."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.hidden = nn.Linear(3, 3)
        self.out = nn.Linear(3, 5, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, x):
        return self.out(self.hidden(self.embedding(x)))


@pytest.mark.parametrize("kind", KINDS)
def test_tied_weights_have_one_value_per_draw(kind):
    torch.manual_seed(5)
    model = kind(Tied(), rho=0.0)
    assert model.converted == ("hidden", "out")
    x = torch.tensor([0, 3])
    torch.manual_seed(8)
    logits = model(x)
    torch.manual_seed(8)
    w = model.draw_weights()
    assert sorted(w) == ["hidden.bias", "hidden.weight", "out.weight"]
    h = w["out.weight"][x] @ w["hidden.weight"].T + w["hidden.bias"]
    torch.testing.assert_close(logits[0], h @ w["out.weight"].T)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_that_share_a_weight_share_its_draw(kind):
    torch.manual_seed(6)
    network = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3))
    network[1].weight = network[0].weight
    model = kind(network, rho=0.0)
    assert [name for name, _ in model.rho.named_parameters()] == ["0.weight", "1.bias"]
    x = torch.randn(4, 3)
    torch.manual_seed(9)
    logits = model(x)
    torch.manual_seed(9)
    w = model.draw_weights()
    torch.testing.assert_close(logits[0], x @ w["0.weight"].T @ w["0.weight"].T + w["1.bias"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"prior_std": 0.0}, "prior_std must be positive"),
        ({"rho": float("-inf")}, "rho must be finite"),
        ({"evaluation_samples": 0}, "evaluation_samples must be a whole number of at least 1"),
    ],
)
def test_bad_settings_are_refused(kind, setting, message):
    with pytest.raises(ValueError, match=message):
        kind(nn.Linear(2, 2), **setting)


def test_a_frozen_layer_has_a_frozen_scale():
    network = mlp(4, (5,), 3)
    network[-1].requires_grad_(False)
    model = MeanField(network)
    frozen = {name for name, part in model.named_parameters() if not part.requires_grad}
    last = f"{len(network) - 1}"
    assert frozen == {
        f"{part}.{last}.{kind}" for part in ("network", "rho") for kind in ("weight", "bias")
    }
