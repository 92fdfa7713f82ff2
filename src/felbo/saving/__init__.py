"""Saved models: safetensors and JSON, without pickle."""

from felbo.saving.container import FORMAT, SavedFileError
from felbo.saving.store import load, save

__all__ = ["FORMAT", "SavedFileError", "load", "save"]
