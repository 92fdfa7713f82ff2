"""The weight-space ELBO: its value term by term, and its optimum in a solvable model."""

import pytest
import torch
from torch import nn

from felbo.models import MAP, MeanField
from felbo.networks import mlp
from felbo.objectives import NegativeLogLikelihood, WeightSpaceELBO

X = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 2, 1, 1, 0, 2])


def test_value_is_mean_nll_plus_divergence_per_example():
    torch.manual_seed(1)
    model = MeanField(mlp(2, (4,), 3))
    torch.manual_seed(2)
    loss = WeightSpaceELBO(50, temperature=0.3, num_samples=5)(model, X, Y)
    torch.manual_seed(2)
    log_f = model(X, 5).log_softmax(-1)
    nll = -sum(log_f[m, i, Y[i]] for m in range(5) for i in range(6)) / 30
    torch.testing.assert_close(loss.nll, nll.detach())
    torch.testing.assert_close(loss.kl, model.weight_kl().detach() / 50)
    torch.testing.assert_close(loss.total, nll + 0.3 * model.weight_kl() / 50)


def test_without_settings_it_is_the_negative_elbo_per_example():
    model = MeanField(mlp(2, (4,), 3))
    loss = WeightSpaceELBO(50)(model, X, Y)
    torch.testing.assert_close(50 * loss.total, 50 * loss.nll + model.weight_kl())


def test_draws_follow_the_mode_of_the_model():
    model = MeanField(mlp(2, (4,), 3), evaluation_samples=7)
    seen = []
    model.register_forward_hook(lambda _m, _i, out: seen.append(len(out)))
    WeightSpaceELBO(6)(model.train(), X, Y)
    WeightSpaceELBO(6)(model.eval(), X, Y)
    assert seen == [1, 7]


def test_a_point_model_has_no_divergence():
    model = MAP(mlp(2, (4,), 3))
    loss, plain = WeightSpaceELBO(6)(model, X, Y), NegativeLogLikelihood()(model, X, Y)
    assert loss.kl == 0
    assert loss.total.item() == plain.total.item()


def test_without_evidence_the_optimum_is_the_prior():
    # Inputs of zero and no bias: the likelihood does not depend on the weights at all.
    torch.manual_seed(3)
    model = MeanField(nn.Linear(2, 3, bias=False), rho=0.0, prior_std=0.4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    objective = WeightSpaceELBO(1)
    for _ in range(400):
        optimizer.zero_grad()
        objective(model, torch.zeros(6, 2), Y).total.backward()
        optimizer.step()
    (layer,) = model.layer_posteriors()
    torch.testing.assert_close(layer.mean[0], torch.zeros(3, 2), atol=1e-3, rtol=0)
    torch.testing.assert_close(layer.scale[0], torch.full((3, 2), 0.4), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"num_data": 0}, "number of training examples, must be a number ≥ 1, got 0"),
        ({"num_data": float("nan")}, "got nan"),
        ({"num_data": 5, "temperature": -1.0}, "temperature must be finite"),
        ({"num_data": 5, "temperature": float("nan")}, "temperature must be finite"),
    ],
)
def test_bad_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        WeightSpaceELBO(**setting)


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="one label per input"):
        WeightSpaceELBO(6)(MAP(mlp(2, (4,), 3)), X, Y[:5])


def test_wrapped_models():
    model = MeanField(mlp(4, (5,), 3))
    average = torch.optim.swa_utils.AveragedModel(model)
    loss = WeightSpaceELBO(100)(average, torch.zeros(2, 4), torch.tensor([0, 1]))
    torch.testing.assert_close(loss.kl, model.weight_kl() / 100)
