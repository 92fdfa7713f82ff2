"""The history survives errors, plots itself, and says what happened."""

import matplotlib.figure
import pytest
import torch

import felbo
from felbo.training.history import ValidationScores

from .small import data, fit, network


def history(validated=True):
    epochs = []
    for number, (nll, best) in enumerate([(0.9, True), (0.5, True), (0.6, False)]):
        scores = ValidationScores(nll + 0.1, nll, 80.0 + number) if validated else None
        epochs.append(felbo.Epoch(number, nll + 1, nll, 2.0, 0.1, scores, best and validated))
    return felbo.History(epochs)


def test_it_is_read_by_columns_or_by_epochs():
    found = history()
    assert (len(found), found.total, found.nll) == (3, [1.9, 1.5, 1.6], [0.9, 0.5, 0.6])
    assert found.kl == [2.0] * 3
    assert found.learning_rate == [0.1] * 3
    assert [scores.accuracy for scores in found.validation] == [80.0, 81.0, 82.0]
    assert found.best.number == 1
    assert history(validated=False).best is None
    assert history(validated=False).validation == []
    assert str(found.epochs[1]) == (
        "loss 1.5000  nll 0.5000  kl 2.000  validation nll 0.5000  accuracy 81.0 %"
    )


@pytest.mark.parametrize("validated", [True, False])
def test_it_plots_its_curves(validated, tmp_path):
    figure = history(validated).plot()
    assert isinstance(figure, matplotlib.figure.Figure)
    curves = {line.get_label(): list(line.get_ydata()) for line in figure.axes[0].lines}
    assert curves["loss"] == [1.9, 1.5, 1.6]
    assert curves["nll"] == [0.9, 0.5, 0.6]
    assert ("validation nll" in curves) == validated
    if validated:
        assert curves["validation nll"] == [0.9, 0.5, 0.6]
        assert curves["best epoch"] == [0, 1]  # a vertical line
        assert list(figure.axes[1].lines[0].get_ydata()) == [80.0, 81.0, 82.0]
    figure.savefig(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5000


def test_an_empty_history_has_nothing_to_plot():
    with pytest.raises(ValueError, match="nothing to plot"):
        felbo.History().plot()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_errors_and_interrupts_carry_the_history(error):
    model, steps = felbo.MAP(network()), []

    def failing(model_, x, y):
        steps.append(1)
        if len(steps) == 3:
            raise error("power failure")
        return felbo.NegativeLogLikelihood()(model_, x, y)

    expected = fit(felbo.MAP(network()), data(), felbo.NegativeLogLikelihood(), epochs=2)
    with pytest.raises(error, match="history of 2 finished epochs") as caught:
        fit(model, data(), failing)
    assert len(caught.value.history) == len(expected) == 2
    assert caught.value.history.epochs[1].number == 1


def test_a_divergence_carries_the_history_too():
    def huge(parameters):
        return torch.optim.SGD(parameters, lr=1e38)

    with pytest.raises(FloatingPointError) as caught:
        fit(felbo.MAP(network()), data(), optimizer=huge, epochs=5)
    assert 1 <= len(caught.value.history) < 5
    with pytest.raises(FloatingPointError) as caught:
        fit(felbo.MAP(network()), (data()[0] * torch.nan, data()[1]))
    assert len(caught.value.history) == 0
