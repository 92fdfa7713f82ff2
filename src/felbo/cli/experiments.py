"""`felbo reproduce` and `felbo compare`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from felbo.cli.plans import print_plan

# Each command imports the experiments lazily: they pull in scikit-learn and matplotlib, which
# `felbo --help` does not need.
if TYPE_CHECKING:
    from felbo.paper.compare import Comparison
    from felbo.paper.results import Summary
    from felbo.paper.study import Study

console = Console()


def reproduce(
    name: Annotated[str, typer.Argument(help="Experiment, e.g. rotated-mnist.")],
    preset: Annotated[
        str, typer.Option(help="smoke, cpu or paper; cpu-resnet18 for CIFAR.")
    ] = "paper",
    precision: Annotated[
        str | None, typer.Option(help="Of training, e.g. bf16-mixed; for CIFAR.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.", min=1)] = None,
    models: Annotated[str | None, typer.Option(help="Comma-separated subset of models.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes, one torch thread each.", min=1)] = 1,
    engine: Annotated[
        str, typer.Option(help="local, or the cluster that computes: ray or dask.")
    ] = "local",
    results: Annotated[Path, typer.Option(help="Folder of tables and figures.")] = Path("results"),
    runs: Annotated[Path, typer.Option(help="Folder of finished cells.")] = Path("runs"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print cells, memory and an estimate of the time.")
    ] = False,
) -> None:
    """Run an experiment of the paper; finished cells are kept and skipped."""
    from felbo.paper import compare as compare_with_published
    from felbo.paper import reproduce as reproduce_study
    from felbo.paper.planning import plan
    from felbo.paper.runner import RequestError
    from felbo.studies import catalogue

    if name in catalogue.PICTURES:
        given = (preset, precision, engine, seeds, models)
        if given != ("paper", None, "local", None, None):
            raise typer.BadParameter(
                f"{name} is a picture of a single run: it takes --jobs and --results only."
            )
        if dry_run:
            console.print(f"{name} is a picture of a single run, without cells.", soft_wrap=True)
            return
        console.print(f"Figure: {catalogue.PICTURES[name](results, jobs)}", soft_wrap=True)
        return
    study = _study(name, precision)
    chosen = [m.strip() for m in models.split(",")] if models else None
    try:
        if dry_run:
            found = plan(study, preset=preset, models=chosen, seeds=seeds, runs=runs)
            print_plan(console, f"{study.title}, preset {preset}", found)
            return
        outcome = reproduce_study(
            study,
            preset=preset,
            models=chosen,
            seeds=seeds,
            jobs=jobs,
            engine=engine,
            results=results,
            runs=runs,
        )
    except RequestError as error:
        raise typer.BadParameter(str(error)) from error
    console.print(f"Table:  {outcome.table}\nFigure: {outcome.figure}", soft_wrap=True)
    comparisons = compare_with_published(outcome.summaries, study.compared_with)
    # Curves with hundreds of steps are shown in the figure only: too many columns for a table.
    if not comparisons and len({s.shift for s in outcome.summaries}) <= 12:
        console.print(_measured_table(study, outcome.summaries))
    _print_claims(study, outcome.summaries)
    _print_verdict(study, comparisons)


def compare(
    name: Annotated[str, typer.Argument(help="Experiment, e.g. rotated-mnist.")],
    results: Annotated[Path, typer.Option(help="Folder of the tables.")] = Path("results"),
    all_cells: Annotated[
        bool, typer.Option("--all/--differing", help="Show every cell or those that differ.")
    ] = True,
) -> None:
    """Print each measured cell beside the published one, and a verdict."""
    from felbo.paper import compare as compare_with_published
    from felbo.paper.results import read_summaries

    study = _study(name)
    try:
        summaries = read_summaries(results / f"{study.key}.csv")
    except FileNotFoundError as error:
        console.print(str(error), soft_wrap=True)
        raise typer.Exit(1) from error
    comparisons = compare_with_published(summaries, study.compared_with)
    if comparisons:
        console.print(_table(study, [c for c in comparisons if all_cells or not c.agrees]))
    else:
        console.print(_measured_table(study, summaries))
    _print_claims(study, summaries)
    _print_verdict(study, comparisons)


def _study(name: str, precision: str | None = None) -> Study:
    from felbo.paper.study import UnknownSettingError
    from felbo.studies import catalogue

    if name not in catalogue.STUDIES:
        known = ", ".join([*catalogue.STUDIES, *catalogue.PICTURES])
        raise typer.BadParameter(f"there is no experiment {name!r}; there are: {known}")
    study = catalogue.STUDIES[name]
    try:
        return study.with_setting("precision", precision) if precision else study
    except UnknownSettingError as error:
        raise typer.BadParameter(str(error)) from error


def _table(study: Study, comparisons: Sequence[Comparison]) -> Table:
    table = Table(title=study.title)
    for column in (
        "metric",
        "model",
        "shift",
        "measured",
        "published",
        "difference",
        "in s.e.",
        "",
    ):
        table.add_column(column, justify="left" if column in ("metric", "model") else "right")
    for c in comparisons:
        table.add_row(
            c.measured.metric,
            c.measured.model,
            f"{c.measured.shift:g}",
            f"{c.measured.mean:.3f} ± {c.measured.standard_error:.3f}",
            _reference(c),
            f"{c.difference:+.3f}",
            "" if math.isnan(c.deviations) else f"{c.deviations:+.1f}",
            "" if c.agrees else "differs",
        )
    return table


def _measured_table(study: Study, summaries: Sequence[Summary]) -> Table:
    """Mean and standard error, one row per metric and model, one column per shift."""
    shifts = sorted({s.shift for s in summaries})
    table = Table(title=study.title)
    for column in ("metric", "model", *(f"{shift:g}" for shift in shifts)):
        table.add_column(column, justify="left" if column in ("metric", "model") else "right")
    cells = {(s.metric, s.model, s.shift): s for s in summaries}
    for metric in dict.fromkeys(s.metric for s in summaries):
        for model in dict.fromkeys(s.model for s in summaries):
            found = [cells.get((metric, model, shift)) for shift in shifts]
            texts = ["" if c is None else f"{c.mean:.2f} ± {c.standard_error:.2f}" for c in found]
            if any(texts):
                table.add_row(metric, model, *texts)
    return table


def _reference(comparison: Comparison) -> str:
    reference = comparison.published
    if reference.band is not None:
        return f"{reference.mean:.3f} [{reference.band[0]:.3f}, {reference.band[1]:.3f}]"
    if reference.standard_error is None:
        return f"{reference.mean:g}"
    return f"{reference.mean:.3f} ± {reference.standard_error:.3f}"


def _print_claims(study: Study, summaries: Sequence[Summary]) -> None:
    for claim in study.claims(summaries):
        console.print(f"{'holds' if claim.holds else 'FAILS'}  {claim.text}", soft_wrap=True)


def _print_verdict(study: Study, comparisons: Sequence[Comparison]) -> None:
    if not comparisons:
        console.print(f"{study.name}: nothing of this was published as a number.")
        return
    agree = sum(c.agrees for c in comparisons)
    share = 100.0 * agree / len(comparisons)
    console.print(
        f"{study.name}: {agree} of {len(comparisons)} cells ({share:.1f} %) agree with the paper.",
        soft_wrap=True,
    )
