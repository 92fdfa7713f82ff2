"""Count categories that were not there in training."""

from __future__ import annotations

from collections import Counter
from typing import Any

from felbo.estimator import FunctionSpaceClassifier
from felbo.estimator.tables import TableEncoder

# Values that a note names.
SHOWN = 5


class Unseen:
    """Counts values of categories, chunk by chunk, that a classifier does not know.

    Such a value has zeros in all columns of its encoding: it is predicted, and less surely the
    more the category matters.
    """

    def __init__(self, classifier: FunctionSpaceClassifier) -> None:
        table = classifier.learner_.table
        names = list(classifier.feature_names_in_)
        columns = [names[position] for position in table.categories]
        known = table.one_hot.categories_ if isinstance(table, TableEncoder) and columns else []
        self._known = {n: set(values) for n, values in zip(columns, known, strict=True)}
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in columns}

    def add(self, chunk: Any) -> None:
        """Count the rows of a chunk."""
        for name, known in self._known.items():
            values = chunk[name].dropna()
            self._counts[name].update(values[~values.isin(known)].tolist())

    def notes(self) -> list[str]:
        """Return a sentence for each column with values that are not known."""
        found = []
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
