"""Locate the folder of the data files."""

import os
from pathlib import Path

__all__ = ["data_root", "fetch_command"]

ENVIRONMENT_VARIABLE = "FELBO_DATA"


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder that contains all data sets: `root`, else `FELBO_DATA`, else the cache.

    Args:
        root: A folder that takes precedence over the environment.

    Returns:
        An absolute path; the folder need not exist yet.
    """
    if root is not None:
        return Path(root).expanduser().absolute()
    from_environment = os.environ.get(ENVIRONMENT_VARIABLE)
    if from_environment:
        return Path(from_environment).expanduser().absolute()
    import pooch  # imported lazily: slow, and only needed for the cache folder

    return Path(pooch.os_cache("felbo"))


def fetch_command(name: str, root: Path) -> str:
    """Return the command line that downloads a data set into `root`."""
    command = f"felbo data fetch {name}"
    return command if root == data_root() else f"{command} --root {root}"
