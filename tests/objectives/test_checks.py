import numpy as np
import pytest
import torch
from torch.distributions import Dirichlet

import felbo
from felbo import MAP, FunctionSpaceELBO, NegativeLogLikelihood, UniformPrior
from felbo.networks import mlp
from felbo.objectives.checks import check_labels, check_prior


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_integer_labels_in_range_pass(dtype):
    check_labels(torch.tensor([0, 2, 1], dtype=dtype), batch=3, classes=3)


@pytest.mark.parametrize("shape", [(2,), (3, 1), (3, 4), ()])
def test_labels_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"shape \[3\], got"):
        check_labels(torch.zeros(shape, dtype=torch.int64), batch=3, classes=4)


def test_a_batch_without_items_is_refused():
    x, y = torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64)
    for objective in (FunctionSpaceELBO(UniformPrior(3), 10), NegativeLogLikelihood()):
        with pytest.raises(ValueError, match="batch holds no items"):
            objective(MAP(mlp(2, (4,), 3)), x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_labels_that_are_no_integers_are_refused(dtype):
    with pytest.raises(TypeError, match=f"integer class indices .* got {dtype}"):
        check_labels(torch.zeros(3, dtype=dtype), batch=3, classes=4)


@pytest.mark.parametrize(("labels", "span"), [([0, 1, 4], "0 to 4"), ([-1, 2, 3], "-1 to 3")])
def test_labels_out_of_range_are_refused(labels, span):
    with pytest.raises(ValueError, match=f"0 … 3.* 4 classes; got labels from {span}"):
        check_labels(torch.tensor(labels), batch=3, classes=4)


@pytest.mark.parametrize("shape", [(4,), (5, 4)])
def test_priors_for_all_points_or_for_each_pass(shape):
    check_prior(torch.ones(shape), points=5, classes=4)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((5, 3), "prior has 3 classes and the model 4"),
        ((), "prior has 0 classes"),
        ((6, 4), r"batch shape \[5\] .* got \[6\]"),
        ((1, 4), r"got \[1\]"),
        ((2, 5, 4), r"got \[2, 5\]"),
    ],
)
def test_priors_that_do_not_fit_are_refused(shape, message):
    with pytest.raises(ValueError, match=message):
        check_prior(torch.ones(shape), points=5, classes=4)


@pytest.mark.parametrize("labels", [[0, 1, 2], np.array([0, 1, 2])])
def test_labels_that_are_no_tensor_are_refused(labels):
    with pytest.raises(TypeError, match=f"a tensor .* got {type(labels).__name__}: .*as_tensor"):
        check_labels(labels, batch=3, classes=4)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (lambda x: torch.ones(3), "must return a torch.distributions.Dirichlet, got Tensor"),
        (lambda x: None, "got NoneType"),
        (3, "A prior maps points to a .*Dirichlet, such as .*; got 3"),
        (torch.ones(3), "got tensor"),
        (felbo.UniformPrior, "got <class .*UniformPrior"),
    ],
)
def test_what_is_no_prior_is_refused(prior, message):
    x, y = torch.zeros(2, 2), torch.tensor([0, 1])
    model = felbo.MAP(mlp(2, (), 3))
    with pytest.raises(TypeError, match=message):
        felbo.FunctionSpaceELBO(prior, 50)(model, x, y)
    with pytest.raises(TypeError, match=message):
        felbo.BeliefMatching(prior)(felbo.ConcentrationNetwork(mlp(2, (), 3)), x, y)


@pytest.mark.parametrize("implementation", ["plain", "fused"])
def test_a_prior_is_a_constant_even_if_it_holds_a_parameter(implementation):
    beta = torch.nn.Parameter(torch.ones(3))
    objective = felbo.FunctionSpaceELBO(
        lambda x: Dirichlet(beta), 50, implementation=implementation
    )
    loss = objective(felbo.MAP(mlp(2, (), 3)), torch.zeros(2, 2), torch.tensor([0, 1]))
    loss.total.backward()
    assert beta.grad is None
