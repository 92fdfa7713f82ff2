"""Saved and exported models: safetensors and JSON without pickle, torch.export and ONNX."""

from felbo._container import FORMAT, SavedFileError
from felbo.errors import ExportError
from felbo.saving.exporting import export
from felbo.saving.store import load, save

__all__ = ["FORMAT", "ExportError", "SavedFileError", "export", "load", "save"]
