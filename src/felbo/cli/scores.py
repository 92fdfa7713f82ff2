"""Print the scores of an evaluation, and notes about the data."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

TITLES = {
    "accuracy": "accuracy, %",
    "log_likelihood": "log-likelihood, nats",
    "brier": "Brier score",
    "ece": "calibration error",
}


def print_note(text: str, console: Console | None = None) -> None:
    """Print what a user should know about the data, beside the output of the command."""
    (console or Console(stderr=True)).print(f"[yellow]{escape(text)}[/]", soft_wrap=True)


def print_scores(folder: Path, name: str | None = None) -> None:
    """Print the most important scores of a run's evaluation, if there is one.

    Args:
        folder: of the run.
        name: of the evaluation; ``None`` takes the first.
    """
    from felbo.workflow.folder import evaluation_names, read_evaluation

    names = evaluation_names(folder)
    if not names:
        Console().print("Nothing was held out, so there is no evaluation.")
        return
    found = read_evaluation(folder, name or names[0])
    test = found.scores["test"]
    table = Table(title=f"{found.name}: {test['size']} items", title_justify="left")
    for heading in ("", "value", "95 % interval"):
        table.add_column(heading, justify="right" if heading else "left")
    for key, title in TITLES.items():
        value = test[key]
        table.add_row(title, f"{value['value']:.4g}", f"{value['low']:.4g} to {value['high']:.4g}")
    for elsewhere, scores in found.scores["ood"].items():
        best = scores.get("epistemic", scores["total"])
        kind = "epistemic" if "epistemic" in scores else "total"
        table.add_row(f"AUROC, {elsewhere} ({kind})", f"{best['auroc']:.4g}", "")
    Console().print(table)
