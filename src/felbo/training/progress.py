"""Progress bar of the training loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from felbo.training.history import Epoch


@contextmanager
def progress_bar(epochs: int, enabled: bool) -> Iterator[Callable[[Epoch], None]]:
    """Yield a function to call with each epoch; a no-op unless ``enabled``."""
    if not enabled:
        yield lambda epoch: None
        return
    # Imported lazily, since it is slow to load.
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} epochs"),
        TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task("training", total=epochs, loss="")
        yield lambda epoch: bar.update(task, completed=epoch.number + 1, loss=str(epoch))
