"""`felbo predict`: probabilities and uncertainties for new data, as a table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

from felbo.cli.kinds import OF_TABLES, refuse_options
from felbo.cli.options import (
    ConfigOption,
    DecimalOption,
    EncodingOption,
    RunArgument,
    SeparatorOption,
)
from felbo.cli.scores import print_note

if TYPE_CHECKING:
    from felbo.workflow.predicting import Rule

ScoreName = Literal["total", "aleatoric", "epistemic", "confidence", "precision"]


def predict(
    ctx: typer.Context,
    run: RunArgument,
    source: Annotated[str, typer.Argument(help="New data of the kind it was trained on.")],
    out: Annotated[Path, typer.Option(help=".csv, .csv.gz or .parquet file to write.")] = Path(
        "predictions.csv"
    ),
    abstain_by: Annotated[ScoreName, typer.Option(help="Score that decides.")] = "total",
    coverage: Annotated[
        float, typer.Option(help="Threshold that keeps this share of the held-out data.")
    ] = 0.95,
    accuracy: Annotated[
        float | None,
        typer.Option(help="Threshold at which held-out data reach this accuracy, in per cent."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Threshold itself, in the units of the score.")
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="Column to copy to the output.")] = None,
    separator: SeparatorOption = None,
    encoding: EncodingOption = "utf-8",
    decimal: DecimalOption = None,
    config: ConfigOption = None,
) -> None:
    """Predict classes with their uncertainty, and say where not to trust them.

    The table has a row per input: prediction, confidence, probability_CLASS for each class,
    precision of the Dirichlet, total, aleatoric and epistemic uncertainty in nats, and abstain,
    true where the prediction is less certain than allowed. Files of any size are read in chunks.

    In use:

      felbo predict runs/patients new.csv --out predictions.csv

      felbo predict runs/patients new.parquet --out predictions.parquet --accuracy 99 --keep id

      felbo predict runs/photos inbox/ --out predictions.csv --abstain-by epistemic --threshold 0.1
    """
    from felbo._files import require_file
    from felbo.workflow.folder import read_run
    from felbo.workflow.outputs import predicted_chunks
    from felbo.workflow.predicting import check_output, write_table
    from felbo.workflow.sources import Form

    described = read_run(run)
    if described.kind != "table":
        refuse_options(ctx, (*OF_TABLES, "keep"), f"a run of kind {described.kind!r}")
    if threshold is not None:
        refuse_options(ctx, ("coverage", "accuracy"), "a --threshold of its own")
    if accuracy is not None:
        refuse_options(ctx, ("coverage",), "a threshold by --accuracy")
    check_output(out)
    if Path(source).exists() and out.resolve() == Path(source).resolve():
        raise typer.BadParameter(f"--out {out} would replace the data: choose another file.")
    require_file(out)
    console = Console(stderr=True)
    rule = _rule(run, abstain_by, coverage, accuracy, threshold)
    if rule is None:
        print_note(
            "Nothing was held out in training: without --threshold there is no column abstain."
        )
    with console.status("Predicting …") as status:
        rows = write_table(
            out,
            predicted_chunks(
                run,
                described,
                source,
                rule,
                list(dict.fromkeys(keep or [])),
                Form(separator, encoding, decimal),
                lambda done: status.update(f"Predicting … {done:,} items"),
                lambda note: print_note(note, console),
            ),
        )
    withheld = "" if rule is None else f"; abstain where {_said(rule)}"
    Console().print(f"{rows:,} predictions: {escape(str(out))}{withheld}", soft_wrap=True)


def _rule(
    run: Path, score: str, coverage: float, accuracy: float | None, threshold: float | None
) -> Rule | None:
    from felbo.workflow.folder import HELD_OUT, evaluation_names, read_evaluation
    from felbo.workflow.predicting import Rule, rule_of_evaluation

    if threshold is not None:
        if math.isnan(threshold):
            raise typer.BadParameter("--threshold is a number, got nan.")
        return Rule(score, -threshold if score in ("confidence", "precision") else threshold)
    if HELD_OUT not in evaluation_names(run):
        return None
    found = read_evaluation(run, HELD_OUT)
    return rule_of_evaluation(found, score, coverage=coverage, accuracy=accuracy)


def _said(rule: Rule) -> str:
    if rule.score in ("confidence", "precision"):
        return f"{rule.score} < {-rule.threshold:.4g}"
    return f"{rule.score} > {rule.threshold:.4g}"
