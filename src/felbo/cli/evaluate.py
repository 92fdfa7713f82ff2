"""`felbo evaluate`: scores of a run on labelled data."""

from __future__ import annotations

import re
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from felbo.cli.kinds import OF_IMAGES, OF_TABLES, refuse_options
from felbo.cli.options import (
    ConfigOption,
    DecimalOption,
    EncodingOption,
    RunArgument,
    SeparatorOption,
    named_paths,
)
from felbo.cli.scores import print_note, print_scores
from felbo.workflow.errors import InputError


def evaluate(
    ctx: typer.Context,
    run: RunArgument,
    source: Annotated[str, typer.Argument(help="Labelled data of the kind it was trained on.")],
    name: Annotated[str, typer.Option(help="Of this evaluation, for the report.")] = "evaluation",
    ood: Annotated[
        list[str] | None, typer.Option(help="NAME=DATA from elsewhere, labelled or not.")
    ] = None,
    separator: SeparatorOption = None,
    encoding: EncodingOption = "utf-8",
    decimal: DecimalOption = None,
    limit: Annotated[int | None, typer.Option(help="Use so many images at most.", min=1)] = None,
    config: ConfigOption = None,
) -> None:
    """Measure a trained model on labelled data, and on data from elsewhere; the run keeps it.

    In use:

      felbo evaluate runs/patients later.csv --name later

      felbo evaluate runs/patients test.csv --ood clinic=other_clinic.csv

      felbo evaluate runs/mnist mnist --name test --ood clothes=fashion-mnist
    """
    from felbo._files import require_writable
    from felbo.workflow.folder import HELD_OUT, read_model, read_run

    if not re.fullmatch(r"[\w-]+", name):
        raise InputError(f"A name has letters, digits, - and _ only; got {name!r}.")
    if name.lower() == HELD_OUT:  # in lower case, since some file systems do not tell them apart
        raise InputError(
            f"The name {name!r} is that of the evaluation on data held out in training, from which "
            "`felbo predict` has its threshold. Choose another --name."
        )
    described = read_run(run)
    others = OF_IMAGES if described.kind == "table" else OF_TABLES
    refuse_options(ctx, others, f"a run of kind {described.kind!r}")
    require_writable(run)
    elsewhere = named_paths(ood or [])
    if described.kind == "table":
        from felbo.workflow.sources import Form, open_table
        from felbo.workflow.tabular import evaluate_file

        form = Form(separator, encoding, decimal)
        file = open_table(source, form)
        files = {key: open_table(path, form) for key, path in elsewhere.items()}
        found = evaluate_file(name, described, read_model(run), file, files, print_note)
    else:
        from felbo.workflow.image_predicting import evaluate_images

        found = evaluate_images(
            name, described, read_model(run), source, elsewhere, limit, print_note
        )
    found.write(run)
    print_scores(run, name)
    Console().print(f"Report: felbo report {escape(str(run))} --evaluation {name}", soft_wrap=True)
