"""A loaded classifier predicts and learns on as the saved one; nothing is pickled."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import felbo

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(80, 3))
LABELS = np.where(NUMBERS[:, 0] + NUMBERS[:, 1] > 0, "yes", "no")


def frame(rows=80):
    found = pd.DataFrame(NUMBERS[:rows], columns=["a", "b", "c"])
    found.loc[::7, "b"] = np.nan
    found["colour"] = np.resize(["red", None, "blue", "red"], rows)
    found["many"] = [f"m{i % 61}" for i in range(rows)]
    found["flag"] = np.resize([True, False], rows)
    found["empty"] = np.nan
    return found


def fitted(X, y, **settings):
    settings = {"epochs": 3, "random_state": 0, "hidden": (8,), "members": 2} | settings
    return felbo.FunctionSpaceClassifier(**settings).fit(X, y)


def reloaded(classifier, tmp_path, **settings):
    return felbo.load(felbo.save(classifier, tmp_path / "c.safetensors"), **settings)


@pytest.mark.parametrize(
    "model", ["ensemble", "map", "mc-dropout", "mean-field", "radial", "rank1"]
)
def test_every_kind_of_model(model, tmp_path):
    classifier = fitted(NUMBERS, LABELS, model=model)
    loaded = reloaded(classifier, tmp_path)
    assert np.array_equal(loaded.predict_dirichlet(NUMBERS), classifier.predict_dirichlet(NUMBERS))
    assert np.array_equal(loaded.predict(NUMBERS), classifier.predict(NUMBERS))


def test_tables_with_categories_and_missing_values(tmp_path):
    classifier = fitted(frame(), LABELS)
    loaded = reloaded(classifier, tmp_path)
    new = frame()
    new.loc[3, "colour"] = "never seen"
    new.loc[4, ["a", "b", "c"]] = np.nan
    assert np.array_equal(loaded.predict_proba(new), classifier.predict_proba(new))
    assert loaded.feature_names_in_.tolist() == classifier.feature_names_in_.tolist()
    features = classifier.learner_.table.transform(new)
    assert np.array_equal(loaded.learner_.table.transform(new), features)
    for name in ("a", "b", "colour", "many"):
        back, same = (each.learner_.table.inverse(features)[name] for each in (loaded, classifier))
        assert back.equals(same)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(new.rename(columns={"a": "z"}))


def test_rare_categories_stay_together(tmp_path):
    names = [f"n{i:03d}" for i in range(300)]
    rows = pd.DataFrame({"name": names + names[40:], "x": RNG.normal(size=560)})
    labels = RNG.integers(2, size=560)
    classifier = fitted(rows, labels, epochs=1)
    loaded = reloaded(classifier, tmp_path)
    assert classifier.learner_.table.transform(rows).shape[1] == 257
    assert np.array_equal(
        loaded.learner_.table.transform(rows), classifier.learner_.table.transform(rows)
    )


@pytest.mark.parametrize(
    "labels",
    [
        LABELS,
        (LABELS == "yes").astype(np.int64) + 3,
        LABELS == "yes",
        np.where(LABELS == "yes", 1.0, -2.0),
        LABELS.astype(object),
    ],
    ids=["text", "int", "bool", "float", "object"],
)
def test_labels_of_any_type(labels, tmp_path):
    classifier = fitted(NUMBERS, labels, preprocessing=None)
    loaded = reloaded(classifier, tmp_path)
    assert loaded.classes_.dtype == classifier.classes_.dtype
    assert loaded.predict(NUMBERS).tolist() == classifier.predict(NUMBERS).tolist()


def test_training_goes_on_as_if_nothing_had_happened(tmp_path):
    classifier = fitted(NUMBERS, LABELS, model="mean-field")
    loaded = reloaded(classifier, tmp_path)
    for each in (classifier, loaded):
        each.partial_fit(NUMBERS, LABELS)
    assert loaded.loss_curve_ == classifier.loss_curve_
    assert np.array_equal(loaded.predict_proba(NUMBERS), classifier.predict_proba(NUMBERS))
    assert loaded.n_iter_ == 4


def test_the_temperature_is_kept(tmp_path):
    classifier = fitted(NUMBERS, LABELS)
    classifier.learner_.temper(1.7)
    loaded = reloaded(classifier, tmp_path)
    assert loaded.temperature_ == classifier.temperature_ == pytest.approx(1.7)
    for each in (classifier, loaded):
        each.partial_fit(NUMBERS, LABELS)
    assert np.array_equal(loaded.predict_proba(NUMBERS), classifier.predict_proba(NUMBERS))


def test_parameters_come_back_and_functions_are_asked_for(tmp_path):
    classifier = fitted(NUMBERS, LABELS, strength=0.07, prior=felbo.DirichletPrior([1.0, 2.0]))
    loaded = reloaded(classifier, tmp_path)
    assert loaded.get_params()["strength"] == 0.07
    assert loaded.get_params()["hidden"] == (8,)
    assert np.array_equal(loaded.predict_proba(NUMBERS), classifier.predict_proba(NUMBERS))
    with pytest.raises(TypeError, match=r"prior was not saved; set it with set_params\(prior="):
        loaded.partial_fit(NUMBERS, LABELS)
    loaded.set_params(prior="uniform").partial_fit(NUMBERS, LABELS)


def test_an_unfitted_classifier_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        felbo.save(felbo.FunctionSpaceClassifier(), tmp_path / "c.safetensors")
