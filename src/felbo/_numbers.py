"""Numbers among the settings of a call."""

from __future__ import annotations

import numpy as np

from felbo.errors import SettingError

_BOOLEANS = (bool, np.bool_)


def refuse_booleans(**settings: object) -> None:
    """Raise if a setting that is a number is True or False, which Python takes for 1 and 0.

    Args:
        settings: values by their names; those that are no numbers at all are left to other checks.

    Example:
        >>> refuse_booleans(epochs=10, patience=None)
        >>> refuse_booleans(epochs=True)
        Traceback (most recent call last):
        felbo.errors.SettingError: epochs must be a number, got True: write 1 if that is meant.
    """
    for name, value in settings.items():
        if isinstance(value, _BOOLEANS):
            raise SettingError(
                f"{name} must be a number, got {value}: write {int(value)} if that is meant."
            )
