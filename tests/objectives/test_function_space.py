import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from torch import nn
from torch.distributions import Dirichlet

from felbo import (
    MAP,
    ClassifierPrior,
    DirichletPrior,
    Ensemble,
    FunctionSpaceELBO,
    MCDropout,
    StochasticClassifier,
    UniformPrior,
)
from felbo.measurement import Augmented, Batch, Grid, Mixture
from felbo.networks import mlp


class FreeLogits(StochasticClassifier):
    """Logits ``[M, B, K]`` that are parameters themselves, whatever the input."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(logits.double())

    def forward(self, x, num_samples=None):
        return self.logits


class Recording(nn.Module):
    """A network that keeps every batch it was called with."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.seen = []

    def forward(self, x):
        self.seen.append(x)
        return self.network(x)


def smoothed(logits, smoothing=1e-4):
    return (1 - smoothing) * logits.softmax(-1) + smoothing / logits.shape[-1]


def points(size):
    return torch.zeros(size, 1, dtype=torch.float64)


def kl_of(objective, logits):
    return objective.kl(logits, points(logits.shape[1]))


def gradient_of(objective, logits):
    logits = logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(kl_of(objective, logits), logits)
    return gradient


def fitted_by_scipy(probs, num_data):
    """Concentration of one item's draws ``[M, K]`` by scalar maximisation of the likelihood."""
    mean, mean_log = probs.mean(0), np.log(probs).mean(0)

    def loss(log_z):
        a = np.exp(log_z) * mean
        return -(gammaln(a.sum()) - gammaln(a).sum() + ((a - 1) * mean_log).sum())

    bounds = (np.log(probs.shape[1]), np.log(num_data))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-12})
    best = min([found.x, *bounds], key=loss)
    return np.exp(best) * mean


def transcribed_kl(logits, beta, num_data):
    """The definition: a mean over draws and points of a difference of log-densities."""
    probs = smoothed(logits)
    terms = []
    for s in range(probs.shape[1]):
        alpha = torch.as_tensor(fitted_by_scipy(probs[:, s].numpy(), num_data))
        posterior, prior = Dirichlet(alpha), Dirichlet(beta.expand(probs.shape[1:])[s])
        terms += [posterior.log_prob(f) - prior.log_prob(f) for f in probs[:, s]]
    return torch.stack(terms).mean()


def correlated_logits(draws=5, size=6, classes=4):
    shared = torch.randn(1, size, classes, dtype=torch.float64) * 2
    spread = torch.linspace(0.05, 2.0, size, dtype=torch.float64)[:, None]
    return shared + spread * torch.randn(draws, size, classes, dtype=torch.float64)


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


@pytest.mark.parametrize(
    "beta",
    [
        torch.ones(4),
        torch.tensor([0.1, 0.5, 1.0, 5.0]),
        torch.rand(6, 4, generator=torch.Generator().manual_seed(1)) * 9 + 0.1,
    ],
)
def test_kl_is_the_mean_difference_of_log_densities(beta):
    logits, beta = correlated_logits(), beta.double()
    objective = FunctionSpaceELBO(lambda x: Dirichlet(beta), num_data=50)
    # The fit is good to 1e-6 in z, and the KL is flat there.
    expected = transcribed_kl(logits, beta, num_data=50)
    torch.testing.assert_close(kl_of(objective, logits), expected, rtol=0, atol=1e-6)


def test_precision_ends_at_the_number_of_data_and_of_classes():
    """Draws that agree have z = N, draws at different corners z = K."""
    agreeing = torch.randn(1, 1, 4, dtype=torch.float64).expand(3, 1, 4)
    corners = 20 * torch.eye(4, dtype=torch.float64)[:, None]
    for logits, precision in ((agreeing, 200.0), (corners, 4.0)):
        probs = smoothed(logits)
        alpha = precision * probs.mean(0)
        ratio = Dirichlet(alpha).log_prob(probs) - Dirichlet(torch.ones(4)).log_prob(probs)
        found = kl_of(FunctionSpaceELBO(UniformPrior(4), num_data=200), logits)
        torch.testing.assert_close(found, ratio.mean())


def test_more_classes_than_data_keep_the_precision_at_the_number_of_classes():
    logits = torch.randn(1, 2, 9, dtype=torch.float64)
    few, many = (FunctionSpaceELBO(UniformPrior(9), num_data=n) for n in (3, 9))
    torch.testing.assert_close(kl_of(few, logits), kl_of(many, logits))
    repeated = logits.expand(2, 2, 9)
    torch.testing.assert_close(kl_of(few, repeated), kl_of(many, repeated))


