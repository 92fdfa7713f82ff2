"""Prediction: class probabilities, the fitted Dirichlet and its uncertainties."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from felbo import dirichlet
from felbo.errors import InputTypeError, ShapeError
from felbo.evaluation.indexing import selected_rows
from felbo.evaluation.joining import joined_sources
from felbo.evaluation.prediction_files import SETTINGS, read_arrays, write_arrays
from felbo.evaluation.prediction_tables import SHOWN, as_frame, described
from felbo.evaluation.spread import Spread


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """Class probabilities and the fitted Dirichlet, for B inputs.

    The Dirichlet is fitted to the draws lazily, on first access to ``concentration``,
    ``precision`` or one of the uncertainties, and cached. ``prediction[index]`` selects inputs by
    a number, a slice, a list or tensor of numbers, or a mask.

    Args:
        probs: mean of the draws' class probabilities ``[B, K]``.
        source: the spread of the draws, or the concentration ``[B, K]`` itself if the model
            predicts it.

    Attributes:
        probs: mean of the draws' class probabilities ``[B, K]``.

    Example:
        >>> import torch, felbo
        >>> prediction = felbo.predict(torch.tensor([[[0.6, 0.4]], [[0.4, 0.6]]]).expand(2, 5, 2))
        >>> len(prediction), len(prediction[1:3]), prediction.numpy()["probs"].shape
        (5, 2, (5, 2))
    """

    probs: Tensor
    source: Spread | Tensor

    @cached_property
    def _dirichlet(self) -> tuple[Tensor, Tensor]:
        if isinstance(self.source, Tensor):
            return self.source, self.source.sum(-1)
        return self.source.fit(self.probs)

    @property
    def concentration(self) -> Tensor:
        """α of the Dirichlet fitted to the draws ``[B, K]``."""
        return self._dirichlet[0]

    @property
    def precision(self) -> Tensor:
        """Sum z of the concentration ``[B]``; large where the draws agree."""
        return self._dirichlet[1]

    @property
    def labels(self) -> Tensor:
        """Most probable class ``[B]``."""
        return self.probs.argmax(-1)

    @property
    def confidence(self) -> Tensor:
        """Probability of the most probable class ``[B]``."""
        return self.probs.amax(-1)

    @property
    def is_random(self) -> bool:
        """True if there are several draws, or the model predicts a Dirichlet directly."""
        return isinstance(self.source, Tensor) or self.source.draws > 1

    @cached_property
    def _uncertainty(self) -> dirichlet.Uncertainty:
        return dirichlet.uncertainty(self.concentration)

    @property
    def total(self) -> Tensor:
        """Entropy of the Dirichlet's mean, in nats ``[B]``."""
        return self._uncertainty.total

    @property
    def aleatoric(self) -> Tensor:
        """Expected entropy under the Dirichlet, which more data cannot reduce ``[B]``.

        For a single draw the two kinds cannot be separated: this is the total entropy.
        """
        return self._uncertainty.aleatoric if self.is_random else self._uncertainty.total

    @property
    def epistemic(self) -> Tensor:
        """Mutual information of label and function, which more data can reduce ``[B]``.

        NaN, with a warning, for a single draw.
        """
        if not self.is_random:
            warnings.warn(
                "One draw has no epistemic uncertainty to show: it is NaN. Use total, or a model "
                "with several draws (MCDropout, Ensemble, Radial, Rank1).",
                stacklevel=2,
            )
        return self._epistemic

    @property
    def _epistemic(self) -> Tensor:
        found = self._uncertainty.epistemic
        return found if self.is_random else torch.full_like(found, torch.nan)

    def __len__(self) -> int:
        """Return B."""
        return len(self.probs)

    def __getitem__(self, index: Any) -> Prediction:
        """Return the prediction for some of the inputs; for one input, B = 1."""
        rows = selected_rows(index, len(self)).to(self.probs.device)
        return self._mapped(lambda part: part[rows])

    @classmethod
    def concatenate(cls, predictions: Sequence[Prediction]) -> Prediction:
        """Return one prediction for the inputs of several batches, in order.

        Args:
            predictions: of one model, such as what ``trainer.predict(module, loader)`` of Lightning
                returns.

        Example:
            >>> import torch, felbo
            >>> parts = [felbo.predict(draws) for draws in torch.full((3, 9, 2), 0.5).split(5, 1)]
            >>> [len(part) for part in parts], len(felbo.Prediction.concatenate(parts))
            ([5, 4], 9)
        """
        parts = list(predictions)
        if not parts or not all(isinstance(part, Prediction) for part in parts):
            found = sorted({type(part).__name__ for part in parts})
            raise InputTypeError(
                "Prediction.concatenate takes a list of felbo.Prediction, one per batch; got "
                f"{', '.join(found) or 'an empty list'}."
            )
        classes = sorted({part.probs.shape[1] for part in parts})
        if len(classes) > 1:
            raise ShapeError(f"Predictions of one model have as many classes each, got {classes}.")
        probs = torch.cat([part.probs for part in parts])
        return cls(probs, joined_sources([part.source for part in parts]))

    def to(self, device: torch.device | str) -> Prediction:
        """Return the prediction on another device."""
        return self._mapped(lambda part: part.to(device))

    def cpu(self) -> Prediction:
        """Return the prediction on the CPU."""
        return self.to("cpu")

    def _mapped(self, function: Callable[[Tensor], Tensor]) -> Prediction:
        """Apply a function of rows to every tensor, also to those that are computed already."""
        source = self.source
        if isinstance(source, Tensor):
            mapped = Prediction(function(self.probs), function(source))
        else:
            spread = replace(source, value=function(source.value))
            mapped = Prediction(function(self.probs), spread)
        if "_dirichlet" in vars(self):
            alpha, precision = self._dirichlet
            vars(mapped)["_dirichlet"] = function(alpha), function(precision)
        return mapped

    def numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return everything as numpy arrays by name.

        ``probs`` and ``concentration [B, K]``; ``labels``, ``confidence``, ``precision``,
        ``total``, ``aleatoric`` and ``epistemic [B]``, the last NaN for a single draw.
        """
        tensors = {
            "probs": self.probs,
            "labels": self.labels,
            "confidence": self.confidence,
            "concentration": self.concentration,
            "precision": self.precision,
            "total": self.total,
            "aleatoric": self.aleatoric,
            "epistemic": self._epistemic,
        }
        return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}

    def to_pandas(self, class_names: Sequence[str] | None = None) -> Any:
        """Return a ``pandas.DataFrame`` with a row per input.

        Columns: ``label``, ``confidence``, a column ``prob_<class>`` per class, ``precision``,
        ``total``, ``aleatoric`` and ``epistemic``.

        Args:
            class_names: names of the K classes, in the order of their indices; ``None`` uses the
                indices.
        """
        return as_frame(self.numpy(), class_names)

    def save(self, path: str | Path) -> None:
        """Write the prediction to a ``.npz`` file, which holds arrays only and no code."""
        arrays = {"probs": self.probs.cpu().numpy()}
        if isinstance(self.source, Tensor):
            arrays["concentration"] = self.source.cpu().numpy()
        else:
            arrays["spread"] = self.source.value.cpu().numpy()
            arrays |= {name: np.asarray(getattr(self.source, name)) for name in SETTINGS}
        write_arrays(Path(path), arrays)

    @classmethod
    def load(cls, path: str | Path) -> Prediction:
        """Read a prediction that :meth:`save` wrote, on the CPU.

        Raises:
            ValueError: if the file is damaged, or is none of these files.
        """
        arrays = read_arrays(Path(path))
        probs = torch.from_numpy(arrays["probs"])
        if "concentration" in arrays:
            return cls(probs, torch.from_numpy(arrays["concentration"]))
        draws, smoothing, max_precision = (arrays[name].item() for name in SETTINGS)
        value = torch.from_numpy(arrays["spread"])
        return cls(probs, Spread(draws, value, smoothing, max_precision))

    def __repr__(self) -> str:
        """Return the number of inputs, classes and draws, and a table of the first inputs."""
        draws = 0 if isinstance(self.source, Tensor) else self.source.draws
        return described(self[:SHOWN].numpy(), len(self), draws)
