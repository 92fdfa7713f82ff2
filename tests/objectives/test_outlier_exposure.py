import pytest
import torch

import felbo
from felbo.measurement import Augmented, Batch


@pytest.fixture
def problem():
    torch.manual_seed(0)
    model = felbo.MAP(felbo.networks.mlp(2, (8,), 4)).double()
    return model, torch.randn(6, 2, dtype=torch.float64), torch.arange(6) % 4


def far(x):
    return 3.0 * x


def test_value(problem):
    model, x, y = problem
    loss = felbo.OutlierExposure(far, weight=0.7)(model, x, y)
    nll = torch.nn.functional.cross_entropy(model(x)[0], y)
    away = -model(far(x)).softmax(-1).log().mean()
    torch.testing.assert_close(loss.nll, nll)
    torch.testing.assert_close(loss.kl, away)
    torch.testing.assert_close(loss.total, nll + 0.7 * away)


def test_for_one_draw_the_uniform_prior_has_k_times_its_gradient(problem):
    model, x, y = problem
    options = {"measurement": Augmented(far), "smoothing": 1e-9}
    bound = felbo.FunctionSpaceELBO(felbo.UniformPrior(4), 100, kl_weight=0.1, **options)
    exposure = felbo.OutlierExposure(far, weight=4 * 0.1)
    ours, theirs = (
        torch.autograd.grad(objective(model, x, y).total, list(model.parameters()))
        for objective in (bound, exposure)
    )
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


def test_draws_share_one_pass_with_the_batch():
    torch.manual_seed(0)
    model = felbo.Ensemble(lambda: felbo.networks.mlp(2, (8,), 3), members=3)
    x, y = torch.randn(5, 2), torch.arange(5) % 3
    loss = felbo.OutlierExposure(far)(model, x, y)
    torch.testing.assert_close(loss.kl, -model(far(x)).float().log_softmax(-1).mean())


def test_number_of_draws():
    network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(0.5), torch.nn.ReLU())
    model = felbo.MCDropout(torch.nn.Sequential(network, torch.nn.Linear(8, 3)))
    x, y = torch.randn(5, 2), torch.arange(5) % 3
    torch.manual_seed(0)
    loss = felbo.OutlierExposure(far, num_samples=4)(model, x, y)
    torch.manual_seed(0)
    logits = model(torch.cat([x, far(x)]), 4).float()
    batch, away = logits.log_softmax(-1).split(5, dim=1)
    torch.testing.assert_close(loss.kl, -away.mean())
    torch.testing.assert_close(loss.nll, -batch[:, range(5), y].mean())


def test_half_precision_is_summed_in_float32():
    torch.manual_seed(0)
    model = felbo.MAP(felbo.networks.mlp(2, (8,), 3))
    x, y = torch.randn(500, 2), torch.arange(500) % 3
    with torch.autocast("cpu", torch.bfloat16):
        loss, logits = felbo.OutlierExposure(far)(model, x, y), model(far(x))
    assert logits.dtype == torch.bfloat16
    torch.testing.assert_close(loss.kl, -logits.double().log_softmax(-1).mean().float())


def test_the_batch_itself_is_refused():
    with pytest.raises(ValueError, match=r"must not include the batch, got Batch.*Elsewhere"):
        felbo.OutlierExposure(Batch())
    with pytest.raises(ValueError, match="weight"):
        felbo.OutlierExposure(far, weight=-1.0)
