"""Write predictions to a table, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from felbo.evaluation.selective import risk_coverage
from felbo.workflow.columns import Columns, score_of
from felbo.workflow.errors import InputError
from felbo.workflow.folder import StoredEvaluation
from felbo.workflow.parquet import pyarrow

OUTPUTS = (".csv", ".csv.gz", ".parquet")


class Rule(NamedTuple):
    """Predictions whose score lies above a threshold are withheld.

    Attributes:
        score: ``"total"``, ``"aleatoric"``, ``"epistemic"``, ``"confidence"`` or ``"precision"``.
        threshold: of that score.
    """

    score: str
    threshold: float

    def abstains(self, columns: Columns) -> Any:
        """Return True for each prediction to withhold ``[B]``."""
        return scores(columns, self.score) > self.threshold


def scores(columns: Columns, score: str) -> Any:
    """Return a score of each prediction ``[B]``; raise if the model has none."""
    values = score_of(columns, score)
    if np.isnan(values).any():
        raise InputError(
            f"A model of one draw has no {score} uncertainty: abstain by total or confidence."
        )
    return values


def rule_of_evaluation(
    found: StoredEvaluation, score: str, *, coverage: float, accuracy: float | None
) -> Rule:
    """Return the threshold that held-out data suggest.

    Args:
        found: evaluation on held-out data.
        score: by which to abstain.
        coverage: share of the held-out predictions that are kept.
        accuracy: in per cent, which the kept ones must reach; it takes the place of the coverage.
    """
    values = scores(found.test, score)
    if accuracy is None:
        if not 0.0 < coverage <= 1.0:
            raise InputError(f"The coverage is a share above 0 and up to 1, got {coverage}.")
        return Rule(score, float(np.quantile(values, coverage, method="higher")))
    correct = found.test["probs"].argmax(-1) == found.labels
    try:
        return Rule(score, risk_coverage(values, correct).threshold_at(accuracy))
    except ValueError as error:
        raise InputError(str(error)) from error


def check_output(path: Path) -> None:
    """Raise unless the name says a format that can be written."""
    if not path.name.endswith(OUTPUTS):
        raise InputError(f"Predictions are written to {', '.join(OUTPUTS)}; got {path}.")
    if path.name.endswith(".parquet"):
        pyarrow()


def write_table(path: Path, chunks: Iterable[dict[str, Any]]) -> int:
    """Write chunks of columns to a file, which appears when it is complete; return the rows."""
    check_output(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".part-{path.name}")
    rows = 0
    try:
        with _writer(part) as write:
            for chunk in chunks:
                frame = pd.DataFrame(chunk)
                write(frame)
                rows += len(frame)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return rows


@contextmanager
def _writer(path: Path) -> Iterator[Any]:
    """Context manager: a function that appends a DataFrame to a file."""
    if path.name.endswith(".parquet"):
        arrow = pyarrow()
        opened: list[Any] = []

        def append(frame: Any) -> None:
            # All chunks have the types of the first.
            schema = opened[0].schema if opened else None
            table = arrow.Table.from_pandas(frame, schema, preserve_index=False)
            if not opened:
                opened.append(arrow.parquet.ParquetWriter(path, table.schema))
            opened[0].write_table(table)

        try:
            yield append
        finally:
            for writer in opened:
                writer.close()
        return
    import gzip

    text = gzip.open if path.name.endswith(".gz") else open
    with text(path, "wt", encoding="utf-8", newline="") as file:
        yield lambda frame: frame.to_csv(
            file, index=False, header=file.tell() == 0, float_format="%.6g"
        )
