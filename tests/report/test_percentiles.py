"""What the percentile figure shows, read back from matplotlib."""

import numpy as np
import pytest

from felbo.paper.results import Summary
from felbo.report import percentiles


def point(metric, model, step, low, middle, high):
    return Summary("toy", metric, model, float(step), 0.0, 0.0, 50, low, middle, high)


@pytest.fixture
def figure(monkeypatch):
    kept = []
    monkeypatch.setattr(percentiles, "save", lambda figure, stem: kept.append(figure))
    points = [point("log10_kl", "a", step, -step - 1.0, -step, 1.0 - step) for step in (2, 0, 1)]
    points += [point("seconds", "a", step, 0.0, 0.25 * step, 9.0) for step in (0, 1, 2)]
    percentiles.draw_percentiles(
        points, "x", metric="log10_kl", ylabel="KL", title="T", clock="seconds"
    )
    return kept[0]


def test_medians_are_powers_of_ten_in_the_order_of_steps(figure):
    line = figure.axes[0].lines[0]
    np.testing.assert_allclose(line.get_xdata(), [0, 1, 2])
    np.testing.assert_allclose(line.get_ydata(), [1.0, 0.1, 0.01])
    assert figure.axes[0].get_yscale() == "log"


def test_second_panel_has_the_median_time(figure):
    np.testing.assert_allclose(figure.axes[1].lines[0].get_xdata(), [0.0, 0.25, 0.5])


def test_band_goes_from_10th_to_90th_percentile(figure):
    corners = figure.axes[0].collections[0].get_paths()[0].vertices
    at_start = corners[corners[:, 0] == 0.0][:, 1]
    assert at_start.min() == pytest.approx(0.1)
    assert at_start.max() == pytest.approx(10.0)
