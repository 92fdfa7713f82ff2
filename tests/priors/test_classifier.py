import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from felbo import MAP, ClassifierPrior, FunctionSpaceELBO
from felbo.networks import mlp


class Counting:
    """An estimator with given answers that counts how often it is asked."""

    def __init__(self, answer):
        self.answer = answer
        self.calls = []

    def predict_proba(self, features):
        self.calls.append(features.copy())
        return self.answer(features)


def half(features):
    return np.full((len(features), 2), 0.5)


def test_mean_is_the_prediction_and_precision_the_sum():
    x = torch.rand(40, 2)
    y = (x.sum(1) > 1).int().numpy()
    forest = RandomForestClassifier(5, max_depth=2, random_state=0).fit(x.numpy(), y)
    expected = torch.as_tensor(forest.predict_proba(x.numpy())).float()
    found = ClassifierPrior(forest, precision=7.0, smoothing=0.1)(x)
    torch.testing.assert_close(found.mean, 0.9 * expected + 0.05)
    torch.testing.assert_close(found.concentration.sum(-1), torch.full((40,), 7.0))
    assert found.batch_shape == (40,)


def test_precision_is_the_number_of_classes_unless_given():
    found = ClassifierPrior(Counting(lambda f: np.full((len(f), 5), 0.2)))(torch.zeros(3, 2))
    torch.testing.assert_close(found.concentration, torch.ones(3, 5))


def test_predictions_of_exactly_zero_and_one_give_a_finite_kl_and_gradient():
    x = torch.tensor([[0.0], [1.0]])
    tree = DecisionTreeClassifier().fit(x.numpy(), [0, 1])
    assert set(tree.predict_proba(x.numpy()).ravel()) == {0.0, 1.0}
    model = MAP(mlp(1, (4,), 2))
    loss = FunctionSpaceELBO(ClassifierPrior(tree), num_data=2)(model, x, torch.tensor([0, 1]))
    loss.total.backward()
    assert loss.kl.isfinite()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_every_call_asks_again_and_settings_may_change():
    estimator = Counting(half)
    prior, x = ClassifierPrior(estimator, precision=2.0), torch.zeros(3, 2)
    assert prior(x).concentration.sum(-1).tolist() == pytest.approx([2.0] * 3)
    prior.precision = 6.0
    assert prior(x).concentration.sum(-1).tolist() == pytest.approx([6.0] * 3)
    x.data.fill_(1.0)
    prior(x)
    assert (estimator.calls[-1] == 1).all()
    prior.precision = -1.0
    with pytest.raises(ValueError, match="precision must be positive"):
        prior(x)


def test_a_refitted_estimator_counts_at_once():
    x = torch.tensor([[0.0], [1.0]])
    tree = DecisionTreeClassifier().fit(x.numpy(), [0, 1])
    prior = ClassifierPrior(tree)
    assert prior(x).mean.argmax(-1).tolist() == [0, 1]
    tree.fit(x.numpy(), [1, 0])
    assert prior(x).mean.argmax(-1).tolist() == [1, 0]


def test_a_changed_answer_changes_nothing_that_was_given_before():
    kept = np.array([[0.3, 0.7]])
    first = ClassifierPrior(Counting(lambda f: kept))(torch.zeros(1, 2))
    kept[:] = [[0.9, 0.1]]
    assert first.mean[0, 1].item() == pytest.approx(0.7, abs=1e-3)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_works_in_every_mode_of_torch(mode):
    prior = ClassifierPrior(Counting(half))
    with mode():
        inside = prior(torch.zeros(3, 2)).concentration
    torch.testing.assert_close(inside.clone(), torch.ones(3, 2))
    model, y = MAP(mlp(2, (4,), 2)), torch.tensor([0, 1, 0])
    FunctionSpaceELBO(prior, num_data=3)(model, torch.randn(3, 2), y).total.backward()


X = np.arange(6.0)[:, None]


def mean_of(labels, at=X, **settings):
    """The mean of the prior that a tree, fitted on these labels, gives."""
    tree = DecisionTreeClassifier().fit(X[: len(labels)], labels)
    prior = ClassifierPrior(tree, smoothing=1e-6, **settings)
    return prior(torch.as_tensor(at, dtype=torch.float32)).mean


def test_columns_are_put_in_the_order_of_the_labels():
    class Backwards:
        """A classifier whose columns run from the last label to the first."""

        def __init__(self, tree):
            self.tree, self.classes_ = tree, tree.classes_[::-1]

        def predict_proba(self, features):
            return self.tree.predict_proba(features)[:, ::-1]

    labels = [0, 1, 2, 0, 1, 2]
    backwards = Backwards(DecisionTreeClassifier().fit(X, labels))
    found = ClassifierPrior(backwards)(torch.as_tensor(X).float()).mean
    assert found.argmax(-1).tolist() == labels


