"""The same values in inference mode, under autocast and in two threads at once."""

import copy
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import felbo
from felbo import dirichlet
from felbo.networks import mlp

from .settings import twice_at_once

CLASSES = 3
X = torch.randn(24, 2, generator=torch.Generator().manual_seed(5))
Y = torch.arange(24) % CLASSES
FAR = 5 * X
PROBS = torch.softmax(torch.randn(4, 24, CLASSES, generator=torch.Generator().manual_seed(6)), -1)
pytestmark = pytest.mark.filterwarnings("ignore:kl_weight")


def network():
    return mlp(2, (8,), CLASSES)


def made(name):
    """A copy of a model, with the same weights each time."""
    return copy.deepcopy(built(name))


@cache
def built(name):
    torch.manual_seed(1)
    return MODELS[name]().eval()


MODELS = {
    "MAP": lambda: felbo.MAP(network()),
    "ConcentrationNetwork": lambda: felbo.ConcentrationNetwork(network()),
    "MCDropout": lambda: felbo.MCDropout(network(), 0.2),
    "Ensemble": lambda: felbo.Ensemble(network, 3),
    "MeanField": lambda: felbo.MeanField(network()),
    "Radial": lambda: felbo.Radial(network()),
    "Rank1": lambda: felbo.Rank1(network(), 2),
    "Tempered": lambda: felbo.Tempered(felbo.Ensemble(network, 3), 2.0),
    "SubnetworkLaplace": lambda: laplace(),
}


def laplace():
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), 8)
    return felbo.SubnetworkLaplace(network(), size=12).fit(data)


OBJECTIVES = {
    "partial": lambda: felbo.FunctionSpaceELBO(felbo.UniformPrior(CLASSES), 24),
    "total": lambda: felbo.FunctionSpaceELBO(felbo.UniformPrior(CLASSES), 24, gradient="total"),
    "elsewhere": lambda: felbo.FunctionSpaceELBO(
        felbo.UniformPrior(CLASSES), 24, measurement=felbo.measurement.Pool(FAR)
    ),
    "weights": lambda: felbo.WeightSpaceELBO(24),
    "beliefs": lambda: felbo.BeliefMatching(felbo.UniformPrior(CLASSES)),
    "evidential": lambda: felbo.Evidential(annealing_steps=10),
    "likelihood": felbo.NegativeLogLikelihood,
}


def predicted(name):
    prediction = felbo.predict(made(name), X, seed=0)
    return [prediction.probs, prediction.concentration, prediction.total]


def lost(name):
    model = made("ConcentrationNetwork" if name in ("beliefs", "evidential") else "Ensemble")
    loss = OBJECTIVES[name]()(model, X, Y)
    return [loss.total, loss.nll, loss.kl]


def evaluated():
    found = felbo.evaluate(
        made("Ensemble"), (X, Y), ood={"far": FAR}, resamples=20, generator=generator()
    )
    detection = found.ood["far"]["epistemic"]
    return [
        torch.tensor([found.test.log_likelihood.value, found.test.brier.value, detection.auroc])
    ]


def generator():
    return torch.Generator().manual_seed(3)


CLASSIFIER = LogisticRegression().fit(X.numpy(), Y.numpy())


def priors():
    given = felbo.ModelPrior(made("Ensemble"), max_precision=100.0)
    return [
        felbo.UniformPrior(CLASSES)(X).concentration,
        felbo.DirichletPrior([0.5, 1.0, 2.0])(X).concentration,
        felbo.ClassifierPrior(CLASSIFIER, precision=10.0)(X).concentration,
        given(X).concentration,
    ]


def fitted_dirichlets():
    alpha = dirichlet.fit(PROBS).concentration
    ones = torch.ones(CLASSES)
    return [alpha, dirichlet.log_prob(PROBS, alpha), dirichlet.kl_divergence(alpha, ones)]


def trained(name="MCDropout"):
    model = made(name)
    options = {"epochs": 2, "batch_size": 8, "seed": 4, "progress": False}
    history = felbo.fit(model, OBJECTIVES["partial"](), (X, Y), **options)
    return [torch.tensor(history.total), *(p.detach() for p in model.parameters())]


CALLS: dict[str, Callable[[], list[Tensor]]] = {
    **{f"predict {name}": lambda name=name: predicted(name) for name in MODELS},
    **{f"objective {name}": lambda name=name: lost(name) for name in OBJECTIVES},
    "evaluate": evaluated,
    "priors": priors,
    "dirichlet": fitted_dirichlets,
    "fit": trained,
}
WITHOUT_GRADIENT = [name for name in CALLS if name != "fit"]


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_inference_mode(name):
    expected = CALLS[name]()
    with torch.inference_mode():
        found = CALLS[name]()
    torch.testing.assert_close(found, [part.detach() for part in expected])


def test_training_in_inference_mode_is_refused():
    with torch.inference_mode(), pytest.raises(RuntimeError, match="Training needs gradients"):
        trained()


@pytest.mark.parametrize("name", CALLS)
def test_autocast(name):
    expected = CALLS[name]()
    with torch.autocast("cpu", torch.bfloat16):
        found = CALLS[name]()
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.isfinite().all()
    # Layers have 8 bits there, and dropout draws its masks in another order; the rest has them all.
    exact = name == "dirichlet"
    if "MCDropout" not in name and name != "fit":
        near = {"rtol": 1e-6, "atol": 1e-6} if exact else {"rtol": 0.2, "atol": 0.03}
        torch.testing.assert_close(found[0], expected[0], **near)


def test_training_under_autocast_goes_on_with_the_weights_of_the_last_step():
    """torch keeps its copies of the weights until the outermost autocast ends."""
    losses = []
    for inside in (False, True):
        model = made("MAP")
        options = {"epochs": 30, "batch_size": None, "learning_rate": 0.05, "seed": 4}
        with torch.autocast("cpu", torch.bfloat16, enabled=inside):
            history = felbo.fit(
                model, OBJECTIVES["likelihood"](), (X, Y), progress=False, **options
            )
        losses.append(torch.tensor(history.total))
    assert losses[0][-1] < 0.9 * losses[0][0]
    torch.testing.assert_close(losses[1], losses[0], rtol=0.02, atol=0.02)


@pytest.mark.parametrize("name", CALLS)
def test_two_threads_at_once(name):
    expected, start = CALLS[name](), threading.Barrier(2)

    def work(_):
        start.wait()
        return [CALLS[name]() for _ in range(3)]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(work, range(2))
    for result in (*first, *second):
        torch.testing.assert_close(result, expected)


def test_the_calls_give_values_that_differ_from_each_other():
    """The comparisons above would hold for constants, too."""
    values = [np.asarray(CALLS[name]()[0].detach()).ravel()[:2].tolist() for name in CALLS]
    assert len({tuple(value) for value in values}) > len(CALLS) - 4


def test_a_test_that_fails_in_one_of_two_threads_fails():
    names = []

    def test(number):
        names.append(threading.current_thread().name)
        assert len(set(names)) < number

    twice_at_once(test)(number=3)
    assert len(set(names)) == 2
    names.clear()
    with pytest.raises(AssertionError):
        twice_at_once(test)(number=2)
