"""laplace-torch: a Gaussian around the trained weights."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from benchmarks.rivals.task import Answer, Predictor, Task, loader
from felbo.dirichlet.uncertainties import sample_uncertainty


def last_layer(task: Task) -> Predictor:
    """Take the defaults, tuned by the marginal likelihood, as in its example of calibration."""
    return _marginal_likelihood(task)


def all_weights(task: Task) -> Predictor:
    """Do the same with all weights."""
    return _marginal_likelihood(task, subset_of_weights="all")


def grid_search(task: Task) -> Predictor:
    """Choose the prior precision by held-out labels, as in its README."""
    from laplace import Laplace

    found = Laplace(
        deepcopy(task.network), "classification", subset_of_weights="all", hessian_structure="diag"
    )
    found.fit(loader(task.digits.train))
    found.optimize_prior_precision(
        method="gridsearch",
        pred_type="glm",
        link_approx="probit",
        val_loader=loader(task.digits.validation),
    )
    return _prediction_of(found)


def _marginal_likelihood(task: Task, **options: str) -> Predictor:
    from laplace import Laplace
    from laplace.curvature.backpack import BackPackGGN

    # Its default backend makes the same factors, but not with the curvlinops that is pinned here.
    found = Laplace(deepcopy(task.network), "classification", backend=BackPackGGN, **options)
    found.fit(loader(task.digits.train))
    found.optimize_prior_precision(method="marglik")
    return _prediction_of(found)


def _prediction_of(found: Any) -> Predictor:
    """Return probabilities by its default, the probit approximation; draws tell what is unknown."""
    return lambda x: Answer(
        found(x).detach(), sample_uncertainty(found.predictive_samples(x).detach()).epistemic
    )
