"""Class weights in the likelihood: torch's factors, scikit-learn's solution."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_class_weight
from torch import nn

import felbo
from felbo.objectives import expected_nll

WEIGHTS = [0.5, 2.0, 0.0]
LABELS = torch.tensor([0, 1, 1, 2, 0])


def draws(members=3, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(members, 5, 3, generator=generator, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_item_counts_by_the_factor_of_torch(dtype):
    logits, weights = draws(dtype=dtype), torch.tensor(WEIGHTS, dtype=torch.float64)
    expected = torch.stack(
        [F.cross_entropy(one, LABELS, weights.to(dtype), reduction="none") for one in logits]
    ).mean()
    torch.testing.assert_close(expected_nll(logits, LABELS, weights), expected)
    by_hand = -(weights[LABELS] * logits.double().log_softmax(-1)[:, range(5), LABELS]).mean()
    assert float(expected) == pytest.approx(float(by_hand), rel=1e-5)


def test_a_batch_does_not_change_the_weight_of_its_items():
    logits, weights = draws(), torch.tensor(WEIGHTS, dtype=torch.float64)
    alone = [expected_nll(logits[:, i : i + 1], LABELS[i : i + 1], weights) for i in range(5)]
    torch.testing.assert_close(expected_nll(logits, LABELS, weights), torch.stack(alone).mean())


def test_weights_of_one_change_nothing():
    ones = torch.ones(3, dtype=torch.float64)
    found, expected = expected_nll(draws(), LABELS, ones), expected_nll(draws(), LABELS)
    torch.testing.assert_close(found, expected)


OBJECTIVES = {
    "likelihood": felbo.NegativeLogLikelihood,
    "function space": lambda **o: felbo.FunctionSpaceELBO(felbo.UniformPrior(3), 5, **o),
    "everywhere": lambda **o: felbo.FunctionSpaceELBO.everywhere(felbo.UniformPrior(3), 5, **o),
    "weight space": lambda **o: felbo.WeightSpaceELBO(5, **o),
}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("kind", [list, np.asarray, torch.tensor])
def test_objectives_weigh_their_likelihood_and_nothing_else(name, kind):
    network, x = nn.Linear(2, 3), torch.randn(5, 2)
    model = felbo.MAP(network)
    torch.manual_seed(0)
    weighted = OBJECTIVES[name](class_weights=kind(WEIGHTS))(model, x, LABELS)
    torch.manual_seed(0)
    plain = OBJECTIVES[name]()(model, x, LABELS)
    items = F.cross_entropy(network(x), LABELS, reduction="none")
    expected = (torch.tensor(WEIGHTS)[LABELS] * items).mean()
    torch.testing.assert_close(weighted.nll, expected)
    torch.testing.assert_close(weighted.kl, plain.kl)
    torch.testing.assert_close(weighted.total - weighted.nll, plain.total - plain.nll)


def test_training_finds_the_solution_of_scikit_learn():
    features, labels = load_iris(return_X_y=True)
    kept = np.r_[0:50, 50:70, 100:105]  # unbalanced
    x, y = (features[kept] - features.mean(0)) / features.std(0), labels[kept]
    balanced = compute_class_weight("balanced", classes=np.arange(3), y=y)
    assert np.mean(balanced[y]) == pytest.approx(1.0)  # the prior keeps its strength
    penalty = 0.01
    exact = LogisticRegression(
        C=1 / (penalty * len(y)), class_weight="balanced", tol=1e-10, max_iter=10_000
    ).fit(x, y)
    model = felbo.MAP(nn.Sequential(nn.Linear(4, 3)).double())
    likelihood = felbo.NegativeLogLikelihood(class_weights=balanced)

    def ridge(m, inputs, targets):
        total, nll, kl = likelihood(m, inputs, targets)
        return felbo.Loss(total + penalty / 2 * m.network[0].weight.square().sum(), nll, kl)

    def search(parameters):
        return torch.optim.LBFGS(parameters, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    felbo.fit(model, ridge, (x, y), epochs=20, batch_size=None, optimizer=search, progress=False)
    np.testing.assert_allclose(model.network[0].weight.detach(), exact.coef_, atol=1e-3)


def test_accumulated_batches_have_the_weights_of_one_large_batch():
    x, y = torch.randn(40, 2), torch.arange(40) % 3
    models = [felbo.MAP(nn.Sequential(nn.Linear(2, 3))) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    for model, (size, times) in zip(models, ((5, 4), (20, 1)), strict=True):
        batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), size)
        objective = felbo.NegativeLogLikelihood(class_weights=WEIGHTS)
        felbo.fit(
            model,
            objective,
            batches,
            epochs=3,
            accumulate=times,
            optimizer=lambda p: torch.optim.SGD(p, lr=0.5),
            progress=False,
        )
    found, expected = (model.network[0].weight for model in models)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_weights_is_refused():
    for bad in ([-1.0, 1.0], [float("nan"), 1.0], [float("inf"), 1.0], [[1.0, 1.0]], 2.0):
        with pytest.raises(ValueError, match="one finite number ≥ 0 per class"):
            felbo.NegativeLogLikelihood(class_weights=bad)
    model, objective = felbo.MAP(nn.Linear(2, 3)), felbo.NegativeLogLikelihood(class_weights=[1, 2])
    with pytest.raises(ValueError, match="2 class_weights for 3 classes"):
        objective(model, torch.zeros(5, 2), LABELS)
    weighted = felbo.NegativeLogLikelihood(class_weights=WEIGHTS)
    with pytest.raises(ValueError, match="Labels must lie in 0 … 2"):
        weighted(model, torch.zeros(5, 2), LABELS + 1)
