"""What the classifier learns and answers."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs, make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from torch import nn

import felbo
from felbo.estimator import FunctionSpaceClassifier, learner
from felbo.estimator.building import MODELS, make_objective
from felbo.estimator.rows import Rows
from felbo.estimator.stopping import HeldOutBound, mean_bounds
from felbo.training import Epoch, ValidationScores

from .quick import quick

X, Y = make_blobs(90, centers=[[0, 0], [4, 0], [0, 4]], cluster_std=1.0, random_state=0)
NAMES = np.array(["wolf", "dog", "cat"])[Y]  # in another order than sorted
FAR = X.mean(0) + 40 * np.random.default_rng(0).normal(size=(50, 2))


@pytest.fixture(scope="module")
def fitted():
    return quick(epochs=30).fit(X, NAMES)


def test_probabilities_are_in_the_order_of_the_classes_and_sum_to_one(fitted):
    probs = fitted.predict_proba(X)
    assert fitted.classes_.tolist() == ["cat", "dog", "wolf"]
    np.testing.assert_allclose(probs.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(fitted.classes_[probs.argmax(1)], fitted.predict(X))
    np.testing.assert_allclose(fitted.predict_log_proba(X), np.log(probs))
    assert fitted.score(X, NAMES) > 0.93
    centre_of_dogs = fitted.predict_proba([[4.0, 0.0]])[0]
    assert centre_of_dogs.argmax() == 1


def test_the_dirichlet_has_the_prediction_as_mean_and_at_most_the_rows_as_precision(fitted):
    alpha, probs = fitted.predict_dirichlet(X), fitted.predict_proba(X)
    smoothed = (1 - 1e-4) * probs + 1e-4 / 3
    np.testing.assert_allclose(alpha / alpha.sum(1, keepdims=True), smoothed, rtol=1e-6)
    precision = fitted.uncertainty(X, "precision")
    np.testing.assert_allclose(precision, alpha.sum(1))
    assert precision.min() >= 3
    assert precision.max() <= 90 * (1 + 1e-9)


def test_uncertainties_are_those_of_the_dirichlet(fitted):
    alpha = fitted.predict_dirichlet(FAR)
    mean = alpha / alpha.sum(1, keepdims=True)
    total = fitted.uncertainty(FAR)
    np.testing.assert_allclose(total, -(mean * np.log(mean)).sum(1), rtol=1e-6)
    parts = fitted.uncertainty(FAR, "aleatoric") + fitted.uncertainty(FAR, "epistemic")
    np.testing.assert_allclose(parts, total, rtol=1e-6)
    with pytest.raises(ValueError, match="kind must be one of 'total', 'aleatoric'"):
        fitted.uncertainty(X, "all")


def test_the_prior_elsewhere_makes_it_unsure_far_away(fitted):
    sure = quick(epochs=30, strength=0).fit(X, NAMES)
    near, far = (fitted.uncertainty(rows, "epistemic").mean() for rows in (X, FAR))
    assert far > 4 * near
    assert far > 4 * sure.uncertainty(FAR, "epistemic").mean()
    assert fitted.uncertainty(FAR).mean() > 4 * sure.uncertainty(FAR).mean()


def test_the_same_seed_gives_the_same_model_and_leaves_torch_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second, third = (quick(epochs=2, random_state=seed).fit(X, Y) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    assert abs(first.predict_proba(X) - third.predict_proba(X)).max() > 1e-3


@pytest.mark.parametrize("model", MODELS)
def test_every_model_learns_and_predicts_a_row_by_itself(model, monkeypatch):
    classifier = quick(model=model, epochs=15).fit(X, Y)
    assert classifier.score(X, Y) > 0.85
    together = classifier.predict_dirichlet(X)
    monkeypatch.setattr(learner, "CHUNK", 7)
    np.testing.assert_allclose(classifier.predict_dirichlet(X[::-1])[::-1], together, rtol=1e-9)


def test_a_map_model_has_no_epistemic_uncertainty():
    classifier = quick(model="map").fit(X, Y)
    with pytest.warns(UserWarning, match="One draw has no epistemic"):
        assert np.isnan(classifier.uncertainty(X, "epistemic")).all()
    with (
        pytest.warns(UserWarning, match="One draw"),
        pytest.raises(ValueError, match="kind='total'"),
    ):
        classifier.predict(X, reject_above=0.1, kind="epistemic")
    assert classifier.uncertainty(X).max() > 0


def test_rows_above_the_threshold_are_rejected(fitted):
    rows = np.vstack([X, FAR])
    threshold = 0.5
    answer = fitted.predict(rows, reject_above=threshold, reject_label="unknown")
    unsure = fitted.uncertainty(rows) > threshold
    assert 0 < unsure.sum() < len(rows)
    np.testing.assert_array_equal(answer == "unknown", unsure)
    np.testing.assert_array_equal(answer[~unsure], fitted.predict(rows)[~unsure])
    assert answer.dtype.kind == fitted.classes_.dtype.kind
    without = fitted.predict(rows, reject_above=threshold)
    assert without.dtype == object
    assert {label is None for label in without[unsure]} == {True}
    epistemic = fitted.predict(rows, reject_above=0.1, kind="epistemic") == None  # noqa: E711
    np.testing.assert_array_equal(epistemic, fitted.uncertainty(rows, "epistemic") > 0.1)


def test_rejection_takes_one_pass_over_the_rows(fitted, monkeypatch):
    passes, predictions = [], learner.Learner.predictions
    monkeypatch.setattr(
        learner.Learner, "predictions", lambda self, X: passes.append(1) or predictions(self, X)
    )
    fitted.predict(X, reject_above=0.5)
    assert len(passes) == 1


@pytest.mark.parametrize(("threshold", "message"), [(np.nan, "is NaN"), (True, "got True")])
def test_a_threshold_that_means_nothing_is_refused(fitted, threshold, message):
    with pytest.raises(ValueError, match=f"reject_above .*{message}"):
        fitted.predict(X, reject_above=threshold)


def test_a_label_cannot_stand_for_rejection(fitted):
    with pytest.raises(ValueError, match="'dog' is one of the labels"):
        fitted.predict(X, reject_above=0.1, reject_label="dog")
    with pytest.raises(ValueError, match="kind must be one of"):
        fitted.predict(X, reject_above=10, kind="precision")
    numbers = quick(epochs=1).fit(X, Y).predict(X, reject_above=0.0, reject_label=-1)
    assert numbers.dtype.kind == "i"
    assert set(numbers) == {-1}


@pytest.mark.parametrize("labels", [Y.astype(float), Y == 1, Y - 5, NAMES.astype(object)])
def test_labels_of_any_type_come_back(labels):
    classifier = quick(epochs=3).fit(X, labels)
    assert set(classifier.predict(X)) <= set(np.unique(labels))
    assert classifier.predict(X).dtype == labels.dtype


@pytest.mark.parametrize(("nullable", "dtype"), [("Int64", np.int64), ("boolean", np.bool_)])
def test_labels_of_nullable_types_come_back_as_whole_numbers_and_truth_values(nullable, dtype):
    pandas = pytest.importorskip("pandas")
    labels = pandas.Series(Y == 1 if dtype is np.bool_ else Y).astype(nullable)
    classifier = quick(epochs=3).fit(X, labels)
    assert classifier.classes_.dtype == classifier.predict(X).dtype == dtype
    labels[3] = pandas.NA
    with pytest.raises(ValueError, match="y contains NaN"):
        quick().fit(X, labels)


def test_rows_without_a_label_are_named():
    labels = NAMES.astype(object)
    labels[:7] = None
    with pytest.raises(felbo.errors.DataError, match="y holds None in 7 of 90 rows"):
        quick().fit(X, labels)


@pytest.mark.filterwarnings("ignore:kl_weight")  # a strong prior on the data is meant
def test_a_forest_as_prior_is_asked_in_the_units_of_the_table():
    rows, labels = make_moons(200, noise=0.2, random_state=0)
    rows = 1000 + 50 * rows
    names = np.array(["b", "a"])[labels]
    forest = RandomForestClassifier(20, random_state=0).fit(rows, names)
    settings = {"strength": 0.9, "measurement": "batch", "epochs": 15}
    strong = quick(prior=forest, **settings).fit(rows, names[::-1])
    # The labels are in disorder: only the prior says which moon is which.
    assert (strong.predict(rows) == forest.predict(rows)).mean() > 0.9


def test_a_prior_as_a_function_sees_the_units_of_the_table():
    seen = []

    def prior(x):
        seen.append(x)
        return torch.distributions.Dirichlet(torch.ones(len(x), 3))

    quick(epochs=1, prior=prior, measurement="batch").fit(1000 + X, Y)
    assert all(900 < float(points.mean()) < 1100 for points in seen)


def test_a_prior_on_labels_shows_where_there_are_no_data():
    prior = felbo.DirichletPrior([9.0, 1.0, 1.0])
    classifier = quick(prior=prior, strength=1.0, epochs=30).fit(X, Y)
    assert classifier.predict_proba(FAR).mean(0)[0] > 0.6


def test_an_unfitted_prior_is_refused_with_the_way_out():
    with pytest.raises(NotFittedError, match="FrozenEstimator"):
        quick(prior=LogisticRegression()).fit(X, Y)


def test_points_of_ones_own_are_made_from_standardised_features():
    seen = []

    def points(x):
        seen.append(x)
        return x + 10.0

    quick(epochs=1, measurement=points, batch_size=None).fit(1000 + X, Y)
    torch.testing.assert_close(seen[0].mean(0), torch.zeros(2), atol=1e-5, rtol=0)


def test_a_network_of_ones_own():
    def network(inputs, classes):
        return nn.Sequential(
            nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, classes)
        )

    classifier = quick(network=network).fit(X[:33], Y[:33])
    assert classifier.score(X, Y) > 0.8
    assert isinstance(classifier.learner_.model, felbo.Ensemble)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"model": "forest"}, ValueError, "model must be one of 'ensemble', 'map'"),
        ({"prior": "flat"}, ValueError, "prior must be one of 'uniform'"),
        ({"prior": 3}, TypeError, "prior must be 'uniform', a function"),
        (
            {"measurement": "here"},
            ValueError,
            "measurement must be one of 'elsewhere', 'box', 'batch'",
        ),
        ({"preprocessing": "pca"}, ValueError, "preprocessing must be 'auto' or None"),
        ({"network": nn.Linear(2, 3)}, TypeError, "a function .inputs, classes."),
        ({"strength": -1}, ValueError, "strength must be finite and ≥ 0"),
        ({"data_strength": "much"}, ValueError, "data_strength must be finite"),
        ({"epochs": 0}, ValueError, "epochs must be a whole number of at least 1"),
        ({"batch_size": 0}, ValueError, "batch_size must be a whole number of at least 1"),
        ({"members": 0}, ValueError, "members must be a whole number of at least 1"),
        ({"early_stopping": True, "patience": 0}, ValueError, "patience must be at least 1"),
        (
            {"early_stopping": True, "validation_fraction": 1.0},
            ValueError,
            "validation_fraction must lie between 0 and 1",
        ),
    ],
)
def test_wrong_settings_are_named_in_fit(settings, error, message):
    with pytest.raises(error, match=message):
        quick(**settings).fit(X, Y)


def test_early_stopping_trains_anew_on_all_rows_for_the_best_number_of_epochs():
    noisy = np.random.default_rng(0).integers(0, 3, 90)
    settings = {"early_stopping": True, "patience": 4, "learning_rate": 0.05}
    stopped = quick(epochs=200, random_state=np.random.RandomState(3), **settings).fit(X, noisy)
    scores = stopped.validation_scores_
    best = int(np.argmax(scores)) + 1
    assert len(scores) == best + 4 < 200
    assert stopped.n_iter_ == len(stopped.loss_curve_) == best
    assert stopped.learner_.num_data == 90
    plain = quick(epochs=best, learning_rate=0.05, random_state=np.random.RandomState(3))
    plain.fit(X, noisy)
    np.testing.assert_array_equal(stopped.predict_proba(X), plain.predict_proba(X))


def test_early_stopping_scores_rows_that_are_not_trained_on():
    noisy = np.random.default_rng(0).integers(0, 3, 90)
    classifier = quick(epochs=1, early_stopping=True).fit(X, noisy)
    learner = classifier.learner_
    rows = Rows(learner.table.transform(X), noisy, np.ones(90)).merged()
    scores, seen = [], []
    for fold in range(5):
        # One epoch on the rows that were kept, once more.
        kept, held_out = rows.split(0.2, learner.seed, fold)
        seen += held_out.features.tolist()
        prior, strength = felbo.UniformPrior(3), classifier.strength
        objective = make_objective(prior, 72, "elsewhere", strength, 0.0, 3)
        again = classifier._untrained(learner.table, 2, learner.seed)
        next(again.training(objective, kept, epochs=1, batch_size=32))
        scores.append(-HeldOutBound(again.model, objective, held_out, learner.seed)().loss)
    assert [np.mean(scores)] == pytest.approx(classifier.validation_scores_, abs=1e-6)
    assert sorted(seen) == sorted(rows.features.tolist())


class Known:
    """A training whose bounds are known, and that takes up so many epochs where it begins."""

    def __init__(self, bounds, taken_up):
        self.history, self.closed = felbo.History(), False
        self.epochs = self._run(bounds, taken_up)

    def _run(self, bounds, taken_up):
        for number, bound in enumerate(bounds):
            scores = ValidationScores(-bound, 0.0, 0.0)
            self.history.append(Epoch(number, 0.0, 0.0, 0.0, 0.0, scores))
            if number >= taken_up:
                yield self.history.epochs[-1]

    def __next__(self):
        return next(self.epochs)

    def close(self):
        self.closed = True


@pytest.mark.parametrize("taken_up", [(0, 0), (3, 2), (5, 5), (5, 0)])
def test_folds_are_trained_in_step_and_stopped_by_their_mean(taken_up):
    bounds = [0.0, 4.0, 0.0, 0.0, 9.0], [0.0, 0.0, 5.0, 1.0, 9.0]
    folds = [Known(*fold) for fold in zip(bounds, taken_up, strict=True)]
    shown = []
    assert mean_bounds(folds, 1, shown.append) == [0.0, 2.0, 2.5, 0.5]
    assert [epoch.number for epoch in shown] == [0, 1, 2, 3]
    done = [len(fold.history) for fold in folds]
    assert done == [min(max(4, before + 1), 5) for before in taken_up]
    assert all(fold.closed for fold in folds)


def test_many_rows_are_split_once_without_a_temperature():
    x = np.random.default_rng(0).normal(size=(1000, 2))
    settings = {"epochs": 1, "members": 1, "early_stopping": True, "strength": 0.0}
    classifier = quick(**settings, calibrate=False)
    classifier.fit(x, (x[:, 0] > 0).astype(int))
    learner = classifier.learner_
    rows = Rows(learner.table.transform(x), (x[:, 0] > 0).astype(np.int64), np.ones(1000)).merged()
    search = classifier._search(*rows.split(0.2, learner.seed), False, None)
    bound = -next(search.training).validation.loss
    assert classifier.validation_scores_ == pytest.approx([bound], abs=1e-6)


def test_the_bound_on_held_out_rows_by_hand():
    rng = np.random.default_rng(0)
    rows = Rows(rng.normal(size=(6, 2)).astype(np.float32), np.arange(6) % 2, np.arange(1.0, 7.0))
    model = felbo.Ensemble(lambda: felbo.networks.mlp(2, (4,), 2), members=3)
    objective = make_objective(felbo.UniformPrior(2), 6, "batch", 0.5, 0.0, 3)
    bound = HeldOutBound(model, objective, rows, seed=0)
    logits = model(torch.from_numpy(rows.features)).detach()
    mean = logits.softmax(-1).mean(0).numpy()[np.arange(6), rows.labels]
    likelihood = np.average(np.log((1 - 1e-4) * mean + 1e-4 / 2), weights=rows.weights)
    kl = felbo.objectives.function_space_kl(logits, torch.ones(2), 6.0).numpy()
    expected = likelihood - 0.5 * np.average(kl, weights=rows.weights)
    assert -bound().loss == pytest.approx(expected, abs=1e-5)
    assert -bound().nll == pytest.approx(likelihood, abs=1e-5)
    right = logits.softmax(-1).mean(0).numpy().argmax(1) == rows.labels
    assert bound().accuracy == pytest.approx(100 * np.average(right, weights=rows.weights))


def test_rows_that_move_as_correlated_columns_do_are_uncertain():
    generator = np.random.default_rng(0)
    position = generator.normal(size=(200, 1))
    x = position + 0.1 * generator.normal(size=(200, 12))
    y = (position[:, 0] + 0.3 * generator.normal(size=200) > 0).astype(int)

    def epistemic(measurement):
        classifier = quick(measurement=measurement, epochs=25).fit(x, y)
        return [classifier.uncertainty(x + d, "epistemic").mean() for d in (0.0, 5.0, -5.0)]

    data, up, down = epistemic("elsewhere")
    assert min(up, down) > 5 * data
    # The box alone has next to no points there.
    data, up, down = epistemic("box")
    assert min(up, down) < data


def test_few_rows_are_all_trained_on():
    settings = {"early_stopping": True, "validation_fraction": 0.11}
    few = quick(epochs=4, patience=1, **settings).fit(X, Y)
    assert few.learner_.num_data == 90
    assert few.n_iter_ == 4
    assert not hasattr(few, "validation_scores_")


def test_scores_of_an_earlier_fit_are_not_kept():
    classifier = quick(epochs=2, early_stopping=True).fit(X, Y)
    assert len(classifier.validation_scores_) == 2
    classifier.set_params(early_stopping=False).fit(X, Y)
    assert not hasattr(classifier, "validation_scores_")


def test_partial_fit_goes_on_where_it_stopped():
    classifier = quick(learning_rate=0.01)
    for _ in range(20):
        classifier.partial_fit(X, NAMES, classes=["dog", "wolf", "cat"])
    assert classifier.n_iter_ == len(classifier.loss_curve_) == 20
    assert classifier.loss_curve_[-1] < 0.5 * classifier.loss_curve_[0]
    assert classifier.score(X, NAMES) > 0.85
    again = quick(learning_rate=0.01).fit(X, NAMES)
    before = again.score(X, NAMES)
    assert again.partial_fit(X, NAMES).n_iter_ == 11
    assert again.score(X, NAMES) > before - 0.1


def test_partial_fit_takes_weights_for_repeated_rows():
    counts = np.random.default_rng(0).integers(1, 4, len(X))
    settings = {"batch_size": None, "preprocessing": None}
    weighted, repeated, plain = (quick(**settings) for _ in range(3))
    for _ in range(5):  # the first step of Adam depends on the signs of the gradient only
        weighted.partial_fit(X, Y, classes=[0, 1, 2], sample_weight=counts)
        repeated.partial_fit(X.repeat(counts, 0), Y.repeat(counts), classes=[0, 1, 2])
        plain.partial_fit(X, Y, classes=[0, 1, 2])
    expected = repeated.predict_proba(X)
    np.testing.assert_allclose(weighted.predict_proba(X), expected, rtol=1e-4)
    assert np.abs(plain.predict_proba(X) - expected).max() > 1e-3


def test_partial_fit_keeps_classes_and_preprocessing_of_the_first_call():
    classifier = quick()
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        classifier.partial_fit(X, Y)
    classifier.partial_fit(X[:45], np.zeros(45, int), classes=[0, 1, 2])
    table = classifier.learner_.table
    classifier.partial_fit(X[45:] + 100, Y[45:])
    assert classifier.learner_.table is table
    assert classifier.learner_.num_data == 90
    assert classifier.predict_proba(X).shape == (90, 3)
    with pytest.raises(ValueError, match="not the same as on the last call"):
        classifier.partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"y holds the labels \[7\]"):
        classifier.partial_fit(X, np.full(90, 7))


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="at least 2 classes"):
        quick().fit(X, np.zeros(90))


def test_felbo_offers_it():
    assert felbo.FunctionSpaceClassifier is FunctionSpaceClassifier
    with pytest.raises(AttributeError, match="no attribute 'Classifier'"):
        felbo.Classifier  # noqa: B018
