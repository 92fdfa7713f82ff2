"""Options that mean something for some kinds of data or model only, or beside certain others."""

from __future__ import annotations

import typer

from felbo.workflow.errors import InputError

OF_TABLES = ("target", "drop", "separator", "encoding", "decimal", "calibrate")
OF_IMAGES = ("network", "image_size", "limit")
# A data set has images of one size, and a test split of its publisher.
OF_FOLDERS = ("image_size", "test_fraction")


def refuse_options(ctx: typer.Context, names: tuple[str, ...], kind: str) -> None:
    """Raise if some options were given, as flags or in a file of settings.

    Args:
        ctx: of the command, which need not have all of the options.
        names: of the parameters.
        kind: of the data, model or other options for which they mean nothing.
    """
    given = [f"--{name.replace('_', '-')}" for name in names if _is_given(ctx, name)]
    if given:
        raise InputError(
            f"{', '.join(given)}: without a meaning for {kind}. Leave out what does not belong to "
            "it, also in the file of --config."
        )


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    # By name: some versions of Typer have an enumeration of their own.
    return source is not None and source.name != "DEFAULT"
