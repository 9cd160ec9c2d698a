"""How long writers wait for each other where a storage copies instead of renaming: the one place of these numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class Timing:
    """Waiting times, and the clock by which they pass. Nothing waits unless a process died or stands still.

    Parameters
    ----------
    patience_seconds
        A job that is being published by another process is helped after so long without any progress.
    grace_seconds
        A copy that the storage began for another process ends within this time, and one second more for each
        `copied_nbytes` of the file.
    copied_nbytes
        Bytes that a storage copies in a second, at least.
    poll_seconds
        Time between two looks at a pending record.
    clock, sleep
        Seconds that never go back, and a function that lets them pass.
    """

    patience_seconds: float = 60.0
    grace_seconds: float = 30.0
    copied_nbytes: int = 50_000_000
    poll_seconds: float = 1.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def grace(self, nbytes: int) -> float:
        """Return the seconds in which a copy of a file of this size ends."""
        return self.grace_seconds + nbytes / self.copied_nbytes


TIMING: Final = Timing()
"""What every writer of this process uses."""
