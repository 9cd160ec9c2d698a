"""`Polls`: ask the mode of a stream for something new, but not too often, and more than once if the storage fails.

A query that waits asks its source 80 times a second (measured with Spark 4.3). Each answer from the storage would
be a listing, so looks begin 0.2 or ten seconds apart, or further: twenty times what the last one took, up to a second,
and five times without that bound. Until then the answer is "nothing new", after a pause of at most half a second, so that a
query can be stopped. While files are known to wait there is no pause.

An error that is raised ends the query. One of the storage may pass, so the first few are warnings, and longer
pauses. Where "nothing new" would end the query (`Trigger.AvailableNow`) or a whole run of it (`Trigger.Once`), the
pauses are made inside the call.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from spark_arrow_ipc.dataset.stream.admission import SETTLE_SECONDS
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Backlog, Limit, Offset, StreamMode
from spark_arrow_ipc.errors import ConcurrentWriteError, printable

_LOG: Final = logging.getLogger(__name__)

_LISTING_SHARE: Final = 5
_QUICK_SHARE: Final = 20
_QUICK_SECONDS: Final = 1.0
"""Looks that are less far apart take a smaller share of the time."""

_LONGEST_PAUSE: Final = 0.5
"""Seconds that one call may sleep: Spark stops a query between two calls."""

_ATTEMPTS: Final = 6

_LONGEST_BACKOFF: Final = 30.0

_MAY_PASS: Final = (OSError, ConcurrentWriteError)


@dataclass(slots=True)
class Polls:
    """The looks of one query."""

    mode: StreamMode
    interval: float  # the least number of seconds between two looks that find nothing
    # A clock and a pause, for tests.
    seconds: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    backlog: Backlog = field(default_factory=Backlog)
    _due: float = -1.0
    _failures: int = 0
    _only_now: bool = False

    def only_available_now(self) -> None:
        """Never answer "nothing new" without a look, as this ends the query."""
        self._only_now = True
        self.mode.only_available_now()

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return `StreamMode.latest`, or `start` if it is too early for a look."""
        patient = self._only_now or limit == ALL_AVAILABLE
        if not patient and not self._wait():
            return start
        while True:
            begun = self.seconds()
            try:
                end = self.mode.latest(start, limit)
            except _MAY_PASS as error:
                self._failures += 1
                if self._failures == _ATTEMPTS:
                    raise
                pause = min(_LONGEST_BACKOFF, max(1.0, self.interval) * 2 ** (self._failures - 1))
                _LOG.warning(
                    "looking for new files failed (attempt %d of %d, the next in %.0f s): %s",
                    self._failures, _ATTEMPTS, pause, printable(str(error)) or type(error).__name__,
                )  # fmt: skip
                if not patient:
                    self._due = self.seconds() + pause
                    return start
                self.sleep(pause)
            else:
                self._failures = 0
                self.backlog = self.mode.backlog()
                waits = end == start or not self.backlog.files
                took = max(0.0, self.seconds() - begun - SETTLE_SECONDS)  # without the pause for young files
                quick = min(_QUICK_SECONDS, _QUICK_SHARE * took)
                self._due = begun + max(self.interval, quick, _LISTING_SHARE * took) if waits else begun
                return end

    def _wait(self) -> bool:
        """Wait for the next look, and return whether it is due."""
        seconds = self._due - self.seconds()
        if seconds > 0:
            self.sleep(min(seconds, _LONGEST_PAUSE))
        return seconds <= _LONGEST_PAUSE
