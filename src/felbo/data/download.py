"""Download files from mirrors: resumable, verified by md5, then moved into place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from felbo.data.archive import extract_expected
from felbo.data.errors import DownloadError
from felbo.data.integrity import FileState, report
from felbo.data.location import data_root, fetch_command
from felbo.data.registry import DataFile, Source, source_info

# Imported lazily: their import takes a tenth as long as that of torch, and few calls need them.
if TYPE_CHECKING:
    import requests
    from rich.progress import Progress

__all__ = ["download_file", "fetch"]

# Several times the largest published file.
LARGEST = 1 << 30
CHUNK = 1 << 16
CONNECT_AND_READ_TIMEOUT = (10.0, 60.0)


def fetch(name: str, root: str | os.PathLike[str] | None = None, *, progress: bool = True) -> Path:
    """Download a data set: afterwards every file exists and has its published hash.

    Good files are kept, missing and bad ones are downloaded. A file lock makes processes that fetch
    the same data set wait for each other.

    Args:
        name: The data set.
        root: The data root; see :func:`felbo.data.location.data_root`.
        progress: Show a progress bar when standard error is a terminal.

    Returns:
        The folder of the data set.

    Raises:
        DownloadError: No mirror delivered a file.
        CorruptDataError: A downloaded archive does not hold the published files.
    """
    from filelock import FileLock

    info = source_info(name)
    base = data_root(root)
    folder = base / info.folder
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".fetch.lock"):
        wanted = [
            file
            for file in info.files
            if report(folder / file.name, file).state is not FileState.GOOD
        ]
        if info.archive is None:
            for file in wanted:
                download_file(file, info.mirrors, folder, progress=progress)
        elif wanted:
            _fetch_archive(info, info.archive, base, wanted, progress)
    return folder


def _fetch_archive(
    info: Source, archive: DataFile, base: Path, wanted: list[DataFile], progress: bool
) -> None:
    packed = base / archive.name
    was_there = packed.exists()
    download_file(archive, info.mirrors, base, progress=progress)
    remedy = f"Delete the archive and run `{fetch_command(info.name, base)}` again."
    extract_expected(packed, base / info.folder, wanted, remedy=remedy)
    if not was_there:  # keep an archive that the user put there
        packed.unlink()


def download_file(
    file: DataFile, mirrors: tuple[str, ...], folder: Path, *, progress: bool = True
) -> Path:
    """Download one file from the first mirror that delivers it completely.

    An interrupted download stays in `<name>.part` and is resumed, from any mirror. Content with
    another hash is deleted; if part of it came from an earlier attempt, the whole file is requested
    once more from the same mirror, since the earlier part may have been the bad one.

    Raises:
        DownloadError: Every mirror failed.
    """
    part = folder / f"{file.name}.part"
    if part.is_symlink():  # never write through a link into a file elsewhere
        part.unlink()
    failures: list[str] = []
    for mirror in mirrors:
        url = mirror + file.name
        resumed = part.exists()
        failure = _attempt(url, file, folder, part, progress)
        if failure and resumed and not part.exists():
            failure = _attempt(url, file, folder, part, progress)
        if failure is None:
            return folder / file.name
        failures.append(f"  {url}: {failure}")
    raise DownloadError(
        f"{file.name} could not be downloaded to {folder}; tried\n"
        + "\n".join(failures)
        + "\nCheck the connection and run the same command again: "
        "interrupted downloads are resumed."
    )


def _attempt(url: str, file: DataFile, folder: Path, part: Path, progress: bool) -> str | None:
    """Try one URL; return None on success, else the reason of the failure."""
    import pooch
    import requests

    try:
        pooch.retrieve(
            url,
            known_hash=f"md5:{file.md5}",
            fname=file.name,
            path=folder,
            downloader=_ResumingDownloader(part, progress),
        )
    except requests.ConnectionError as error:
        # The error's own text repeats the URL and the whole chain of exceptions.
        return f"no connection ({type(error).__name__})"
    except requests.RequestException as error:
        return f"{type(error).__name__}: {error}"
    except ValueError:
        return f"the content does not have the published md5 {file.md5}"
    return None


class _ResumingDownloader:
    """Pooch's downloader protocol over HTTP, with a `.part` file that survives interruptions."""

    def __init__(self, part: Path, progress: bool) -> None:
        self.part = part
        self.progress = progress

    def __call__(self, url: str, output_file: str, pooch: object, check_only: bool = False) -> None:
        """Complete the part file, then pass it to pooch, which checks its hash and moves it."""
        import requests

        have = self.part.stat().st_size if self.part.exists() else 0
        # identity: the server must not re-encode a .gz, since the hash is that of the file itself.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(
            url, headers=headers, stream=True, timeout=CONNECT_AND_READ_TIMEOUT
        ) as response:
            for asked in (*response.history, response):
                _require_tls(asked.url)
            # 416: no bytes beyond those we have, so the part may be complete; its hash decides.
            if not (have and response.status_code == requests.codes.range_not_satisfiable):
                response.raise_for_status()
                self._receive(response, have, Path(url).name)
        os.replace(self.part, output_file)

    def _receive(self, response: requests.Response, have: int, label: str) -> None:
        import requests

        resuming = response.status_code == 206  # partial content
        start = have if resuming else 0  # 200: the server sends the whole file again
        length = response.headers.get("Content-Length")
        total = start + int(length) if length is not None else None
        with _progress_bar(self.progress) as bar, self.part.open("ab" if start else "wb") as target:
            task = bar.add_task(label, total=total, completed=start)
            received = start
            for chunk in response.iter_content(CHUNK):
                received += len(chunk)
                if received > LARGEST:
                    raise requests.RequestException(f"more than {LARGEST:,} bytes were sent")
                target.write(chunk)
                bar.advance(task, len(chunk))


def _require_tls(url: str) -> None:
    """Raise unless a URL, also one that a server redirected to, is asked over TLS.

    A server on this machine, as tests have one, needs none.
    """
    import requests

    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise requests.RequestException(f"{url} is not asked over TLS (https)")


def _progress_bar(show: bool) -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not (show and console.is_terminal),
    )
