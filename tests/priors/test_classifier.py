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


def test_the_same_tensor_is_evaluated_once_and_again_after_a_change_in_place():
    estimator = Counting(half)
    prior, x = ClassifierPrior(estimator), torch.zeros(3, 2)
    first = prior(x).concentration
    assert prior(x).concentration is first
    assert len(estimator.calls) == 1
    x += 1
    prior(x)
    assert len(estimator.calls) == 2
    assert (estimator.calls[1] == 1).all()
    prior(x.clone())
    assert len(estimator.calls) == 3


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
    with pytest.raises(ValueError, match="precision must be positive, got 0"):
        ClassifierPrior(Counting(half), precision=0)
    with pytest.raises(ValueError, match="smoothing must lie in"):
        ClassifierPrior(Counting(half), smoothing=0.0)
