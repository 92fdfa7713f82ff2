"""Manifest of the files written by `felbo data corrupt`, used to resume and to verify."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from felbo.data.errors import CorruptDataError

__all__ = ["MANIFEST", "Manifest", "md5_of"]

MANIFEST = "felbo.json"


@dataclass
class Manifest:
    """Data set, seed and number of images of a folder, and the md5 of each file.

    Attributes:
        dataset: The clean data set.
        seed: The seed of the random numbers.
        count: Images for each corruption and severity.
        md5: File name to hash.
    """

    dataset: str
    seed: int
    count: int
    md5: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Manifest | None":
        """Read the manifest in `folder`; None if there is none, as in the published folders."""
        path = folder / MANIFEST
        if not path.is_file():
            return None
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, RecursionError) as error:
            raise CorruptDataError(
                path,
                expected="JSON with dataset, seed, count and md5",
                came=str(error),
                remedy="Delete the folder and run `felbo data corrupt` again.",
            ) from error

    def write(self, folder: Path) -> None:
        """Write the manifest to `folder`, replacing an older one atomically."""
        part = folder / f"{MANIFEST}.part"
        part.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        os.replace(part, folder / MANIFEST)

    def describes_same_images(self, other: "Manifest") -> bool:
        """Return True if data set, seed and number of images agree."""
        return (self.dataset, self.seed, self.count) == (other.dataset, other.seed, other.count)


def md5_of(path: Path) -> str:
    """Return the md5 of a file, read in chunks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
