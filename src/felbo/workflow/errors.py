"""Errors that a user can put right."""


class InputError(ValueError):
    """A file, folder or setting cannot be used; the message says why and what to do."""
