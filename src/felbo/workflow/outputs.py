"""Chunks of a table of predictions, for any kind of run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from felbo.evaluation import Prediction
from felbo.workflow.columns import columns_of, named_columns
from felbo.workflow.errors import InputError
from felbo.workflow.folder import Run, read_model
from felbo.workflow.predicting import Rule
from felbo.workflow.sources import Form, open_table


def predicted_chunks(
    folder: Path,
    run: Run,
    source: str,
    rule: Rule | None,
    keep: list[str],
    form: Form,
    progress: Callable[[int], None],
    note: Callable[[str], None],
) -> Iterator[dict[str, Any]]:
    """Yield columns of predictions, some rows at a time.

    Args:
        folder: of the run.
        run: its description.
        source: table, folder of images or data set.
        rule: which predictions to withhold; ``None`` leaves the column out.
        keep: columns of the table that are copied.
        form: how a CSV file is written.
        progress: is told the number of predictions so far.
        note: is told what a user should know about the data.
    """
    done = 0
    for kept, prediction in _chunks(folder, run, source, keep, form, note):
        columns = columns_of([prediction])
        predicted = named_columns(columns, run.classes)
        if rule is not None:
            predicted["abstain"] = rule.abstains(columns)
        if common := sorted(kept.keys() & predicted.keys()):
            raise InputError(
                f"The kept columns {', '.join(map(repr, common))} have the names of columns of "
                "predictions: rename them."
            )
        found = {**kept, **predicted}
        done += len(prediction)
        progress(done)
        yield found


def _chunks(
    folder: Path,
    run: Run,
    source: str,
    keep: list[str],
    form: Form,
    note: Callable[[str], None],
) -> Iterator[tuple[dict[str, Any], Prediction]]:
    model = read_model(folder)
    if run.kind == "table":
        from felbo.workflow.tabular import predict_file
        from felbo.workflow.unseen import Unseen

        unseen = Unseen(model)
        for chunk, kept, prediction in predict_file(model, open_table(source, form), keep):
            unseen.add(chunk)
            yield kept, prediction
        for text in unseen.notes():
            note(text)
        return
    from felbo.workflow.image_predicting import predict_images

    for names, prediction in predict_images(run, model, source):
        yield {"file": names}, prediction
