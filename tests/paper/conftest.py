"""Where the tests of the studies find MNIST."""

import os
from pathlib import Path

import pooch
import pytest

from felbo.data import REGISTRY

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture
def mnist_root(monkeypatch):
    """A root that has the MNIST files, set as FELBO_DATA; skips where there is none."""
    named = [Path(os.environ["FELBO_DATA"])] if os.environ.get("FELBO_DATA") else []
    roots = [*named, SHARED, Path(pooch.os_cache("felbo"))]
    info = REGISTRY["mnist"]
    files = [file.name for split in ("train", "test") for file in info.split_files(split)]
    for root in roots:
        if all((root / info.folder / name).is_file() for name in files):
            monkeypatch.setenv("FELBO_DATA", str(root))
            return root
    looked_in = ", ".join(map(str, roots))
    pytest.skip(f"MNIST is in none of {looked_in}; set FELBO_DATA or run `felbo data fetch mnist`")
