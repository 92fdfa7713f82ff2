"""Tables of any kind: missing values, categories, sparse matrices, names of columns."""

import numpy as np
import pytest
from scipy import sparse

from felbo.estimator.tables import MAX_CATEGORIES, NumberTable, TableEncoder

from .quick import quick

pd = pytest.importorskip("pandas")

FRAME = pd.DataFrame(
    {
        "size": [1.0, np.nan, 3.0, 8.0],
        "colour": ["red", "blue", None, "red"],
        "count": [1, 2, 3, 4],
        "old": [True, False, False, True],
    }
)


def encode(table, weights=None):
    weights = np.ones(len(table)) if weights is None else weights
    encoder = TableEncoder().fit(table, weights)
    return encoder, encoder.transform(table)


def test_numbers_have_weighted_mean_zero_and_deviation_one():
    table, weights = np.random.default_rng(0).normal(3, 5, (50, 2)), np.arange(50.0)
    _, features = encode(table, weights)
    np.testing.assert_allclose(np.average(features, axis=0, weights=weights), 0, atol=1e-6)
    np.testing.assert_allclose(np.average(features**2, axis=0, weights=weights), 1, rtol=1e-6)
    assert features.dtype == np.float32


def test_numbers_come_first_then_one_column_per_category():
    _, features = encode(FRAME)
    assert features.shape == (4, 3 + 3)
    np.testing.assert_array_equal(features[:, 3:].sum(1), 1)
    assert (features[0, 3:] == features[3, 3:]).all()  # both red


def test_a_missing_number_is_the_median_of_its_column():
    encoder, features = encode(FRAME)
    assert encoder.inverse(features)["size"].tolist() == pytest.approx([1, 3, 3, 8], rel=1e-6)


def test_features_lead_back_to_the_table():
    encoder, features = encode(FRAME)
    back = encoder.inverse(features)
    assert back.columns.tolist() == FRAME.columns.tolist()
    assert back["colour"][[0, 1, 3]].tolist() == ["red", "blue", "red"]
    assert pd.isna(back["colour"][2])
    np.testing.assert_allclose(back["count"].astype(float), FRAME["count"], rtol=1e-6)


def test_arrays_lead_back_to_arrays():
    table = np.random.default_rng(0).normal(3, 5, size=(5, 2))
    encoder, features = encode(table)
    np.testing.assert_allclose(encoder.inverse(features), table, rtol=1e-5)


def test_an_unseen_category_has_zeros_and_can_be_predicted():
    new = FRAME.assign(colour=["green", "red", "green", "blue"])
    encoder, _ = encode(FRAME)
    np.testing.assert_array_equal(encoder.transform(new)[[0, 2], 3:], 0)
    probs = quick().fit(FRAME, [0, 1, 0, 1]).predict_proba(new)
    np.testing.assert_allclose(probs.sum(1), 1)


def test_categories_alone_and_category_columns_of_every_type_are_learnt():
    values = pd.Series(["x", "y", None] * 8)
    kinds = ["object", "str", "string", "category"]
    table = pd.DataFrame({kind: values.astype(kind) for kind in kinds})
    labels = values.fillna("none")
    classifier = quick(epochs=40).fit(table, labels)
    assert classifier.score(table, labels) == 1.0
    assert classifier.learner_.table.numbers == []
    assert encode(table)[1].shape == (24, 4 * 3)


def test_objects_that_are_numbers_are_numbers():
    table = pd.DataFrame({"a": pd.Series([1.5, 2, 3.5], dtype=object), "b": ["u", "v", "u"]})
    assert TableEncoder().fit(table, np.ones(3)).numbers == [0]


def test_a_column_of_names_does_not_become_thousands():
    table = pd.DataFrame({"name": [f"n{i}" for i in range(400)]})
    assert encode(table)[1].shape == (400, MAX_CATEGORIES)


def test_nullable_numbers_and_missing_columns():
    table = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [np.nan] * 3})
    _, features = encode(table)
    np.testing.assert_allclose(features[:, 0], [-np.sqrt(1.5), 0, np.sqrt(1.5)], rtol=1e-6)
    np.testing.assert_array_equal(features[:, 1], 0)


def test_sparse_rows_are_learnt_as_dense_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.4)
    y = (X.sum(1) > 0).astype(int)
    dense = quick().fit(X, y)
    for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        fitted = quick().fit(kind(X), y)
        np.testing.assert_array_equal(fitted.predict_proba(kind(X)), dense.predict_proba(X))


