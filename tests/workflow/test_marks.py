"""Numbers with commas and points that would silently become categories."""

import pandas as pd
import pytest

from felbo.workflow.csv import CSV
from felbo.workflow.errors import InputError

FRACTIONS = "with a decimal comma. Pass --decimal ,"
THOUSANDS = "commas between thousands. Take these out of the file"
EITHER = "If commas stand between thousands, take them out of the file; if before decimals, pass"
POINTS = "and the decimal mark is a comma"


def read(tmp_path, *columns, decimal=None):
    """Write columns of text to a file with semicolons, and read it."""
    names = ["a", "b"][: len(columns)]
    frame = pd.DataFrame(dict(zip(names, columns, strict=True)) | {"y": ["u"] * len(columns[0])})
    frame.to_csv(tmp_path / "t.csv", sep=";", index=False)
    return CSV(tmp_path / "t.csv", separator=";", decimal=decimal).read(literal=["y"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["0,5", "12,25"], FRACTIONS),
        (["0,125", "0,250"], FRACTIONS),  # no thousands begin with a zero
        (["1,5e3", None, "-,5"], FRACTIONS),
        (["1,234,567", "12"], THOUSANDS),
        (["1,234.50", "999.5"], THOUSANDS),
        (["1,234", "567", "-12,000"], EITHER),
    ],
)
def test_commas_are_refused_with_what_they_may_be(values, words, tmp_path):
    with pytest.raises(InputError, match="seem to hold numbers") as refused:
        read(tmp_path, values)
    assert words in str(refused.value)
    assert repr(next(value for value in values if value and "," in value)) in str(refused.value)
    assert read(tmp_path, values, decimal=".")["a"].dtype == object  # text that was asked for


def test_another_column_tells_what_commas_are(tmp_path):
    with pytest.raises(InputError) as refused:
        read(tmp_path, ["1,234", "2,345"], ["1,234,567", "8"])
    assert THOUSANDS in str(refused.value)
    with pytest.raises(InputError) as refused:
        read(tmp_path, ["1,234", "2,345"], ["0,5", "8"])
    assert FRACTIONS in str(refused.value)


@pytest.mark.parametrize("values", [["1.234,50", "7,5"], ["1.5", "2.25"], ["1.234", "7"]])
def test_points_beside_a_decimal_comma_are_refused(values, tmp_path):
    with pytest.raises(InputError) as refused:
        read(tmp_path, values, decimal=",")
    assert POINTS in str(refused.value)


@pytest.mark.parametrize("decimal", [None, ","])
@pytest.mark.parametrize("values", [["a, b", "1,2"], ["1,2,3", "4,5"], ["1.2.3", "1.2"]])
def test_text_with_marks_is_text(values, decimal, tmp_path):
    assert read(tmp_path, values, decimal=decimal)["a"].tolist() == values


def test_a_decimal_comma_is_read(tmp_path):
    assert read(tmp_path, ["1,234", "-0,5"], decimal=",")["a"].tolist() == [1.234, -0.5]
