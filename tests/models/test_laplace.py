"""Subnetwork Laplace against its closed form for a linear network, and its Jacobian."""

import sys

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import felbo
from felbo.models import MAP, SubnetworkLaplace, _laplace_torch
from felbo.networks import mlp, resnet18


def data(classes=3):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 2, generator=generator)
    noisy = x[:, 0] + 0.5 * torch.randn(60, generator=generator)
    return x, torch.bucketize(noisy, torch.tensor([-0.5, 0.5])[: classes - 1])


def loader(classes=3):
    return DataLoader(TensorDataset(*data(classes)), batch_size=16)


def trained(hidden, classes=3, steps=150):
    torch.manual_seed(1)
    network = mlp(2, hidden, classes)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03)
    x, y = data(classes)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network


def gauss_newton(network, x, chosen):
    """Σ_n J_nᵀ (diag p − p pᵀ) J_n for the chosen weights, from single gradients."""
    total = 0
    for item in x:
        logits = network(item[None])[0]
        rows = [
            nn.utils.parameters_to_vector(
                torch.autograd.grad(logit, list(network.parameters()), retain_graph=True)
            )
            for logit in logits
        ]
        jacobian, p = torch.stack(rows)[:, chosen].double(), logits.detach().double().softmax(-1)
        total = total + jacobian.T @ (p.diag() - p.outer(p)) @ jacobian
    return total


def weights(network):
    return nn.utils.parameters_to_vector(network.parameters()).detach().double()


@pytest.mark.parametrize("size", [10_000, 7])
def test_covariance_and_evidence_by_hand(size):
    network = trained((4,))
    model = SubnetworkLaplace(network, size=size).fit(loader())
    chosen = model.indices
    h = gauss_newton(network, data()[0], chosen)
    mean = weights(network)[chosen]
    eye = torch.eye(len(mean), dtype=torch.float64)

    def evidence(precision):
        """Log marginal likelihood up to the fit at the mode, which λ does not change."""
        log_determinant = torch.logdet(h + precision * eye) - len(mean) * precision.log()
        return -0.5 * (log_determinant + precision * mean @ mean)

    best = model.prior_precision.double()
    assert evidence(best) > evidence(1.3 * best)
    assert evidence(best) > evidence(best / 1.3)
    covariance = (model.scale @ model.scale.T).double()
    torch.testing.assert_close(covariance, torch.linalg.inv(h + best * eye), rtol=2e-3, atol=1e-4)


def test_largest_takes_the_weights_of_largest_magnitude():
    network = trained((4,))
    model = SubnetworkLaplace(network, size=5)
    order = weights(network).abs().argsort(descending=True)
    assert set(model.indices.tolist()) == set(order[:5].tolist())


def test_last_takes_all_of_the_last_layer():
    network = trained((4,))
    model = SubnetworkLaplace(network, subnetwork="last")
    assert model.indices.tolist() == list(range(12, 12 + 4 * 3 + 3))


@pytest.mark.parametrize("settings", [{"subnetwork": "last"}, {"size": 7}])
def test_a_step_moves_the_logits_by_the_jacobian(settings):
    network = trained((4,))
    model = SubnetworkLaplace(network, **settings)
    x = data()[0][:5]
    step = torch.randn(len(model.indices))
    full = torch.zeros(len(weights(network))).index_copy(0, model.indices, step)
    expected = []
    for item in x:
        logits = network(item[None])[0]
        for logit in logits:
            gradient = torch.autograd.grad(logit, list(network.parameters()), retain_graph=True)
            expected.append((logit + nn.utils.parameters_to_vector(gradient) @ full).item())
    found = model.linearised(x, step).detach().flatten()
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_draws_have_the_mean_and_covariance_of_the_linearised_predictive():
    network = trained((4,))
    model = SubnetworkLaplace(network, subnetwork="last").fit(loader())
    x = data()[0][:2]
    with torch.no_grad():
        draws = model(x, 4000)
        units = torch.stack([model.linearised(x, column) for column in model.scale.T])
        center = network(x)
    moves = (units - center).flatten(1)
    covariance = moves.T @ moves
    std = covariance.diag().sqrt()
    error = (draws.mean(0) - center).flatten() / std
    assert error.abs().max() < 4 / 4000**0.5
    correlation = covariance / std.outer(std)
    sampled = draws.flatten(1).T.cov() / std.outer(std)
    torch.testing.assert_close(sampled, correlation, rtol=0, atol=0.1)


def test_is_less_sure_than_the_network_far_from_the_data():
    network = trained((16,))
    model = SubnetworkLaplace(network, size=60).fit(loader())
    x = data()[0]
    with torch.no_grad():
        near, far = (model(scale * x, 50).std(0).mean() for scale in (1, 8))
    assert far > 4 * near
    found = felbo.predict(model, 8 * x, seed=0, num_samples=50)
    assert found.confidence.mean() < felbo.predict(MAP(network), 8 * x).confidence.mean() - 0.1


