"""`felbo train`: a model from a table, a folder of images or a named data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape

from felbo.cli.kinds import OF_FOLDERS, OF_IMAGES, OF_TABLES, refuse_options
from felbo.cli.options import ConfigOption, DecimalOption, EncodingOption, SeparatorOption
from felbo.cli.scores import print_note, print_scores
from felbo.workflow.errors import InputError

ModelName = Literal["ensemble", "map", "mc-dropout", "mean-field", "radial", "rank1"]
NetworkName = Literal["compact", "resnet18", "mlp"]


def train(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(help="Table, folder of images, or data set.")],
    target: Annotated[
        str | None, typer.Option(help="Column of labels; needed for a table.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("run"),
    model: Annotated[ModelName, typer.Option(help="Kind of model.")] = "ensemble",
    members: Annotated[
        int,
        typer.Option(
            help="Networks of an ensemble, members of rank1, or draws of other models of a table.",
            min=1,
        ),
    ] = 5,
    hidden: Annotated[str, typer.Option(help="Widths of a perceptron's hidden layers.")] = "50,50",
    network: Annotated[NetworkName, typer.Option(help="Network for images.")] = "compact",
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the data. (default: 100; images: 10)", min=1)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Items per step. (default: 32; images: 128)", min=1)
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Of Adam. (default: 0.003; images: 0.001)")
    ] = None,
    strength: Annotated[
        float | None,
        typer.Option(help="Of the prior where there are no data. (default: 0.06; images: 0.03)"),
    ] = None,
    data_strength: Annotated[float, typer.Option(help="Of the prior on the data.")] = 0.0,
    early_stopping: Annotated[
        bool, typer.Option(help="Hold out training items, and stop when they gain no more.")
    ] = True,
    validation: Annotated[
        float | None,
        typer.Option(help="Share of them. (default: 0.2; images: 0.1)", min=0.01, max=0.9),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(help="Epochs without a gain before the end. (default: 20; images: 5)", min=1),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            help="Fit a temperature to rows that early stopping holds out, from 1000 rows on."
        ),
    ] = True,
    test_fraction: Annotated[
        float, typer.Option(help="Share of the data that is held out for the evaluation.")
    ] = 0.2,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out.")] = None,
    separator: SeparatorOption = None,
    encoding: EncodingOption = "utf-8",
    decimal: DecimalOption = None,
    image_size: Annotated[
        int, typer.Option(help="Images of a folder are scaled to this many pixels.", min=9)
    ] = 32,
    limit: Annotated[int | None, typer.Option(help="Use so many images at most.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of everything random.", min=0, max=2**32 - 1)] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted run.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Train a model that knows what it does not know, and evaluate it on held-out data.

    SOURCE is a table (.csv, .tsv, .txt, .parquet, .npz) with a column of labels, a folder with one
    folder of images per class, or a data set: mnist, fashion-mnist, cifar10, cifar100.

    Models: ensemble, map, mc-dropout, mean-field, radial, rank1. Networks for images: compact,
    resnet18, mlp; tables have a perceptron.

    In use:

      felbo train patients.csv --target diagnosis --out runs/patients

      felbo train photos/ --out runs/photos --epochs 20

      felbo train mnist --out runs/mnist --network mlp --limit 10000

      felbo train --config train.toml

    A run that was interrupted goes on with --resume and otherwise the same command; one that is
    finished stays as it is.
    """
    from felbo.workflow.folder import Start, finished_run, prepare_folder
    from felbo.workflow.sources import Form, is_table, open_images, open_table

    _refuse_other_kinds(ctx, source)
    _refuse_other_models(ctx, is_table(source), model, network)
    if not early_stopping:
        of_stopping = ("validation", "patience", "calibrate")
        refuse_options(ctx, of_stopping, "a training with --no-early-stopping")
    start = prepare_folder(out, overwrite, resume)
    settings: dict[str, Any] = {
        "model": model,
        "members": members,
        "hidden": _widths(hidden),
        "data_strength": data_strength,
    }
    console = Console(stderr=True)
    if start is Start.GOES_ON:
        console.print(f"Going on with the training in {escape(str(out))}.", soft_wrap=True)
    if is_table(source):
        from felbo.estimator import FunctionSpaceClassifier
        from felbo.workflow.tabular import train_table

        file = open_table(source, Form(separator, encoding, decimal))
        if target is None:
            raise InputError(
                f"Which column of {source} holds the labels? Pass --target with one of "
                f"{', '.join(map(repr, file.columns()[:30]))}."
            )
        settings |= {"early_stopping": early_stopping, "calibrate": calibrate} | _given(
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            strength=strength,
            validation_fraction=validation,
            patience=patience,
        )
        about: dict[str, Any] = {"drop": drop or [], "test_fraction": test_fraction, "seed": seed}
        if start is Start.FINISHED:
            # With its defaults, which stand for what was not given.
            asked = about | FunctionSpaceClassifier(**settings).get_params()
            run = finished_run(out, source, target, asked)
        else:
            console.print(f"Training on {escape(source)} …", soft_wrap=True)
            run = train_table(
                file, target, out, **about, settings=settings, verbose=console.is_terminal
            )
    else:
        from felbo.objectives.everywhere import STRENGTH
        from felbo.workflow.image_training import train_images

        images = open_images(source, image_size)
        settings |= {
            "network": network,
            "epochs": epochs or 10,
            "batch_size": batch_size or 128,
            "learning_rate": 0.001 if learning_rate is None else learning_rate,
            "strength": STRENGTH if strength is None else strength,
            "validation": (validation or 0.1) if early_stopping else None,
            "patience": patience or 5,
            "test_fraction": test_fraction,
            "limit": limit,
            "seed": seed,
        }
        if start is Start.FINISHED:
            size = {"image_size": image_size} if Path(source).is_dir() else {}
            run = finished_run(out, source, None, settings | size)
        else:
            console.print(f"Training on {escape(source)} …", soft_wrap=True)
            run = train_images(images, out, **settings, progress=console.is_terminal)
    if start is Start.FINISHED:
        console.print(f"Finished already: {escape(str(out))}.", soft_wrap=True)
    for note in run.notes:
        print_note(note)
    print_scores(out)
    Console().print(
        f"Run: {escape(str(out))} ({run.num_data} training items, {run.seconds:.0f} s)\n"
        f"Next: felbo predict {escape(str(out))} NEW_DATA --out predictions.csv, "
        f"felbo report {escape(str(out))}",
        soft_wrap=True,
    )


