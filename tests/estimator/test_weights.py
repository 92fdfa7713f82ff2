"""Weights of rows: an integer weight is that many equal rows."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs

import felbo
from felbo.estimator.checks import checked_weights
from felbo.estimator.objective import WeightedELBO, weighted_nll
from felbo.estimator.rows import Rows, as_loader

from .quick import quick

X, Y = make_blobs(40, centers=3, cluster_std=2.0, random_state=0)
COUNTS = np.random.default_rng(0).integers(0, 4, 40)


@pytest.mark.parametrize("batch_size", [None, 8])
def test_integer_weights_are_repeated_rows(batch_size):
    order = np.random.default_rng(1).permutation(40)
    settings = {"batch_size": batch_size, "data_strength": 0.1}
    weighted = quick(**settings).fit(X[order], Y[order], sample_weight=COUNTS[order])
    repeated = quick(**settings).fit(X.repeat(COUNTS, 0), Y.repeat(COUNTS))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-5)
    np.testing.assert_allclose(
        weighted.predict_dirichlet(X), repeated.predict_dirichlet(X), rtol=1e-4
    )
    assert weighted.learner_.num_data == COUNTS.sum()


def test_the_bound_of_weighted_rows_is_that_of_repeated_ones():
    counts = torch.tensor([3, 1, 2, 2])
    x, y = torch.randn(4, 2), torch.tensor([0, 1, 2, 1])
    terms = [felbo.Term(felbo.measurement.Batch(), 0.1)]
    settings = {"num_data": 8, "measurement": terms, "kl_weight": 1.0}
    model = felbo.Ensemble(lambda: felbo.networks.mlp(2, (8,), 3), members=4)
    plain = felbo.FunctionSpaceELBO(felbo.UniformPrior(3), **settings)
    expected = plain(model, x.repeat_interleave(counts, 0), y.repeat_interleave(counts))
    weighted = WeightedELBO(felbo.UniformPrior(3), **settings)
    actual = weighted(model, (x, counts / counts.float().mean()), y)
    torch.testing.assert_close(torch.stack(actual), torch.stack(expected))
    gradients = [
        torch.autograd.grad(loss.total, list(model.parameters())) for loss in (expected, actual)
    ]
    torch.testing.assert_close(*gradients)


def test_ones_as_weights_give_the_plain_bound_with_points_elsewhere():
    x, y = torch.randn(6, 2), torch.arange(6) % 3
    model = felbo.MAP(felbo.networks.mlp(2, (8,), 3))
    settings = {"num_data": 6, "measurement": felbo.measurement.Elsewhere(), "kl_weight": 0.1}
    losses = []
    for kind, inputs in ((felbo.FunctionSpaceELBO, x), (WeightedELBO, (x, torch.ones(6)))):
        torch.manual_seed(0)
        losses.append(torch.stack(kind(felbo.UniformPrior(3), **settings)(model, inputs, y)))
    torch.testing.assert_close(*losses)


def test_weighted_likelihood_by_hand():
    logits = torch.tensor([[[0.0, 0.0], [2.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]])
    nll = -logits.log_softmax(-1)
    expected = (0.5 * nll[:, 0, 1].mean() + 1.5 * nll[:, 1, 0].mean()) / 2
    weights = torch.tensor([0.5, 1.5])
    torch.testing.assert_close(weighted_nll(logits, torch.tensor([1, 0]), weights), expected)


def test_without_features_the_prediction_is_the_weighted_share_of_each_label():
    weights = np.array([0.5, 2.5, 4.0, 1.0])
    classifier = quick(model="map", strength=0, epochs=150, batch_size=None)
    classifier.fit(np.zeros((4, 1)), ["a", "b", "c", "b"], sample_weight=weights)
    np.testing.assert_allclose(
        classifier.predict_proba([[0.0]])[0], [0.5 / 8, 3.5 / 8, 4 / 8], atol=0.005
    )


def test_equal_rows_are_merged_and_rows_without_weight_left_out():
    features = np.array([[1, 2], [0, 1], [1, 2], [-0.0, 1], [5, 5]], dtype=np.float32)
    merged = Rows(features, np.array([0, 1, 0, 1, 0]), np.array([1.0, 2.0, 3.0, 1.0, 0.0])).merged()
    rows = sorted(zip(merged.features.tolist(), merged.labels, merged.weights, strict=True))
    assert rows == [([0, 1], 1, 3.0), ([1, 2], 0, 4.0)]


def test_equal_features_with_other_labels_stay_apart():
    rows = Rows(np.ones((3, 2), np.float32), np.array([0, 1, 1]), np.ones(3)).merged()
    assert sorted(zip(rows.labels, rows.weights, strict=True)) == [(0, 1.0), (1, 2.0)]


def test_batches_hold_every_row_once_in_nearly_equal_sizes():
    rows = Rows(np.arange(33, dtype=np.float32)[:, None], np.arange(33), np.arange(1.0, 34.0))
    batches = [(x, w, y) for (x, w), y in as_loader(rows, 32)]
    assert [len(y) for *_, y in batches] == [17, 16]
    x, w, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    assert sorted(y.tolist()) == list(range(33))
    torch.testing.assert_close(x[:, 0], y.float())
    torch.testing.assert_close(w, (y + 1) / 17.0)
    assert not torch.equal(y, torch.arange(33))


def test_held_out_rows_have_their_share_of_every_class():
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    rows = Rows(np.arange(100, dtype=np.float32)[:, None], labels, np.ones(100))
    train, held_out = rows.split(0.2, seed=0)
    assert np.bincount(held_out.labels).tolist() == [12, 6, 2]
    together = np.concatenate([train.features, held_out.features])[:, 0]
    assert sorted(together) == list(range(100))
    other = rows.split(0.2, seed=1)[1]
    assert not np.array_equal(other.features, held_out.features)


def test_a_row_of_large_weight_is_shared_out_as_equal_rows_would_be():
    rows = Rows(np.eye(2, dtype=np.float32), np.array([0, 1]), np.array([30.0, 50.0]))
    train, held_out = rows.split(0.1, seed=0)
    assert train.weights.tolist() == [27.0, 45.0]
    assert held_out.weights.tolist() == [3.0, 5.0]


def test_early_stopping_sees_weights_as_equal_rows():
    classifiers = [quick(epochs=30, early_stopping=True, patience=3) for _ in range(2)]
    counts = 1 + 4 * COUNTS
    weighted = classifiers[0].fit(X, Y, sample_weight=counts)
    repeated = classifiers[1].fit(X.repeat(counts, 0), Y.repeat(counts))
    assert weighted.n_iter_ == repeated.n_iter_
    np.testing.assert_allclose(weighted.validation_scores_, repeated.validation_scores_, rtol=1e-4)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-4)


def test_whole_weights_count_and_others_are_relative():
    np.testing.assert_array_equal(checked_weights([2, 0, 3], 3), [2, 0, 3])
    np.testing.assert_allclose(checked_weights([0.1, 0.0, 0.3], 3), [0.5, 0.0, 1.5])
    small = quick().fit(X, Y, sample_weight=np.full(40, 0.25 / 40))
    plain = quick().fit(X, Y)
    assert small.learner_.num_data == pytest.approx(40)
    np.testing.assert_allclose(small.predict_proba(X), plain.predict_proba(X), rtol=1e-4)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0, 1.0], "must not be negative, got -1.0"),
        ([0.0, 0.0, 0.0], "zero for all rows"),
        ([1.0, 1.0], r"one weight per row, shape \(3,\)"),
        ([1.0, np.nan, 1.0], "NaN"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        checked_weights(weights, 3)


def test_a_class_without_weight_is_no_class():
    classifier = quick().fit([[0.0], [1.0], [2.0]], [0, 1, 2], sample_weight=[1, 1, 0])
    assert classifier.classes_.tolist() == [0, 1]