def test_the_posterior_is_part_of_the_state():
    network = trained((4,))
    model = SubnetworkLaplace(network, size=7).fit(loader())
    again = SubnetworkLaplace(mlp(2, (4,), 3), size=7)
    again.load_state_dict(model.state_dict())
    x = data()[0][:5]
    expected, found = (felbo.predict(m, x, seed=3).probs for m in (model, again))
    assert torch.equal(found, expected)


def test_fit_leaves_network_flags_and_modes_alone():
    network = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3))
    network[0].weight.requires_grad_(False)
    kept = {name: value.clone() for name, value in network.state_dict().items()}
    model = SubnetworkLaplace(network, subnetwork="last").fit(loader())
    model.train()
    model(data()[0])
    assert network.training
    assert not model.network[1].training
    assert [p.requires_grad for p in model.network.parameters()] == [False] + [True] * 5
    for name, value in model.network.state_dict().items():
        assert torch.equal(value, kept[name])


def test_a_residual_network_is_linearised_where_its_statistics_stand():
    torch.manual_seed(0)
    network = resnet18(10, width=2, channels=1)
    images, labels = torch.randn(24, 1, 8, 8), torch.arange(24) % 10
    network(images)  # running statistics that are not those of the start
    model = SubnetworkLaplace(network, size=40, evaluation_samples=4)
    model.fit(DataLoader(TensorDataset(images, labels), batch_size=8))
    h = gauss_newton(network.eval(), images, model.indices)
    precision = h + model.prior_precision.double() * torch.eye(40, dtype=torch.float64)
    covariance = (model.scale @ model.scale.T).double()
    torch.testing.assert_close(covariance @ precision, torch.eye(40).double(), rtol=0, atol=5e-3)
    draws = model(images, 400).detach()
    spread = (draws.mean(0) - network(images)).abs() / draws.std(0)
    assert spread.max() < 5 / 400**0.5


def test_the_posterior_does_not_depend_on_the_layout_of_images_in_memory():
    torch.manual_seed(0)
    network = resnet18(10, width=2)
    images, labels = torch.randn(12, 3, 8, 8), torch.arange(12) % 10
    network(images)
    scales = []
    for layout in (torch.contiguous_format, torch.channels_last):
        model = SubnetworkLaplace(network.to(memory_format=layout), size=40)
        items = TensorDataset(images.contiguous(memory_format=layout), labels)
        scales.append(model.fit(DataLoader(items, batch_size=8)).scale)
    torch.testing.assert_close(scales[0], scales[1], rtol=1e-3, atol=1e-5)


def test_jacobians_are_those_of_single_items_whatever_the_block(monkeypatch):
    network, x = trained((4,)), data()[0][:7]
    chosen = torch.tensor([0, 5, 9, 20])
    rows = [
        torch.cat([g.reshape(3, -1) for g in jacobian], dim=1)[:, chosen]
        for item in x
        for jacobian in [
            torch.autograd.functional.jacobian(
                lambda *w, item=item: nn.functional.linear(
                    nn.functional.relu(nn.functional.linear(item, w[0], w[1])), w[2], w[3]
                ),
                tuple(network.parameters()),
            )
        ]
    ]
    for block in (1, 2**21):
        monkeypatch.setattr(_laplace_torch, "BLOCK", block)
        found, logits = _laplace_torch.item_jacobians(network, x, chosen)
        torch.testing.assert_close(found, torch.stack(rows))
        torch.testing.assert_close(logits, network(x))


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "laplace", None)
    with pytest.raises(ImportError, match="laplace-torch package, and 'laplace' is missing"):
        SubnetworkLaplace(mlp(2, (), 3)).fit(loader())


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "laplace", None)
    with pytest.raises(ImportError, match=r"pip install felbo\[laplace\]"):
        SubnetworkLaplace(mlp(2, (), 3)).fit(loader())


def test_batches_that_are_dicts_give_the_posterior_of_pairs():
    network, (x, y) = mlp(2, (4,), 3), data()

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, points):
            return self.network(points)

    items = [{"points": point, "labels": label} for point, label in zip(x, y, strict=True)]
    named = SubnetworkLaplace(Named(), size=5).fit(DataLoader(items, batch_size=16))
    torch.testing.assert_close(named.scale, SubnetworkLaplace(network, size=5).fit(loader()).scale)


def test_refuses_wrong_settings_and_an_unfitted_prediction():
    network = mlp(2, (), 3)
    with pytest.raises(ValueError, match="'last' or 'largest', got 'first'"):
        SubnetworkLaplace(network, subnetwork="first")
    with pytest.raises(ValueError, match="size must be a whole number of at least 1, got 0"):
        SubnetworkLaplace(network, size=0)
    with pytest.raises(ValueError, match="evaluation_samples must be a whole number of at least 1"):
        SubnetworkLaplace(network, evaluation_samples=0)
    with pytest.raises(RuntimeError, match=r"call model\.fit\(loader\) first"):
        felbo.predict(SubnetworkLaplace(network), torch.zeros(1, 2))
