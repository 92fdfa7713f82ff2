"""Bins of the bar chart."""

import pytest

from felbo.report.counts import _bin, _label


def test_small_numbers_have_a_bar_each():
    assert [_bin(value) for value in range(11)] == list(range(11))
    assert [_label(place) for place in (0, 3, 10)] == ["0", "3", "10"]


@pytest.mark.parametrize(
    ("value", "label"), [(11, "11–20"), (20, "11–20"), (21, "21–40"), (2000, "1281–2560")]
)
def test_larger_numbers_share_a_bar_per_doubling(value, label):
    assert _label(_bin(value)) == label