def _refuse_other_kinds(ctx: typer.Context, source: str) -> None:
    """Raise if options were given that mean nothing for the source."""
    from felbo.workflow.sources import is_table

    if is_table(source):
        refuse_options(ctx, OF_IMAGES, f"the table {source}")
        return
    refuse_options(ctx, OF_TABLES, f"the images of {source}")
    if not Path(source).is_dir():
        refuse_options(ctx, OF_FOLDERS, f"the data set {source}")


def _refuse_other_models(ctx: typer.Context, table: bool, model: str, network: str) -> None:
    """Raise if options were given that mean nothing for the model or its network.

    A table has ``members`` draws per training step where a model has no members; images have the
    number of draws of the model itself.
    """
    if model == "map" or not (table or model in ("ensemble", "rank1")):
        refuse_options(ctx, ("members",), f"the model {model}" + ("" if table else " of images"))
    if not table and network != "mlp":
        refuse_options(ctx, ("hidden",), f"the network {network}")


def _given(**settings: Any) -> dict[str, Any]:
    """Return the settings that were given; the others have the defaults of the classifier."""
    return {name: value for name, value in settings.items() if value is not None}


def _widths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(width) for width in str(text).split(",") if width.strip())
    except ValueError as error:
        raise typer.BadParameter(f"--hidden takes widths such as 50,50, got {text!r}.") from error