def test_missing_values_in_arrays_are_filled_in_and_without_preprocessing_refused():
    X = np.array([[1.0, np.nan], [2.0, 1.0], [np.nan, 3.0], [0.0, 2.0]])
    assert quick().fit(X, [0, 1, 0, 1]).predict(X).shape == (4,)
    with pytest.raises(ValueError, match="NaN"):
        quick(preprocessing=None).fit(X, [0, 1, 0, 1])


def test_without_preprocessing_the_network_sees_the_numbers():
    X = np.array([[100.0, 1.0], [200.0, 2.0]])
    np.testing.assert_array_equal(NumberTable().fit(X, np.ones(2)).transform(X), X)
    np.testing.assert_array_equal(NumberTable().transform(sparse.csr_array(X)), X)
    with pytest.raises(ValueError, match="could not convert string to float"):
        quick(preprocessing=None).fit(FRAME[["colour"]], [0, 1, 0, 1])


def test_names_of_columns_are_kept_and_compared():
    classifier = quick().fit(FRAME, list("abab"))
    assert classifier.feature_names_in_.tolist() == ["size", "colour", "count", "old"]
    assert classifier.n_features_in_ == 4
    with pytest.raises(ValueError, match="same order"):
        classifier.predict(FRAME[["colour", "size", "count", "old"]])
    with pytest.raises(ValueError, match="unseen at fit time"):
        classifier.predict(FRAME.rename(columns={"size": "length"}))
    with (
        pytest.warns(UserWarning, match="feature names"),
        pytest.raises(ValueError, match=r"fitted on a DataFrame with categories \(\['colour'\]\)"),
    ):
        classifier.predict(np.zeros((2, 4)))


def test_columns_with_numbers_as_names_are_not_taken_in_another_order():
    """scikit-learn compares names of text alone."""
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=[2010, 2011, 2012])
    classifier = quick(epochs=1).fit(table, [0, 1] * 10)
    with pytest.raises(ValueError, match=r"in another order: \[2012, 2010, 2011\] in place of"):
        classifier.predict(table[[2012, 2010, 2011]])
    later = table.rename(columns={2010: 2013})
    np.testing.assert_array_equal(classifier.predict_proba(later), classifier.predict_proba(table))


def test_columns_of_another_type_than_in_training_are_named():
    classifier = quick(epochs=1).fit(FRAME, list("abab"))
    with pytest.raises(ValueError, match=r"Column 'count' held numbers .*: 'many'"):
        classifier.predict(FRAME.assign(count=["1", "2", "many", "4"]))
    with pytest.raises(ValueError, match="'colour' holds float64 in place of the str"):
        classifier.predict(FRAME.assign(colour=[None, 1, 2, 3]))
    numbered = FRAME.assign(colour=pd.Categorical([1, 2, 1, 2]))
    classifier = quick(epochs=1).fit(numbered, list("abab"))
    with pytest.raises(ValueError, match="'colour' holds str in place of the int of the training"):
        classifier.predict(numbered.assign(colour=["1", "2", "1", "2"]))
    # Whole numbers as floats are the same, and nothing at all is only missing.
    same = classifier.predict_proba(numbered.assign(colour=[1.0, 2.0, 1.0, 2.0]))
    np.testing.assert_array_equal(same, classifier.predict_proba(numbered))
    assert classifier.predict(numbered.assign(colour=np.nan)).shape == (4,)


def test_columns_of_arrow_are_learnt_as_those_of_numpy():
    pytest.importorskip("pyarrow")
    arrow = FRAME.convert_dtypes(dtype_backend="pyarrow")
    np.testing.assert_array_equal(encode(arrow)[1], encode(FRAME)[1])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (FRAME.assign(day=pd.to_datetime(["2020-01-01"] * 4)), r"\['day'\] hold neither numbers"),
        (FRAME.assign(size=[np.inf, 1, 2, 3]), "infinity"),
        (FRAME.iloc[:0], r"0 sample\(s\)"),
        (FRAME[[]], r"0 feature\(s\)"),
        (pd.concat([FRAME, FRAME[["size"]]], axis=1), r"not: \['size'\]"),
    ],
)
def test_tables_that_cannot_be_learnt_from_are_refused(table, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(table, [0, 1, 0, 1][: len(table)])
