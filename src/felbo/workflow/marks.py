"""Numbers whose marks pandas takes for text: decimal commas, and marks between thousands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from felbo.workflow.errors import InputError

AS_TEXT = "--decimal . to take them as text"


def number(decimal: str) -> str:
    """Return a pattern of numbers with a decimal mark, or without any."""
    return rf"\s*[+-]?(\d+[{decimal}]?\d*|[{decimal}]\d+)([eE][+-]?\d+)?\s*"


def grouped(mark: str, decimal: str) -> str:
    """Return a pattern of numbers with a mark between thousands, such as 1,234.5."""
    return rf"\s*[+-]?[1-9]\d{{0,2}}([{mark}]\d{{3}})+([{decimal}]\d*)?\s*"


def refuse_marks(frame: Any, path: Path, decimal: str | None) -> None:
    """Raise if columns of text are numbers with other marks: they would become categories.

    Args:
        frame: the columns of text.
        path: where they come from, for messages.
        decimal: mark that was asked for, if any. A point that was asked for takes all that is not
            written with it as text.
    """
    if decimal == ",":
        if points := _matching(frame, ".", grouped(".", ","), number("."), number(",")):
            raise InputError(
                f"{path}: {_shown(frame, points, '.')}, and the decimal mark is a comma. Write all "
                "numbers in the same way, without a mark between thousands."
            )
    elif decimal is None:
        _refuse_commas(frame, path)


def _refuse_commas(frame: Any, path: Path) -> None:
    fractions = _matching(frame, ",", number(","))
    thousands = _matching(frame, ",", grouped(",", "."), number("."))
    if set(thousands) - set(fractions):
        raise InputError(
            f"{path}: {_shown(frame, thousands, ',')}: commas between thousands. Take these out of "
            f"the file, or pass {AS_TEXT}."
        )
    if set(fractions) - set(thousands):
        raise InputError(
            f"{path}: {_shown(frame, fractions, ',')}: with a decimal comma. Pass --decimal , to "
            f"read them as numbers, or {AS_TEXT}."
        )
    if fractions:
        raise InputError(
            f"{path}: {_shown(frame, fractions, ',')}. If commas stand between thousands, take "
            f"them out of the file; if before decimals, pass --decimal , or {AS_TEXT}."
        )


def _matching(frame: Any, mark: str, *patterns: str) -> list[str]:
    """Return the columns with a mark whose values all have one of the patterns."""
    either = "|".join(f"({pattern})" for pattern in patterns)
    marked = [name for name in frame.columns if frame[name].str.contains(mark, regex=False).any()]
    return [name for name in marked if frame[name].dropna().str.fullmatch(either).all()]


def _shown(frame: Any, names: list[str], mark: str) -> str:
    values = frame[names[0]].dropna()
    example = values[values.str.contains(mark, regex=False)].iloc[0]
    listed = ", ".join(map(repr, names[:10]))
    return f"the columns {listed} seem to hold numbers such as {example!r}"