@pytest.mark.parametrize("draws", [1, 5])
def test_float32_agrees_with_float64_for_many_data(draws):
    logits = 3 * torch.randn(1, 60, 10) + 0.01 * torch.randn(draws, 60, 10)
    objective = FunctionSpaceELBO(UniformPrior(10), num_data=60_000)
    items = logits.split(1, dim=1)
    found = torch.stack([kl_of(objective, item) for item in items])
    exact = torch.stack([kl_of(objective, item.double()) for item in items])
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=0.03)


@pytest.mark.parametrize("draws", [1, 5])
def test_autocast_does_not_reach_the_kl(draws):
    logits = 3 * torch.randn(1, 20, 10) + 0.03 * torch.randn(draws, 20, 10)
    objective = FunctionSpaceELBO(UniformPrior(10), num_data=60_000)
    expected = kl_of(objective, logits)
    with torch.autocast("cpu", torch.bfloat16):
        found = kl_of(objective, logits)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.01)


def test_total_is_the_nll_plus_the_weighted_kl():
    logits, y = correlated_logits(), torch.tensor([0, 1, 2, 3, 0, 1])
    model = FreeLogits(logits)
    nll = -logits.log_softmax(-1)[:, torch.arange(6), y].mean()
    for kl_weight, weight in (("batch", 1 / 6), (0.25, 0.25), (0, 0.0), (1, 1.0)):
        objective = FunctionSpaceELBO(UniformPrior(4), 50, kl_weight=kl_weight)
        loss = objective(model, points(6), y)
        kl = transcribed_kl(logits, torch.ones(4).double(), 50)
        torch.testing.assert_close(loss.nll, nll)
        torch.testing.assert_close(loss.kl, kl, rtol=0, atol=1e-6)
        torch.testing.assert_close(loss.total.detach(), nll + weight * kl, rtol=0, atol=1e-6)


# --- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("num_data", [10, 60_000])
def test_gradient_for_one_draw_is_that_of_minus_the_sum_of_logs(num_data):
    logits = 2 * torch.randn(1, 8, 5, dtype=torch.float64)
    free = logits.clone().requires_grad_()
    (-smoothed(free).log().sum(-1).mean()).backward()
    found = gradient_of(FunctionSpaceELBO(UniformPrior(5), num_data), logits)
    torch.testing.assert_close(found, free.grad, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("classes", "weight"), [(2, 1.0), (10, 1 / 256), (10, 1.0), (4, 0.3)])
def test_best_constant_prediction(classes, weight):
    """The minimum of −log f_y − w Σ log f_k on the simplex: f_y = (1 + w) / (1 + K w)."""
    model = FreeLogits(torch.zeros(1, 1, classes))
    objective = FunctionSpaceELBO(UniformPrior(classes), 1000, kl_weight=weight, smoothing=0.0)
    y = torch.tensor([1])
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=0.5, max_iter=500, tolerance_grad=1e-10, tolerance_change=1e-14
    )

    def closure():
        optimizer.zero_grad()
        # The partial derivative is no gradient of the value; this surrogate has its gradient.
        loss = objective(model, points(1), y).total
        loss.backward()
        log_probs = model.logits.detach().log_softmax(-1)
        return -log_probs[0, 0, 1] - weight * log_probs.sum()

    optimizer.step(closure)
    best = model.logits.detach().softmax(-1)[0, 0, 1].item()
    assert best == pytest.approx((1 + weight) / (1 + classes * weight), abs=1e-5)


@pytest.mark.parametrize("draws", [1, 2, 5])
def test_partial_gradient_holds_the_concentration_constant(draws):
    logits = correlated_logits(draws)
    beta = torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=torch.float64)
    num_data = 50
    free = logits.clone().requires_grad_()
    probs = smoothed(free)
    alphas = [fitted_by_scipy(probs[:, s].detach().numpy(), num_data) for s in range(6)]
    alpha = torch.as_tensor(np.stack(alphas))
    posterior, prior = Dirichlet(alpha, validate_args=False), Dirichlet(beta, validate_args=False)
    (posterior.log_prob(probs) - prior.log_prob(probs)).mean().backward()
    found = gradient_of(FunctionSpaceELBO(DirichletPrior(beta), num_data), logits)
    torch.testing.assert_close(found, free.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("draws", [1, 2, 5])
def test_total_gradient_agrees_with_finite_differences(draws):
    logits, step = correlated_logits(draws, size=3), 1e-4
    logits[:, 2] = logits[:1, 2]  # draws that agree: an end of the bracket
    beta = torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=torch.float64)
    total = FunctionSpaceELBO(DirichletPrior(beta), 50, gradient="total")
    found = gradient_of(total, logits).flatten()
    differences = []
    for direction in torch.eye(logits.numel(), dtype=torch.float64):
        nudge = step * direction.view_as(logits)
        up, down = (transcribed_kl(logits + sign * nudge, beta, 50) for sign in (1, -1))
        differences.append((up - down) / (2 * step))
    torch.testing.assert_close(found, torch.stack(differences), rtol=1e-3, atol=1e-5)
    partial = FunctionSpaceELBO(DirichletPrior(beta), 50)
    assert not torch.allclose(found, gradient_of(partial, logits).flatten(), rtol=1e-2)


