"""Options that several commands share, and settings from a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from felbo.workflow.errors import InputError

RunArgument = Annotated[Path, typer.Argument(help="Folder of the run, made by `felbo train`.")]
SeparatorOption = Annotated[
    str | None, typer.Option(help="Between the columns of a CSV file. (default: a comma)")
]
EncodingOption = Annotated[str, typer.Option(help="Of a CSV file, e.g. cp1252 or utf-16.")]
DecimalOption = Annotated[
    Literal[".", ","] | None,
    typer.Option(help="Mark in the numbers of a CSV file. (default: a point)"),
]


def read_settings(ctx: typer.Context, path: Path | None) -> Path | None:
    """Typer callback: take defaults from the table of a TOML file that is named as the command.

    Flags take precedence over the file.
    """
    if path is None:
        return None
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"{path} is no TOML file: {error}.") from error
    command = str(ctx.info_name)
    settings = content.get(command)
    if not isinstance(settings, dict):
        raise typer.BadParameter(
            f"{path} has no table [{command}]; it has {', '.join(map(repr, content)) or 'nothing'}."
        )
    ctx.default_map = {**(ctx.default_map or {}), **_by_parameter(ctx, settings, path)}
    return path


def _by_parameter(ctx: typer.Context, settings: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return settings under the names of the command's parameters; refuse unknown ones."""
    known = {str(parameter.name) for parameter in ctx.command.params} - {"config", "help"}
    found = {name.replace("-", "_"): value for name, value in settings.items()}
    if len(found) < len(settings):
        raise typer.BadParameter(f"{path} sets an option twice, once with - and once with _.")
    unknown = [name for name in found if name not in known]
    if unknown:
        raise typer.BadParameter(
            f"{path} sets {', '.join(map(repr, unknown))}, which `felbo {ctx.info_name}` does not "
            f"have; it has {', '.join(sorted(name.replace('_', '-') for name in known))}."
        )
    kinds = {str(parameter.name): parameter for parameter in ctx.command.params}
    for name, value in found.items():
        # Otherwise true would be one epoch, and "no" whatever Typer takes it for.
        if isinstance(value, bool) != _is_flag(kinds[name]):
            expected = "true or false" if _is_flag(kinds[name]) else "neither true nor false"
            raise typer.BadParameter(f"{path}: {name!r} is {expected}, got {value!r}.")
    return {name: _as_flags(value, kinds[name]) for name, value in found.items()}


def _is_flag(parameter: Any) -> bool:
    return bool(getattr(parameter, "is_flag", False))


def _as_flags(value: Any, parameter: Any) -> Any:
    """Return a value as the command line would give it: several of an option are a list."""
    several = parameter.multiple or parameter.nargs != 1
    if several:
        return value if isinstance(value, list) else [value]
    return ",".join(map(str, value)) if isinstance(value, list) else value


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with these options in a table named as the command; flags override it.",
        callback=read_settings,
        is_eager=True,
    ),
]


def named_paths(given: list[str]) -> dict[str, str]:
    """Return ``NAME=PATH`` settings by name; a path alone is named by its stem."""
    found = {}
    for text in given:
        name, sign, path = text.partition("=")
        found[name if sign else Path(text).stem] = path if sign else text
    if len(found) < len(given) or "" in found:
        raise InputError(f"Every set needs a name of its own, NAME=PATH; got {', '.join(given)}.")
    return found
