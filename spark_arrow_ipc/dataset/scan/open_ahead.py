"""Open the next files of a task while one is read, where opening waits for a network."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from typing import Final, TypeVar

from spark_arrow_ipc.ipc.bytes.ahead import Ahead

FILES_AHEAD: Final = 8
"""Files that are opened before their turn: of each its last 64 KiB are held, which are all of a small one."""

_Item = TypeVar("_Item")
_Opened = TypeVar("_Opened")


def in_turn(
    items: Sequence[_Item], opens: Callable[[_Item], _Opened], closes: Callable[[_Opened], None], *, waits: bool
) -> Generator[tuple[_Item, Callable[[], _Opened]], None, None]:
    """Yield each item with a function that opens it, or returns it if a thread has opened it meanwhile.

    The function is to be called once, before the next item is asked for, and raises what opening raises. Closing the
    generator closes what was opened and not asked for.
    """
    if not waits or len(items) < 2:
        for item in items:
            yield item, partial(opens, item)
        return
    with closing(
        Ahead((partial(opens, item) for item in items), FILES_AHEAD, "arrow-ipc-open", discard=closes)
    ) as ahead:
        for item in items:
            opened = ahead.take()
            assert opened is not None, "there is a result of each"
            yield item, opened
