"""The classifier keeps scikit-learn's conventions, and works inside its tools."""

import io
import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

from felbo.estimator import FunctionSpaceClassifier
from felbo.estimator.building import MODELS

from .quick import quick

X, Y = load_iris(return_X_y=True)


@pytest.fixture(autouse=True)
def _array_api(monkeypatch):
    # Without it scikit-learn skips one of its checks.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


@parametrize_with_checks([quick(random_state=None)])
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [FunctionSpaceClassifier(), *(quick(model=name) for name in MODELS if name != "ensemble")]
)
def test_every_check_passes_with_default_settings_and_for_every_model(estimator, check):
    check(estimator)


def test_no_check_is_skipped_for_want_of_a_package():
    pytest.importorskip("pandas", reason="part of the dev extra")


def test_in_a_pipeline_under_cross_validation():
    scores = cross_val_score(make_pipeline(PolynomialFeatures(), quick()), X, Y, cv=2)
    assert scores.min() > 0.85


def test_grid_search_picks_the_better_setting():
    search = GridSearchCV(
        quick(), {"learning_rate": [1e-6, 0.02]}, cv=2, scoring="neg_log_loss"
    ).fit(X, Y)
    assert search.best_params_ == {"learning_rate": 0.02}
    assert search.best_estimator_.score(X, Y) > 0.85


def test_calibrated_by_scikit_learn():
    calibrated = CalibratedClassifierCV(quick(), cv=2).fit(X, Y)
    probs = calibrated.predict_proba(X)
    np.testing.assert_allclose(probs.sum(1), 1.0)
    assert calibrated.score(X, Y) > 0.85


def test_a_clone_has_the_settings_and_nothing_that_was_learnt():
    fitted = quick(strength=0.5).fit(X, Y)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "learner_")


def test_a_frozen_prior_survives_cloning():
    prior = FrozenEstimator(LogisticRegression(max_iter=1000).fit(X, Y))
    assert cross_val_score(quick(prior=prior), X, Y, cv=2).min() > 0.8


@pytest.mark.parametrize("model", MODELS)
def test_pickled_it_predicts_the_same_and_learns_on_the_same(model):
    fitted = quick(model=model, epochs=2).fit(X, Y)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict_proba(X), fitted.predict_proba(X))
    # The state of the optimiser came along, still tied to the weights.
    fitted.partial_fit(X, Y)
    copy.partial_fit(X, Y)
    np.testing.assert_array_equal(copy.predict_proba(X), fitted.predict_proba(X))


def test_joblib_takes_it_to_a_file_and_to_other_processes():
    fitted = quick(epochs=2).fit(X, Y)
    file = io.BytesIO()
    joblib.dump(fitted, file)
    file.seek(0)
    np.testing.assert_array_equal(
        joblib.load(file).predict_dirichlet(X), fitted.predict_dirichlet(X)
    )
