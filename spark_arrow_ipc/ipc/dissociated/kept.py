"""Messages that a server keeps, so that a table is read and encoded once and not for each client.

All tables share one budget of bytes. What was not asked for the longest time goes first, and a table that does not fit
into the budget by itself is not kept. Clients that are being sent messages hold them, whatever becomes of them here.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Final, Generic, Protocol, TypeVar

_MOST_TOO_LARGE: Final = 1_000
"""Tables that are remembered as too large, so that they do not displace others with each client."""


class _Sized(Protocol):
    @property
    def held_nbytes(self) -> int:
        """The bytes of memory that it takes."""


_S = TypeVar("_S", bound=_Sized)


class Kept(Generic[_S]):
    """Sequences of messages by key, in bounded memory. Any thread may call it.

    Parameters
    ----------
    max_nbytes
        The budget; 0 keeps nothing.
    """

    def __init__(self, max_nbytes: int) -> None:
        self._max_nbytes = max_nbytes
        self._lock = threading.Lock()
        self._messages: OrderedDict[Hashable, tuple[tuple[_S, ...], int]] = OrderedDict()
        self._recording: set[Hashable] = set()
        self._too_large: set[Hashable] = set()
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """The bytes that are kept, or being recorded; never more than the budget."""
        return self._nbytes

    def find(self, key: Hashable) -> tuple[_S, ...] | None:
        """Return the messages of a key, if they are kept."""
        with self._lock:
            found = self._messages.get(key)
            if found is None:
                return None
            self._messages.move_to_end(key)
            return found[0]

    def record(self, key: Hashable, messages: Iterator[_S]) -> Iterator[_S]:
        """Yield the messages, and keep them once all were yielded.

        They are not kept if another thread is recording them, or they do not fit.
        """
        with self._lock:
            records = self._max_nbytes > 0 and key not in self._recording and key not in self._too_large
            if records:
                self._recording.add(key)
        if not records:
            yield from messages
            return
        recorded: list[_S] | None = []
        nbytes = 0
        is_whole = False
        try:
            for message in messages:
                if recorded is not None:
                    if self._reserve(key, nbytes, message.held_nbytes):
                        nbytes += message.held_nbytes
                        recorded.append(message)
                    else:
                        nbytes, recorded = 0, None
                yield message
            is_whole = True
        finally:
            with self._lock:
                self._recording.discard(key)
                if is_whole and recorded is not None:
                    self._messages[key] = tuple(recorded), nbytes
                else:
                    self._nbytes -= nbytes

    def _reserve(self, key: Hashable, reserved: int, nbytes: int) -> bool:
        """Take bytes of the budget for a recording; else give back what it had reserved, and return False."""
        with self._lock:
            if reserved + nbytes > self._max_nbytes:
                if len(self._too_large) >= _MOST_TOO_LARGE:
                    self._too_large.clear()
                self._too_large.add(key)
                self._nbytes -= reserved
                return False
            while self._nbytes + nbytes > self._max_nbytes and self._messages:
                _, (_, freed) = self._messages.popitem(last=False)
                self._nbytes -= freed
            if self._nbytes + nbytes > self._max_nbytes:  # other recordings have the rest
                self._nbytes -= reserved
                return False
            self._nbytes += nbytes
            return True