@pytest.mark.parametrize("gradient", ["partial", "total"])
@pytest.mark.parametrize("draws", [1, 4])
def test_gradients_are_finite_for_saturated_draws(draws, gradient):
    logits = (200 * torch.randn(draws, 6, 5)).requires_grad_()
    objective = FunctionSpaceELBO(UniformPrior(5), 100, gradient=gradient)
    objective.kl(logits, points(6)).backward()
    assert logits.grad.isfinite().all()


def test_a_prior_may_differentiate_on_its_way():
    inputs, logits = torch.randn(6, 2, dtype=torch.float64), correlated_logits()

    def prior(x):
        with torch.enable_grad():
            free = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(free.pow(3).sum(), free)
        return Dirichlet(1 + slope.sum(-1, keepdim=True).expand(-1, 4))

    expected = transcribed_kl(logits, 1 + 3 * inputs.square().sum(-1, keepdim=True), num_data=50)
    found = FunctionSpaceELBO(prior, num_data=50).kl(logits, inputs)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_a_prior_with_parameters_is_a_constant_here():
    beta = torch.full((4,), 2.0, dtype=torch.float64, requires_grad=True)
    logits = correlated_logits().requires_grad_()
    FunctionSpaceELBO(lambda x: Dirichlet(beta), 50).kl(logits, points(6)).backward()
    assert beta.grad is None
    assert logits.grad.abs().sum() > 0


# --- invariances --------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), draws=st.integers(1, 4), shift=st.floats(-50, 50))
def test_a_shift_of_the_logits_changes_nothing(seed, draws, shift):
    torch.manual_seed(seed)
    logits = correlated_logits(draws, size=3)
    objective = FunctionSpaceELBO(DirichletPrior([0.5, 1.0, 2.0, 3.0]), 50)
    found = kl_of(objective, logits + shift)
    torch.testing.assert_close(found, kl_of(objective, logits), rtol=1e-7, atol=1e-7)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), draws=st.integers(1, 4), order=st.permutations(range(4)))
def test_classes_may_be_renamed_and_draws_reordered(seed, draws, order):
    torch.manual_seed(seed)
    logits, beta = correlated_logits(draws, size=3), torch.rand(4, dtype=torch.float64) + 0.1
    plain = FunctionSpaceELBO(DirichletPrior(beta), 50)
    renamed = FunctionSpaceELBO(DirichletPrior(beta[order]), 50)
    moved = logits[:, :, order]
    torch.testing.assert_close(kl_of(renamed, moved), kl_of(plain, logits))
    gradient = gradient_of(plain, logits)
    torch.testing.assert_close(gradient_of(renamed, moved), gradient[:, :, order])
    torch.testing.assert_close(gradient_of(plain, logits.flip(0)), gradient.flip(0))


# --- measurement sets ---------------------------------------------------------------------------


def setting(size=6):
    network = Recording(mlp(2, (7,), 3).double())
    model = MAP(network)
    x = torch.randn(size, 2, dtype=torch.float64)
    return model, model.network.seen, x, torch.arange(size) % 3


@pytest.mark.parametrize(
    ("measurement", "measured"),
    [
        (None, lambda x: x),
        (Batch(), lambda x: x),
        (Mixture(Batch()), lambda x: x),
        (Augmented(lambda x: -2 * x), lambda x: -2 * x),
        (Mixture(Batch(), Augmented(lambda x: -2 * x)), lambda x: torch.cat([x, -2 * x])),
        (Mixture(lambda x: 3 * x, Batch()), lambda x: torch.cat([x, 3 * x])),
    ],
)
def test_kl_over_the_measurement_set_in_one_forward_pass(measurement, measured):
    model, seen, x, y = setting()
    objective = FunctionSpaceELBO(DirichletPrior([0.5, 1.0, 2.0]), 50, measurement)
    loss = objective(model, x, y)
    assert len(seen) == 1
    log_probs = model(x).log_softmax(-1)
    torch.testing.assert_close(loss.nll, -log_probs[0, torch.arange(6), y].mean())
    expected = transcribed_kl(
        model(measured(x)).detach(), torch.tensor([0.5, 1.0, 2.0]).double(), 50
    )
    torch.testing.assert_close(loss.kl, expected, rtol=0, atol=1e-6)


