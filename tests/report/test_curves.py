"""Curves over a shift."""

from felbo.report.curves import by_kind_and_way


def test_a_colour_for_each_way_and_a_line_for_each_kind():
    names = ["A", "A x", "B", "B x"]
    look = by_kind_and_way(names, kinds=("A", "B"), ways=("", "x"))
    assert list(look) == names
    assert look["A"]["color"] == look["B"]["color"] != look["A x"]["color"]
    assert look["A"]["linestyle"] == look["A x"]["linestyle"] != look["B"]["linestyle"]
