"""Progress bar of the training loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from felbo.objectives import Loss


@contextmanager
def progress_bar(epochs: int, enabled: bool) -> Iterator[Callable[[Loss], None]]:
    """Yield a function to call with the mean loss of each epoch; a no-op unless ``enabled``."""
    if not enabled:
        yield lambda mean: None
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
        yield lambda mean: bar.update(task, advance=1, loss=_describe(mean))


def _describe(mean: Loss) -> str:
    return f"loss {mean.total:.4f}  nll {mean.nll:.4f}  kl {mean.kl:.3f}"
