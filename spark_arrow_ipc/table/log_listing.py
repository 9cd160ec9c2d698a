"""`list_log`: which entries and checkpoints a table has, by one listing.

A log of 20,000 entries is listed several times by each commit. A disk tells all names at once, and the states of files one by
one, so that a read asks only for those that it needs: of the entries from the newest checkpoint on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from spark_arrow_ipc.storage.paths import name_of
from spark_arrow_ipc.storage.storage import Status
from spark_arrow_ipc.table.names import TableDirectory, parse_number, parse_numbers


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries and checkpoints of a table, by number, as one listing has them.

    `entries` may have only those from the newest checkpoint on; `numbers` has all of them.
    """

    entries: dict[int, Status]
    checkpoints: dict[int, Status]
    numbers: Collection[int] = ()

    @property
    def newest(self) -> int:
        """The number of the newest entry, 0 without any."""
        return max((*self.entries, *self.checkpoints), default=0)

    @property
    def time_ns(self) -> int:
        """The time of the youngest entry by the storage's clock, nanoseconds since 1970; 0 without any."""
        return max((status.mtime_ns for status in self.entries.values()), default=0)


def list_log(directory: TableDirectory, table: str, *, newest_only: bool = False) -> Listing:
    """Return the entries and checkpoints of a table, or only those entries that a read needs. One listing.

    With `newest_only` a disk is asked for the states of the entries from the newest checkpoint on, and not for those of
    20,000 others.
    """
    numbers: set[int] = set()
    by_suffix: dict[str, dict[int, Status]] = {"json": {}, "checkpoint": {}}

    def choose(names: Sequence[str]) -> list[str]:
        entries, checkpoints = parse_numbers(names)
        numbers.update(entries)
        oldest = max(checkpoints, default=0) if newest_only else 0
        chosen = [directory.entry(table, number) for number in entries if number >= oldest]
        return [name_of(path) for path in (*chosen, *(directory.checkpoint(table, number) for number in checkpoints))]

    # A table that has no entry yet may have no directory for them.
    with suppress(FileNotFoundError):
        for status in directory.storage.list_chosen(directory.entries(table), choose):
            parsed = parse_number(name_of(status.path))
            if parsed is not None:
                number, suffix = parsed
                by_suffix[suffix][number] = status
    return Listing(by_suffix["json"], by_suffix["checkpoint"], numbers)
