"""A loss or weights that are not finite end a training, with the model as it was before."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import felbo

from .small import changed, data, elbo, fit, network, normalised, state


@pytest.mark.parametrize("loader", [True, False])
@pytest.mark.parametrize("make", [network, normalised])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_bad_input_changes_neither_weights_nor_statistics(make, loader, bad):
    x, y = data()
    x[40, 1] = bad
    model, steps = felbo.MAP(make()), []
    objective = elbo()

    def watched(model_, inputs, labels):
        steps.append((state(model), bool(inputs.isfinite().all())))
        return objective(model_, inputs, labels)

    given = DataLoader(TensorDataset(x, y), 10) if loader else (x, y)
    with pytest.raises(FloatingPointError, match=r"loss became nan.*inputs of this batch hold NaN"):
        fit(model, given, watched, batch_size=None if loader else 10, seed=0)
    assert [finite for _, finite in steps] == [True] * (len(steps) - 1) + [False]
    before = steps[-1][0]
    assert changed(model, before) == set()
    assert all(value.isfinite().all() for value in before.values())


def test_the_message_tells_a_rate_too_large_from_a_bad_input():
    def huge(parameters):
        return torch.optim.SGD(parameters, lr=1e38)

    with pytest.raises(FloatingPointError, match=r"smaller learning rate.*step was not taken"):
        fit(felbo.MAP(network()), data(), optimizer=huge, epochs=5)


def test_weights_that_the_last_step_ruined_are_noticed():
    model = felbo.MAP(network())

    def ruin(m, x, y):
        return felbo.Loss(*[1e30 * m(x).mean()] * 3)

    with pytest.raises(FloatingPointError, match="weights that are not finite"):
        fit(model, data(), ruin, epochs=1, optimizer=lambda p: torch.optim.SGD(p, lr=1e10))
