"""The function-space bound: values, gradients, invariances, refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln
from torch.distributions import Dirichlet

from felbo import DirichletPrior, Ensemble, FunctionSpaceELBO, UniformPrior
from felbo.networks import mlp

from .. import oracle
from .free import FreeLogits, correlated, inputs

BETA = torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=torch.float64)
IMPLEMENTATIONS = ["plain", "fused"]
pytestmark = pytest.mark.filterwarnings("ignore:kl_weight")


def kl_of(objective, logits):
    return objective.divergence(logits, inputs(logits.shape[1]))


def gradient_of(objective, logits):
    logits = logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(kl_of(objective, logits).sum(), logits)
    return gradient


# --- values -------------------------------------------------------------------------------------


def test_value_for_one_draw_that_the_paper_reports():
    """K = 2, N = 1000 and f = (2/3, 1/3): about 3.29; by hand with lgamma."""
    f = np.array([2 / 3, 1 / 3])
    alpha = 1000 * f
    by_hand = gammaln(1000) - gammaln(alpha).sum() + ((alpha - 1) * np.log(f)).sum()
    objective = FunctionSpaceELBO(UniformPrior(2), num_data=1000, smoothing=0.0)
    found = kl_of(objective, torch.as_tensor(f).log()[None, None])
    assert found.item() == pytest.approx(by_hand, abs=1e-9)
    assert found.item() == pytest.approx(3.29, abs=0.01)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("draws", [1, 2, 5])
@pytest.mark.parametrize("beta", [torch.ones(4), BETA, torch.linspace(0.1, 9.0, 24).view(6, 4)])
def test_value_and_partial_gradient_are_those_of_the_definition(beta, draws, implementation):
    logits = correlated(draws)
    objective = FunctionSpaceELBO(
        lambda x: Dirichlet(beta), num_data=50, implementation=implementation
    )
    value, gradient = oracle.kl(logits, beta, 50)
    torch.testing.assert_close(kl_of(objective, logits), value, rtol=0, atol=1e-6)
    # What is left of the fit's error: 1e-6 in z, and 3e-5 in the fused form.
    tolerance = 1e-5 if implementation == "plain" else 1e-3
    found = gradient_of(objective, logits)
    torch.testing.assert_close(found, gradient, rtol=tolerance, atol=1e-2 * tolerance)


def test_more_classes_than_data_keep_the_precision_at_the_number_of_classes():
    few, many = (FunctionSpaceELBO(UniformPrior(9), num_data=n) for n in (3, 9))
    for draws in (1, 2):
        logits = torch.randn(1, 2, 9).expand(draws, 2, 9)
        torch.testing.assert_close(kl_of(few, logits), kl_of(many, logits))


def test_total_is_the_nll_plus_the_weighted_kl():
    logits, y = correlated(), torch.tensor([0, 1, 2, 3, 0, 1])
    nll, kl = -logits.log_softmax(-1)[:, torch.arange(6), y].mean(), oracle.kl(logits, BETA, 50)[0]
    for kl_weight, weight in (("batch", 1 / 6), (0.25, 0.25), (0, 0.0), (np.float32(1), 1.0)):
        objective = FunctionSpaceELBO(DirichletPrior(BETA), 50, kl_weight=kl_weight)
        loss = objective(FreeLogits(logits), inputs(6), y)
        torch.testing.assert_close(loss.nll, nll)
        torch.testing.assert_close(loss.kl, kl.mean(), rtol=0, atol=1e-6)
        torch.testing.assert_close(loss.total, nll + weight * kl.mean(), rtol=0, atol=1e-6)


def test_auto_takes_the_fused_form_for_float32_and_the_plain_one_for_float64(monkeypatch):
    objective = FunctionSpaceELBO(UniformPrior(4), 10**6)
    monkeypatch.setattr("felbo.fused.function_space_kl", lambda logits, *_: logits.new_ones(6))
    fused, plain = (
        kl_of(objective, correlated(dtype=dtype)) for dtype in (torch.float32, torch.float64)
    )
    assert torch.equal(fused, torch.ones(6))
    assert plain.dtype == torch.float64
    assert (plain != 1).all()


def test_the_fused_form_refuses_the_total_gradient():
    fused = FunctionSpaceELBO(UniformPrior(4), 50, gradient="total", implementation="fused")
    with pytest.raises(ValueError, match="use implementation='plain'"):
        kl_of(fused, correlated())


def test_what_is_changed_counts_at_once():
    logits, prior = correlated(), DirichletPrior([2.0] * 4)
    objective = FunctionSpaceELBO(prior, num_data=np.int64(100))
    kl_of(objective, logits)
    objective.num_data, objective.smoothing = 50, 1e-2
    prior.concentration.mul_(3.0)
    fresh = FunctionSpaceELBO(DirichletPrior([6.0] * 4), num_data=50, smoothing=1e-2)
    assert torch.equal(kl_of(objective, logits), kl_of(fresh, logits))


# --- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("num_data", [10, 60_000])
def test_gradient_for_one_draw_is_that_of_minus_the_sum_of_logs(num_data, implementation):
    logits = 2 * torch.randn(1, 8, 5, dtype=torch.float64)
    free = logits.clone().requires_grad_()
    (-(0.9999 * free.softmax(-1) + 1e-4 / 5).log().sum()).backward()
    objective = FunctionSpaceELBO(UniformPrior(5), num_data, implementation=implementation)
    torch.testing.assert_close(gradient_of(objective, logits), free.grad, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("classes", "weight"), [(2, 1.0), (10, 1 / 256), (10, 1.0), (4, 0.3)])
def test_best_constant_prediction(classes, weight):
    """The minimum of −log f_y − w Σ log f_k on the simplex: f_y = (1 + w) / (1 + K w)."""
    model = FreeLogits(torch.zeros(1, 1, classes, dtype=torch.float64))
    objective = FunctionSpaceELBO(UniformPrior(classes), 1000, kl_weight=weight, smoothing=0.0)
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=0.5, max_iter=500, tolerance_grad=1e-10, tolerance_change=1e-14
    )

    def closure():
        optimizer.zero_grad()
        # The partial derivative is no gradient of the value; this surrogate has its gradient.
        objective(model, inputs(1), torch.tensor([1])).total.backward()
        log_probs = model.logits.detach().log_softmax(-1)
        return -log_probs[0, 0, 1] - weight * log_probs.sum()

    optimizer.step(closure)
    best = model.logits.detach().softmax(-1)[0, 0, 1].item()
    assert best == pytest.approx((1 + weight) / (1 + classes * weight), abs=1e-5)


@pytest.mark.parametrize("draws", [1, 2, 5])
def test_total_gradient_agrees_with_finite_differences(draws):
    logits, step = correlated(draws, size=3), 1e-4
    logits[:, 2] = logits[:1, 2]  # draws that agree: an end of the bracket
    gradient = gradient_of(FunctionSpaceELBO(DirichletPrior(BETA), 50, gradient="total"), logits)
    partial = gradient_of(FunctionSpaceELBO(DirichletPrior(BETA), 50), logits)
    for _ in range(4):
        direction = torch.randn_like(logits)
        up, down = (oracle.kl(logits + s * direction, BETA, 50)[0] for s in (step, -step))
        found, by_partial = ((g * direction).sum((0, 2)) for g in (gradient, partial))
        torch.testing.assert_close(found, (up - down) / (2 * step), rtol=1e-3, atol=1e-5)
        assert not torch.allclose(found, by_partial, rtol=1e-2)


@pytest.mark.parametrize("draws", [1, 3])
def test_second_derivatives_of_the_total_bound(draws):
    logits = correlated(draws, size=2, classes=3).requires_grad_()
    total = FunctionSpaceELBO(UniformPrior(3), 50, gradient="total")
    assert torch.autograd.gradgradcheck(
        lambda l: kl_of(total, l), (logits,), eps=1e-5, atol=1e-4, rtol=1e-3
    )


@pytest.mark.parametrize("draws", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_three_terms_carry_their_gradients(draws, dtype):
    model, y = FreeLogits(correlated(draws, dtype=dtype)), torch.tensor([0, 1, 2, 3, 0, 1])
    loss = FunctionSpaceELBO(DirichletPrior(BETA), 50, kl_weight=0.1)(model, inputs(6), y)
    assert {part.dtype for part in loss} == {dtype}
    total, nll, kl = (
        torch.autograd.grad(part, model.logits, retain_graph=True)[0] for part in loss
    )
    assert kl.abs().sum() > 0
    torch.testing.assert_close(total, nll + 0.1 * kl)


@pytest.mark.parametrize("gradient", ["partial", "total"])
@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize("smoothing", [0.0, 1e-4])
@pytest.mark.parametrize("gap", [104.0, 300.0, 1e3, 1e4])
def test_saturated_draws_have_finite_losses_and_gradients(draws, gradient, smoothing, gap):
    for kl_weight in (0, 0.1):
        model = FreeLogits(gap * (2 * torch.rand(draws, 6, 5) - 1).sign())
        options = {"kl_weight": kl_weight, "gradient": gradient, "smoothing": smoothing}
        objective = FunctionSpaceELBO(DirichletPrior([0.5, 1.0, 2.0, 1.0, 1.0]), 100, **options)
        loss = objective(model, inputs(6), torch.arange(6) % 5)
        loss.total.backward()
        assert all(part.isfinite() for part in loss)
        assert model.logits.grad.isfinite().all()


@pytest.mark.parametrize("gap", [104.0, 200.0, 230.0])
def test_without_smoothing_one_draw_is_exact_where_float32_underflows(gap):
    logits, beta = torch.tensor([[[gap, 0.0, 1.0]]]), torch.tensor([0.5, 2.0, 1.0])
    objective = FunctionSpaceELBO(DirichletPrior(beta), 1000, smoothing=0.0)
    value, gradient = oracle.kl(logits, beta, 1000.0, smoothing=0.0)
    torch.testing.assert_close(kl_of(objective, logits), value.float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(gradient_of(objective, logits).double(), gradient)


def test_a_prior_is_a_constant_and_may_differentiate_on_its_way():
    x, logits = torch.randn(6, 2, dtype=torch.float64), correlated().requires_grad_()
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)

    def prior(x):
        with torch.enable_grad():
            free = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(free.pow(3).sum(), free)
        return Dirichlet(scale + slope.sum(-1, keepdim=True).expand(-1, 4))

    found = FunctionSpaceELBO(prior, num_data=50).divergence(logits, x)
    beta = (2 + 3 * x.square().sum(-1, keepdim=True)).expand(-1, 4)
    torch.testing.assert_close(found, oracle.kl(logits, beta, 50)[0], rtol=0, atol=1e-6)
    found.sum().backward()
    assert scale.grad is None
    assert logits.grad.abs().sum() > 0


# --- invariances --------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000), st.integers(1, 4), st.floats(-50, 50), st.permutations(range(4)),
    st.sampled_from(IMPLEMENTATIONS),
)  # fmt: skip
def test_logits_may_be_shifted_classes_renamed_and_draws_reordered(
    seed, draws, shift, order, implementation
):
    torch.manual_seed(seed)
    logits, beta = correlated(draws, size=3), torch.rand(4, dtype=torch.float64) + 0.1
    plain, renamed = (
        FunctionSpaceELBO(DirichletPrior(b), 50, implementation=implementation)
        for b in (beta, beta[order])
    )
    value, gradient = kl_of(plain, logits), gradient_of(plain, logits)
    torch.testing.assert_close(kl_of(plain, logits + shift), value, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(kl_of(renamed, logits[:, :, order]), value)
    found = gradient_of(renamed, logits[:, :, order])
    torch.testing.assert_close(found, gradient[:, :, order])
    torch.testing.assert_close(gradient_of(plain, logits.flip(0)), gradient.flip(0))


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "labels", "error", "message"),
    [
        (UniformPrior(4), [0, 1], ValueError, "prior has 4 classes and the model 3"),
        (lambda x: Dirichlet(torch.ones(9, 3)), [0, 1], ValueError, r"got \[9\]"),
        (lambda x: _unchecked([1.0, 0.0, 1.0]), [0, 1], ValueError, "from 0.0 to 1.0"),
        (lambda x: _unchecked([1.0, -2.0, 1.0]), [0, 1], ValueError, "positive and finite"),
        (lambda x: _unchecked([1.0, torch.nan, 1.0]), [0, 1], ValueError, "from nan to nan"),
        (lambda x: _unchecked([1.0, torch.inf, 1.0]), [0, 1], ValueError, "to inf"),
        (UniformPrior(3), [0, 3], ValueError, "0 … 2"),
        (UniformPrior(3), [0, 1, 2], ValueError, r"shape \[2\], got \[3\]"),
        (UniformPrior(3), [0.0, 1.0], TypeError, "integer class indices"),
    ],
)
@pytest.mark.parametrize("members", [1, 2])
def test_misfits_are_refused_before_anything_changes(prior, labels, error, message, members):
    model = Ensemble(lambda: mlp(2, (5,), 3), members=members)
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(error, match=message):
        FunctionSpaceELBO(prior, 50)(model, torch.zeros(2, 2), torch.tensor(labels))
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, old)
        assert parameter.grad is None


def _unchecked(concentration):
    return Dirichlet(torch.tensor(concentration), validate_args=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_data": 0}, "number of training examples, must be a number ≥ 1, got 0"),
        ({"num_data": "many"}, "got 'many'"),
        ({"num_data": float("nan")}, "got nan"),
        ({"num_data": float("inf")}, "got inf"),
        ({"kl_weight": "mean"}, "'batch' or a number; .* got 'mean'"),
        ({"kl_weight": -1.0}, "got -1.0"),
        ({"kl_weight": float("nan")}, "got nan"),
        ({"kl_weight": float("inf")}, "got inf"),
        ({"gradient": "implicit"}, "'partial', 'total'; got 'implicit'"),
        ({"implementation": "fast"}, "'auto', 'plain', 'fused'; got 'fast'"),
        ({"smoothing": 1.0}, r"\[0, 1\), got 1.0"),
        ({"smoothing": float("nan")}, "got nan"),
        ({"batch_size": 0}, "batch_size must be a number ≥ 1, got 0"),
    ],
)
def test_impossible_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FunctionSpaceELBO(UniformPrior(3), **{"num_data": 10, **options})
