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


class Spoiled(torch.autograd.Function):
    """The identity, with NaN as its gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.nan


def spoiling(after):
    """An objective whose gradient becomes NaN after some steps, with a finite loss."""
    calls, objective = [], elbo()

    def loss(model, x, y):
        calls.append(len(y))
        found = objective(model, x, y)
        return found._replace(total=Spoiled.apply(found.total)) if len(calls) > after else found

    return loss


@pytest.mark.parametrize("after", [3, 120])
@pytest.mark.parametrize("make", [network, normalised])
def test_a_gradient_that_is_not_finite_leaves_the_last_good_weights(make, after):
    model = felbo.MAP(make())
    twin = felbo.MAP(make())
    twin.load_state_dict(model.state_dict())
    with pytest.raises(
        felbo.errors.DivergedError, match=r"^Step \d+: The loss became nan"
    ) as caught:
        fit(model, data(), spoiling(after), epochs=200)
    kept = after // 50 * 50
    assert caught.value.step == after + 1
    assert caught.value.term == "nll and kl"
    assert len(caught.value.history) == after + 1
    assert f"weights after step {kept}." in str(caught.value)
    if kept:
        fit(twin, data(), epochs=kept)
    assert changed(model, state(twin)) == set()


def test_the_last_step_of_all_leaves_the_last_good_weights_too(tmp_path):
    model = felbo.MAP(network())
    before = state(model)
    with pytest.raises(felbo.errors.DivergedError, match="weights that are not finite") as caught:
        fit(model, data(), spoiling(2), epochs=3)
    assert caught.value.term == "weights"
    assert changed(model, before) == set()
    # Such weights are not saved.
    with pytest.raises(felbo.errors.DivergedError):
        fit(model, data(), spoiling(2), epochs=3, checkpoint=tmp_path)
    with pytest.raises(felbo.errors.DivergedError, match="Step 3: The last steps"):
        fit(model, data(), spoiling(0), epochs=3, checkpoint=tmp_path)


def test_the_term_and_the_suspect_are_named():
    def infinite_kl(model, x, y):
        found = elbo()(model, x, y)
        return felbo.Loss(found.total + torch.inf, found.nll, found.kl + torch.inf)

    with pytest.raises(felbo.errors.DivergedError, match="look at the prior") as caught:
        fit(felbo.MAP(network()), data(), infinite_kl)
    assert (caught.value.term, caught.value.step) == ("kl", 0)
    x, y = data()
    x[3, 1] = torch.nan
    with pytest.raises(felbo.errors.NonFiniteInputError, match="first in its item 3"):
        fit(felbo.MAP(network()), (x, y))
    assert issubclass(felbo.errors.NonFiniteInputError, felbo.errors.DataError)
    with pytest.raises(felbo.errors.DivergedError, match=r"NaN, first in network\.1\.weight"):
        fit(felbo.MAP(network()), data(), spoiling(2), epochs=9)


def test_batches_that_change_are_named():
    model = felbo.MAP(network())
    first, second = torch.randn(4, 2), torch.randn(4, 3)
    loader = DataLoader([(x, 1) for x in [*first, *second]], batch_size=4)
    with pytest.raises(felbo.errors.ShapeError, match=r"had the shapes \[\[2\]\].* have \[\[3\]\]"):
        fit(model, loader, batch_size="auto")


def test_a_single_item_from_a_stream_under_batch_normalisation_is_named():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return zip(torch.randn(5, 2), torch.zeros(5).long(), strict=True)

    with pytest.raises(felbo.errors.DataError, match="A batch of one item came"):
        fit(felbo.MAP(normalised()), DataLoader(Stream(), batch_size=4), batch_size="auto")
