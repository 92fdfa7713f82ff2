"""Export the model of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from felbo.saving import ExportError, export
from felbo.saving.graph import Pixels
from felbo.workflow.errors import InputError
from felbo.workflow.folder import read_model, read_run
from felbo.workflow.tabular import names_of


def export_run(folder: Path, target: Path) -> list[str]:
    """Write the model of a run as a graph; return the columns that it takes, if it takes a table.

    Args:
        folder: of the run.
        target: ``.pt2`` or ``.onnx`` file.
    """
    run, model = read_run(folder), read_model(folder)
    try:
        if run.kind == "table":
            names = names_of(model)
            export(model, target, np.zeros((2, len(names))))
            return names
        prepared = run.preparation
        mean, scale = torch.tensor(prepared["mean"]), torch.tensor(prepared["std"])
        example = torch.zeros(2, len(mean), prepared["size"], prepared["size"])
        pixels, seed = Pixels(mean, scale), run.settings["seed"]
        export(model, target, example, num_data=run.num_data, seed=seed, prepare=pixels)
        return []
    except (ExportError, ValueError) as error:
        raise InputError(str(error)) from error
