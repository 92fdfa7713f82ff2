"""Count values of new rows that were not there in training, or are missing."""

from __future__ import annotations

from collections import Counter
from typing import Any

from felbo.estimator import FunctionSpaceClassifier
from felbo.estimator.tables import TableEncoder

# Values that a note names.
SHOWN = 5


class Unseen:
    """Counts missing values, and categories that a classifier does not know, chunk by chunk.

    Such a category has zeros in all columns of its encoding: it is predicted, and less surely the
    more it matters. A missing number counts as the median of the training rows, a missing category
    as that of rows where it was missing too, if there were any.
    """

    def __init__(self, classifier: FunctionSpaceClassifier) -> None:
        table = classifier.learner_.table
        names = list(classifier.feature_names_in_)
        columns = [names[position] for position in table.categories]
        known = table.one_hot.categories_ if isinstance(table, TableEncoder) and columns else []
        self._known = {n: set(values) for n, values in zip(columns, known, strict=True)}
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in columns}
        self._numbers = [name for name in names if name not in columns]
        self._missing: Counter[str] = Counter()

    def add(self, chunk: Any) -> None:
        """Count the rows of a chunk."""
        surprising = [name for name, known in self._known.items() if None not in known]
        missing = chunk[[*self._numbers, *surprising]].isna().sum()
        self._missing.update({name: int(count) for name, count in missing.items() if count})
        for name, known in self._known.items():
            values = chunk[name].dropna()
            self._counts[name].update(values[~values.isin(known)].tolist())

    def notes(self) -> list[str]:
        """Return a sentence for each column with values that are missing or not known."""
        found = []
        for name, count in self._missing.items():
            rows = (
                "1 row has no value and counts"
                if count == 1
                else f"{count} rows have no value and count"
            )
            as_what = (
                "the median of the training rows"
                if name in self._numbers
                else "none of the known ones"
            )
            found.append(f"Column {name!r}: {rows} as {as_what}.")
        for name, counts in self._counts.items():
            if counts:
                shown = ", ".join(repr(value) for value, _ in counts.most_common(SHOWN))
                more = " …" if len(counts) > SHOWN else ""
                rows = "1 row holds" if counts.total() == 1 else f"{counts.total()} rows hold"
                found.append(
                    f"Column {name!r}: {rows} values that were not there in training "
                    f"({shown}{more}); they count as none of the known ones."
                )
        return found