def test_classes_that_the_estimator_never_saw_get_the_floor():
    tree = DecisionTreeClassifier().fit(X, [3, 1, 3, 1, 3, 1])
    found = ClassifierPrior(tree, precision=8.0, smoothing=0.1, num_classes=4)(torch.zeros(1, 1))
    # 8 · (0.9 p + 0.1 / 4)
    torch.testing.assert_close(found.concentration, torch.tensor([[0.2, 0.2, 0.2, 7.4]]))
    assert mean_of([3, 1, 3, 1, 3, 1], num_classes=4).argmax(-1).tolist() == [3, 1, 3, 1, 3, 1]


def test_the_default_precision_counts_the_classes_that_were_never_seen():
    tree = DecisionTreeClassifier().fit(X[:2], [0, 1])
    found = ClassifierPrior(tree, num_classes=5)(torch.zeros(1, 1))
    assert found.concentration.sum().item() == pytest.approx(5.0)


def test_labels_of_any_kind_in_the_order_that_is_given():
    names = ["wolf", "cat", "dog", "wolf", "cat", "dog"]
    order = ["wolf", "dog", "cat"]  # alphabetically the cat comes first
    assert mean_of(names, classes=order).argmax(-1).tolist() == [0, 2, 1, 0, 2, 1]
    assert mean_of(names, classes=[*order, "eel"]).shape == (6, 4)
    assert mean_of([10, 30, 20], at=X[:3], classes=[30, 20, 10]).argmax(-1).tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    "labels", [["b", "a"], [1.0, 0.0], [True, False], np.array(["b", "a"], dtype=object)]
)
def test_labels_that_are_no_whole_numbers_are_refused_without_their_order(labels):
    with pytest.raises(ValueError, match=r"pass classes=\[...\]"):
        mean_of(labels)


@pytest.mark.parametrize(
    ("labels", "settings", "message"),
    [
        ([0, 2], {}, r"\[0, 2\], which are not within 0 … 1.*num_classes=K"),
        ([1, 2], {}, "not within 0 … 1"),
        ([-1, 1], {"num_classes": 2}, "not within 0 … 1"),
        ([0, 5], {"num_classes": 5}, "not within 0 … 4"),
        (["a", "b"], {"classes": ["a", "c"]}, r"has the labels \['b'\]"),
        (["a", "b"], {"classes": ["a", "b", "a"]}, "name each label once"),
        (["a", "b"], {"classes": ["a", "b"], "num_classes": 3}, "names 2 labels, num_classes is 3"),
    ],
)
def test_labels_that_do_not_fit_are_refused_when_the_prior_is_made(labels, settings, message):
    tree = DecisionTreeClassifier().fit(X[: len(labels)], labels)
    with pytest.raises(ValueError, match=message):
        ClassifierPrior(tree, **settings)


def test_an_estimator_that_does_not_name_its_columns_must_have_them_all_in_order():
    with pytest.raises(ValueError, match="Counting has no classes_"):
        ClassifierPrior(Counting(half), num_classes=3)(torch.zeros(1, 2))
    with pytest.raises(ValueError, match="omit `classes`"):
        ClassifierPrior(Counting(half), classes=["a", "b"])(torch.zeros(1, 2))
    assert ClassifierPrior(Counting(half), num_classes=2)(torch.zeros(1, 2)).batch_shape == (1,)


def test_several_outputs_are_refused():
    forest = RandomForestClassifier(2).fit(X, np.zeros((6, 2)))
    with pytest.raises(ValueError, match="single output"):
        ClassifierPrior(forest)


def test_half_precision_points_and_inputs_of_several_tensors():
    assert ClassifierPrior(Counting(half))(torch.zeros(3, 2).bfloat16()).batch_shape == (3,)
    with pytest.raises(TypeError, match="one tensor"):
        ClassifierPrior(Counting(half))((torch.zeros(3, 2), torch.zeros(3, 2)))


def test_images_are_flattened_for_the_estimator():
    estimator = Counting(half)
    x = torch.randn(3, 1, 4, 4, requires_grad=True)
    ClassifierPrior(estimator)(x)
    np.testing.assert_array_equal(estimator.calls[0], x.detach().numpy().reshape(3, 16))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda f: np.full(len(f), 0.5), "should return .3, K."),
        (lambda f: np.full((1, 2), 0.5), "should return .3, K."),
        (lambda f: np.full((len(f), 2), np.nan), "sum to 1"),
        (lambda f: np.tile([1.5, -0.5], (len(f), 1)), "from -0.5 to 1.5"),
        (lambda f: np.full((len(f), 2), 0.4), "sums from 0.8"),
    ],
)
def test_answers_that_are_not_probabilities_are_refused(answer, message):
    with pytest.raises(ValueError, match=message):
        ClassifierPrior(Counting(answer))(torch.zeros(3, 2))


def test_impossible_settings_are_refused():
    with pytest.raises(TypeError, match="object has no predict_proba"):
        ClassifierPrior(object())
    with pytest.raises(ValueError, match="precision must be positive and finite, got 0"):
        ClassifierPrior(Counting(half), precision=0)
    with pytest.raises(ValueError, match="smoothing must lie in"):
        ClassifierPrior(Counting(half), smoothing=0.0)
