"""Small tables, and the command line in this process."""

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from felbo.cli import app

FAST = ["--epochs", "3", "--members", "2", "--hidden", "8"]


def felbo(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def table(rows=120, seed=0):
    """Numbers, a category, missing values and a label that the first column tells."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(generator.normal(size=(rows, 3)).round(4), columns=["a", "b", "c"])
    frame["colour"] = np.resize(["red", "green", "blue"], rows)
    frame.loc[::9, "b"] = np.nan
    frame.loc[::11, "colour"] = None
    frame["kind"] = np.where(frame["a"] > 0, "plus", "minus")
    return frame


def trained(folder, frame=None, *options):
    """Write a table, train on it and return the folder of the run."""
    frame = table() if frame is None else frame
    frame.to_csv(folder / "train.csv", index=False)
    out = folder / "run"
    given = ["train", folder / "train.csv", "--target", "kind", "--out", out, *FAST, *options]
    result = felbo(*given)
    assert result.exit_code == 0, result.output
    return out
