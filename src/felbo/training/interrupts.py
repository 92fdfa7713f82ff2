"""Signals that end a training: finish the step, save, and say so."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class TrainingInterrupted(KeyboardInterrupt):
    """A training with checkpoints was ended by Ctrl-C or SIGTERM, after its step was saved.

    It is no ``Exception``, so that ``except Exception`` around a training does not swallow it.

    Attributes:
        checkpoint: file that was written.
        history: the finished epochs.
    """

    def __init__(self, message: str, checkpoint: Path) -> None:
        super().__init__(message)
        self.checkpoint = checkpoint


class Interrupts:
    """Remember SIGINT and SIGTERM instead of acting on them at once.

    Attributes:
        received: the signal that came; ``None`` if there was none.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Context manager: a first signal is remembered, a second acts as it did before.

        Only the main thread may set handlers; in another one nothing happens. Signals that are
        ignored stay so.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in SIGNALS}
        own = {n: handler for n, handler in before.items() if handler not in (signal.SIG_IGN, None)}

        def remember(number: int, frame: FrameType | None) -> None:
            self.received = signal.Signals(number)
            for each, handler in own.items():
                signal.signal(each, handler)

        for number in own:
            signal.signal(number, remember)
        try:
            yield
        finally:
            for number, handler in own.items():
                signal.signal(number, handler)
