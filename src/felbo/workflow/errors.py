"""Errors that a user can put right."""

from felbo.errors import FelboError


class InputError(FelboError, ValueError):
    """A file, folder or setting cannot be used; the message says why and what to do."""
