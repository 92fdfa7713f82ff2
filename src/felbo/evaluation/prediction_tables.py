"""Predictions as tables: a ``pandas.DataFrame``, and the text of their ``repr``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from felbo.errors import SettingError

Arrays = dict[str, np.ndarray[Any, Any]]

# Inputs that a repr shows.
SHOWN = 5
UNCERTAINTIES = ("precision", "total", "aleatoric", "epistemic")


def as_frame(arrays: Arrays, class_names: Sequence[str] | None) -> Any:
    """Return a ``pandas.DataFrame`` with a row per input.

    Args:
        arrays: those of :meth:`Prediction.numpy`.
        class_names: names of the classes; ``None`` uses their indices.
    """
    try:
        # Imported lazily: an optional dependency, and slow to load.
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "to_pandas needs pandas, which is not installed: pip install pandas. "
            "Prediction.numpy() gives the same as arrays."
        ) from error
    names = _checked_names(class_names, arrays["probs"].shape[1])
    labels = arrays["labels"]
    columns: dict[str, Any] = {
        "label": labels if class_names is None else np.asarray(names, dtype=object)[labels],
        "confidence": arrays["confidence"],
    }
    columns |= {f"prob_{name}": arrays["probs"][:, k] for k, name in enumerate(names)}
    columns |= {name: arrays[name] for name in UNCERTAINTIES}
    return pd.DataFrame(columns)


def _checked_names(given: Sequence[str] | None, classes: int) -> list[str]:
    names = [str(name) for name in (range(classes) if given is None else given)]
    if len(names) != classes or len(set(names)) != classes:
        raise SettingError(
            f"class_names must be {classes} different names, one per class; got {given!r}."
        )
    return names


def described(arrays: Arrays, items: int, draws: int) -> str:
    """Return a text with the size of a prediction and a table of its first inputs.

    Args:
        arrays: those of :meth:`Prediction.numpy`, for the first inputs.
        items: B.
        draws: M; 0 if the model predicts the concentration.
    """
    made = {0: "a predicted Dirichlet", 1: "1 draw"}.get(draws, f"{draws} draws")
    head = f"Prediction for {items} inputs: {arrays['probs'].shape[1]} classes, {made}"
    names = ["confidence", "total", *(["epistemic"] if draws != 1 else [])]
    widths = [5, 5, *(max(len(name), 6) for name in names)]
    rows = [["input", "label", *names]] if items else []
    for row, label in enumerate(arrays["labels"]):
        rows.append([str(row), str(label), *(f"{arrays[name][row]:.4f}" for name in names)])
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        for cells in rows
    ]
    return "\n".join([head, *lines, *(["..."] if items > SHOWN else [])])