def test_the_weight_of_the_batch_does_not_depend_on_the_measurement_set():
    model, _, x, y = setting()
    loss = FunctionSpaceELBO(UniformPrior(3), 50, Mixture(Batch(), torch.neg))(model, x, y)
    torch.testing.assert_close(loss.total.detach(), loss.nll + loss.kl / 6)


def test_the_prior_is_asked_at_the_measurement_points():
    model, _, x, y = setting()
    asked = []

    def prior(points):
        asked.append(points)
        return Dirichlet(torch.ones(3))

    FunctionSpaceELBO(prior, 50, Mixture(Batch(), torch.neg))(model, x, y)
    torch.testing.assert_close(asked[0], torch.cat([x, -x]))


def test_a_classifier_prior_is_asked_once_for_a_grid():
    class Estimator:
        calls = 0

        def predict_proba(self, features):
            self.calls += 1
            return np.full((len(features), 3), 1 / 3)

    model, _, x, y = setting()
    estimator = Estimator()
    grid = Grid([(0.0, 1.0)] * 2, step=0.25)
    objective = FunctionSpaceELBO(ClassifierPrior(estimator), 50, grid)
    for _ in range(3):
        objective(model, x, y)
    assert estimator.calls == 1


@pytest.mark.parametrize("draws", [1, 4])
def test_what_is_kept_of_the_prior_follows_its_changes(draws):
    logits = torch.randn(draws, 3, 5, dtype=torch.float64)
    prior = DirichletPrior(torch.full((5,), 2.0))
    objective = FunctionSpaceELBO(prior, num_data=100)
    kl_of(objective, logits)
    objective.num_data = 50
    prior.concentration.mul_(3.0)
    fresh = FunctionSpaceELBO(DirichletPrior(torch.full((5,), 6.0)), num_data=50)
    torch.testing.assert_close(kl_of(objective, logits), kl_of(fresh, logits))
    assert kl_of(objective, logits[:, :2]).isfinite()


def test_what_is_kept_of_the_prior_follows_the_smoothing():
    logits = 20.0 * torch.randn(1, 50, 10)
    objective = FunctionSpaceELBO(UniformPrior(10), num_data=60_000)
    kl_of(objective, logits)
    objective.smoothing = 1e-7
    fresh = FunctionSpaceELBO(UniformPrior(10), num_data=60_000, smoothing=1e-7)
    assert torch.equal(kl_of(objective, logits), kl_of(fresh, logits))


def test_both_terms_see_the_same_draw():
    """One mask per draw: where the points are the batch, nll and kl come from the same logits."""
    model = MCDropout(mlp(2, (20,), 3).double(), rate=0.5, mask="draw")
    x, y = torch.randn(5, 2, dtype=torch.float64), torch.zeros(5, dtype=torch.int64)
    torch.manual_seed(3)
    logits = model(x, 4).detach()
    torch.manual_seed(3)
    objective = FunctionSpaceELBO(UniformPrior(3), 50, Augmented(torch.clone), num_samples=4)
    loss = objective(model, x, y)
    torch.testing.assert_close(loss.nll, -logits.log_softmax(-1)[:, :, 0].mean())
    torch.testing.assert_close(loss.kl, kl_of(objective, logits))


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "labels", "error", "message"),
    [
        (UniformPrior(4), [0, 1], ValueError, "prior has 4 classes and the model 3"),
        (lambda x: Dirichlet(torch.ones(9, 3)), [0, 1], ValueError, r"got \[9\]"),
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_data": 0}, "number of training examples, got 0"),
        ({"kl_weight": "mean"}, "'batch' or a number ≥ 0, got 'mean'"),
        ({"kl_weight": -1.0}, "got -1.0"),
        ({"kl_weight": float("nan")}, "got nan"),
        ({"gradient": "implicit"}, "'partial' or 'total', got 'implicit'"),
        ({"smoothing": 1.0}, r"\[0, 1\), got 1.0"),
    ],
)
def test_impossible_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FunctionSpaceELBO(UniformPrior(3), **{"num_data": 10, **options})
