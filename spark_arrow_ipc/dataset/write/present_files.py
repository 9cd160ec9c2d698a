"""Find out which of many files are there, in as few requests as that takes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from spark_arrow_ipc.storage.concurrent import each
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.storage.storage import Status, Storage

_NAMES: Final = 10_000
"""Most names of a directory that are listed; in a larger one the files are asked for one by one."""


def present(storage: Storage, paths: Iterable[str]) -> dict[str, Status]:
    """Return the states of those of some paths that are there.

    One listing for each directory; one call for each file that is alone in its directory, or lies in a large one.

    Raises
    ------
    OSError
        The storage cannot be read.
    """
    directories: dict[str, set[str]] = {}
    for path in paths:
        directories.setdefault(parent(path), set()).add(path)
    found: dict[str, Status] = {}
    unknown: list[str] = []

    def look(directory: str) -> None:
        wanted = directories[directory]
        if len(wanted) == 1 or not _listed(storage, directory, wanted, found):
            unknown.extend(wanted - found.keys())

    def ask(path: str) -> None:
        status = storage.status(path, follow_links=False)
        if status is not None:
            found[path] = status

    waits = storage.traits.waits
    each(look, sorted(directories), waits=waits)
    each(ask, unknown, waits=waits)
    return found


def _listed(storage: Storage, directory: str, wanted: set[str], found: dict[str, Status]) -> bool:
    """Look for files in the listing of their directory; return whether it is known now which of them are there."""
    left = len(wanted)
    with suppress(FileNotFoundError):
        for number, status in enumerate(storage.list(directory)):
            if number == _NAMES:
                return False
            if status.path in wanted:
                found[status.path] = status
                left -= 1
                if not left:
                    break
    return True
