import math

import numpy as np
import pytest
import torch

from felbo import DirichletPrior, UniformPrior


def test_the_same_dirichlet_everywhere():
    prior = DirichletPrior([0.5, 1.0, 2.5])
    found = prior(torch.randn(6, 2))
    torch.testing.assert_close(found.concentration, torch.tensor([0.5, 1.0, 2.5]))
    torch.testing.assert_close(found.mean, torch.tensor([0.125, 0.25, 0.625]))
    assert found.batch_shape == ()


def test_uniform_density_is_constant():
    found = UniformPrior(4)(torch.zeros(1, 2))
    probs = torch.distributions.Dirichlet(torch.full((4,), 0.3)).sample((50,))
    # The simplex of K = 4 has volume 1 / 3!.
    torch.testing.assert_close(found.log_prob(probs), torch.full((50,), math.log(6)))


@pytest.mark.parametrize("given", [[1, 2], (1.0, 2.0), torch.tensor([1, 2])])
def test_numbers_of_any_kind(given):
    assert DirichletPrior(given).concentration.dtype == torch.get_default_dtype()
    assert DirichletPrior(given).concentration.tolist() == [1.0, 2.0]


def test_float64_is_kept():
    given = torch.tensor([0.1, 0.3], dtype=torch.float64)
    assert torch.equal(DirichletPrior(given).concentration, given)


@pytest.mark.parametrize("bad", [[0.0, 1.0], [-1.0, 1.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_values_that_are_not_positive_and_finite_are_refused(bad):
    with pytest.raises(ValueError, match="positive and finite"):
        DirichletPrior(bad)


@pytest.mark.parametrize("bad", [[1.0], 2.0, [[1.0, 1.0]]])
def test_shapes_other_than_a_vector_of_classes_are_refused(bad):
    with pytest.raises(ValueError, match="vector of K"):
        DirichletPrior(bad)


def test_half_a_class_is_refused():
    with pytest.raises(ValueError, match=r"num_classes must be a whole number .* got 2\.5"):
        UniformPrior(2.5)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="at least 2 classes, got 1"):
        UniformPrior(1)


@pytest.mark.parametrize("share", [lambda beta: beta, lambda beta: torch.as_tensor(beta)])
def test_the_concentration_is_a_copy_of_what_was_given(share):
    beta = np.array([1.0, 2.0])
    prior = DirichletPrior(share(beta))
    beta[:] = 9.0
    assert prior.concentration.tolist() == [1.0, 2.0]
    assert prior(torch.zeros(1)).concentration.tolist() == [1.0, 2.0]


def test_a_change_counts_from_the_next_call_on_however_it_is_made():
    prior, x = DirichletPrior([1.0, 2.0]), torch.zeros(1)
    first = prior(x).concentration
    prior.concentration.data.fill_(9.0)
    assert prior(x).concentration.tolist() == [9.0, 9.0]
    prior.concentration.numpy()[0] = 3.0
    assert prior(x).concentration.tolist() == [3.0, 9.0]
    assert first.tolist() == [1.0, 2.0]


def test_nobody_changes_a_prior_through_what_it_returned():
    prior = DirichletPrior([1.0, 2.0])
    prior(torch.zeros(1)).concentration.data.fill_(9.0)
    assert prior(torch.zeros(1)).concentration.tolist() == [1.0, 2.0]


def test_a_prior_made_in_inference_mode_can_be_trained_with():
    with torch.inference_mode():
        prior = UniformPrior(2)
        assert prior(torch.zeros(1)).mean.tolist() == [0.5, 0.5]
    logits = torch.randn(3, 2, requires_grad=True)
    (prior(logits).concentration * logits).sum().backward()
    assert logits.grad is not None


def test_inputs_of_several_tensors_have_a_device_too():
    assert UniformPrior(3)({"ids": torch.zeros(2, 4)}).batch_shape == ()
