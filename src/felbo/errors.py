"""Errors that felbo raises on purpose.

Each derives from :class:`FelboError` and from the built-in exception that fits, so that
``except felbo.FelboError`` catches all of them and ``except ValueError`` goes on working.
"""

from __future__ import annotations


class FelboError(Exception):
    """Base class of felbo's errors: what was expected, what came, and what to do.

    Example:
        >>> import felbo
        >>> issubclass(felbo.errors.DataError, (felbo.FelboError, ValueError))
        True
    """


class DataError(FelboError, ValueError):
    """Data cannot be trained on, predicted or evaluated: empty, NaN, or labels out of range."""


class SettingError(FelboError, ValueError):
    """An argument is out of range or contradicts another one."""


class ShapeError(FelboError, ValueError):
    """A tensor has another shape than the model, the prior or the batches before it."""


class InputTypeError(FelboError, TypeError):
    """An argument or tensor has the wrong type."""


class StateError(FelboError, RuntimeError):
    """A model, or torch, is not in the state that a call needs."""


class MissingFileError(FelboError, FileNotFoundError):
    """A file that was to be read is not there."""


class DivergedError(FelboError, FloatingPointError):
    """A loss, gradient or weight became NaN or infinite.

    Attributes:
        step: number of the step in the training, from 0; ``None`` if it is not known.
        term: what was not finite: ``"nll"``, ``"kl"``, ``"nll and kl"``, ``"loss"``,
            ``"gradient"``, ``"weights"`` or ``"validation"``.
    """

    def __init__(self, message: str, term: str = "loss", step: int | None = None) -> None:
        super().__init__(message)
        self.term, self.step = term, step

    def __str__(self) -> str:
        """Return the message, after the number of the step."""
        message = super().__str__()
        return message if self.step is None else f"Step {self.step}: {message}"


class NonFiniteInputError(DivergedError, DataError):
    """A loss is not finite because the inputs hold NaN or infinity."""


class ProcessError(FelboError, RuntimeError):
    """Another process of a training has failed."""


class CheckpointError(FelboError, RuntimeError):
    """A training cannot be resumed: other settings, damaged checkpoints, or a folder in use."""


class CheckpointWriteError(FelboError, OSError):
    """A checkpoint could not be written, for instance to a full disk; the one before is kept."""


class ExportError(FelboError, RuntimeError):
    """A model cannot be exported, or the exported one differs from it."""


class DamagedCheckpointWarning(UserWarning):
    """The newest checkpoint is damaged, and the one before it is used."""
