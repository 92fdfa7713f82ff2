"""Where posterior and prior are compared: one measurement set, or several terms."""

import pytest
import torch
from torch import nn
from torch.distributions import Dirichlet

from felbo import MAP, DirichletPrior, FunctionSpaceELBO, Term, UniformPrior
from felbo.measurement import Augmented, Batch, MeasurementSet, Mixture
from felbo.networks import mlp

from .. import oracle

BETA = torch.tensor([0.5, 1.0, 2.0])


class Recording(nn.Module):
    """A network that keeps every batch it was called with."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.seen = []

    def forward(self, x):
        self.seen.append(x)
        return self.network(x)


def setting(size=6):
    model = MAP(Recording(mlp(2, (7,), 3).double()))
    x = torch.randn(size, 2, dtype=torch.float64)
    return model, model.network.seen, x, torch.arange(size) % 3


def exact(model, points, beta):
    return oracle.kl(model(points).detach(), beta, 50)[0].mean()


@pytest.mark.parametrize(
    ("measurement", "measured"),
    [
        (None, lambda x: x),
        (Batch(), lambda x: x),
        ([Term(Batch())], lambda x: x),
        (Mixture(Batch()), lambda x: x),
        (lambda x: -2 * x, lambda x: -2 * x),
        ([Term(Augmented(lambda x: -2 * x))], lambda x: -2 * x),
        (Mixture(Batch(), lambda x: -2 * x), lambda x: torch.cat([x, -2 * x])),
        (Mixture(lambda x: 3 * x[:2], Batch()), lambda x: torch.cat([x, 3 * x[:2]])),
    ],
)
def test_one_term_in_one_forward_pass(measurement, measured):
    model, seen, x, y = setting()
    loss = FunctionSpaceELBO(DirichletPrior(BETA), 50, measurement)(model, x, y)
    assert len(seen) == 1
    nll = -model(x).log_softmax(-1)[0, torch.arange(6), y].mean()
    torch.testing.assert_close(loss.nll, nll)
    torch.testing.assert_close(loss.kl, exact(model, measured(x), BETA), rtol=0, atol=1e-6)
    torch.testing.assert_close(loss.total, loss.nll + loss.kl / 6)


def test_several_terms_have_weights_and_priors_of_their_own():
    model, seen, x, y = setting()
    strong = torch.full((3,), 20.0)
    terms = [
        Term(Batch(), weight=0.1),
        Term(lambda x: -x, 30.0, DirichletPrior(strong)),
        Term(Mixture(Batch(), lambda x: 2 * x), 3.0),
        Term(lambda x: x[:1], weight=0.0),
    ]
    loss = FunctionSpaceELBO(DirichletPrior(BETA), 50, terms)(model, x, y)
    assert [len(batch) for batch in seen] == [6 + 6 + 6 + 1]
    expected = (
        0.1 * exact(model, x, BETA)
        + 30 * exact(model, -x, strong)
        + 3 * exact(model, torch.cat([x, 2 * x]), BETA)
    )
    torch.testing.assert_close(loss.kl, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(loss.total, loss.nll + loss.kl / 6)


def test_the_prior_is_asked_at_the_measurement_points():
    model, _, x, y = setting()
    asked = []

    def prior(points):
        asked.append(points)
        return Dirichlet(torch.ones(3))

    terms = [Term(Mixture(Batch(), torch.neg)), Term(Augmented(torch.clone), prior=prior)]
    FunctionSpaceELBO(prior, 50, terms)(model, x, y)
    torch.testing.assert_close(asked, [torch.cat([x, -x]), x])


def test_a_set_may_ask_for_the_model_and_its_divergence():
    class Asking(MeasurementSet):
        def __call__(self, x, comparison=None):
            self.model, self.divergence = comparison.model, comparison.divergence(x)
            return x.clone()

    model, _, x, y = setting()
    asking, beta = Asking(), torch.full((3,), 7.0)
    terms = [Term(asking, prior=DirichletPrior(beta))]
    loss = FunctionSpaceELBO(UniformPrior(3), 50, terms)(model, x, y)
    assert asking.model is model
    torch.testing.assert_close(asking.divergence.mean(), loss.kl)
    torch.testing.assert_close(loss.kl, exact(model, x, beta), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("measurement", "error", "message"),
    [
        ([], TypeError, "at least one"),
        ([Batch()], TypeError, r"sequence of felbo.Term"),
        (Batch, TypeError, "an instance such as Batch"),
        ("batch", TypeError, "measurement must be"),
        ([Term(Batch(), -1.0)], ValueError, "weight of a term must be finite and ≥ 0, got -1"),
        ([Term(Batch(), float("nan"))], ValueError, "got nan"),
        ([Term(Batch(), float("inf"))], ValueError, "got inf"),
    ],
)
def test_what_is_no_measurement_is_refused(measurement, error, message):
    with pytest.raises(error, match=message):
        FunctionSpaceELBO(UniformPrior(3), 50, measurement)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (lambda x: x[:0], "returned no points"),
        (lambda x: None, "returned None"),
        (lambda x: x[:, :1], r"shape of an input"),
        (lambda x: x / 0.0 * 0.0, "contain NaN"),
    ],
)
def test_points_that_do_not_fit_are_refused(points, message):
    model, seen, x, y = setting()
    with pytest.raises(ValueError, match=message):
        FunctionSpaceELBO(UniformPrior(3), 50, points)(model, x, y)
    assert not seen
