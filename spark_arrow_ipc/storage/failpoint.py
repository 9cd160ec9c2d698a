"""Inject a fault at a step of a write, for tests of the state after a crash.

The environment variable ``ARROWIPC_FAILPOINT`` names one point, the fault, and on which passage it happens::

    ARROWIPC_FAILPOINT=C4.renamed:kill@3         SIGKILL after the third rename
    ARROWIPC_FAILPOINT=C3.linked:raise           EIO after the call succeeded: its reply is lost
    ARROWIPC_FAILPOINT=T2.batch:enospc           the disk is full
    ARROWIPC_FAILPOINT=C2.synced:delay=2.5       the process sleeps

It is read once, when this module is imported; without it `hit` does nothing. An unknown name or fault is an error.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from spark_arrow_ipc.errors import OptionError

VARIABLE: Final = "ARROWIPC_FAILPOINT"

POINTS: Final[Mapping[str, str]] = {
    "P0.begin": "nothing is done",
    "P0.snapshot": "the directory exists and its files are noted",
    "P0.staging": "the job's staging directory exists",
    "T1.created": "a task's staged file exists and is empty",
    "T2.batch": "a record batch is written (each)",
    "T2.finished": "the footer is written, nothing is durable",
    "T2.proven": "the staged file is durable and verified, not reported",
    "C1.checked": "the staged files are those that the tasks reported",
    "C2.synced": "their names are durable",
    "C3.checked": "no conflict was found (each attempt)",
    "C3.torn": "half of a record is written to its temporary file",
    "C3.written": "a record is durable under its temporary name",
    "C3.linked": "a record has its name: the job is committed, or withdrawn",
    "C3.synced": "that name is durable",
    "C4.directories": "the partitions' directories exist",
    "C4.renamed": "a file has its final name (each)",
    "C4.proven": "copies only: all files have their final names",
    "C4.sources": "copies only: the staged files are deleted",
    "C4.waited": "copies only: those of other processes have ended",
    "C4.synced": "the final names are durable",
    "C5.unlinked": "an old file is deleted (each)",
    "C5.synced": "the deletions are durable",
    "C6.success": "_SUCCESS is written",
    "C6.kept": "the record is kept, if the dataset keeps records",
    "C6.done": "the record is marked as done",
    "C6.pruned": "older records are deleted",
    "C6.cleaned": "the staging directory is deleted",
    "H.announced": "copies only: a process that found a job pending says that it helps",
    "G.claimed": "the old files of a pending job are claimed, to take it back",
    "G.recorded": "the record that takes it back is in the chain",
    "A.looked": "a withdrawal found no record of the job",
    "A.withdrawn": "the record that withdraws the job is in the chain",
    "A.removed": "the staging directory is deleted",
}
"""Every point of a write, with its state when it is passed."""

COPY_POINTS: Final[Mapping[str, str]] = {
    "K1.listed": "a dataset is copied: the files of one state are listed",
    "K2.copied": "one of them is staged in the copy (each)",
    "K3.carried": "the kept records are in the copy",
}
"""Every further point of `arrowipc copy`, which commits the copy as a write does."""

TABLE_POINTS: Final[Mapping[str, str]] = {
    "planned.id": "the table has an id, durably; the job has no mark",
    "planned.mark": "the job's mark is there",
    "named.file": "a file has its final name (each)",
    "named.all": "all names are proven and durable",
    "committed.asked": "the job fits the newest state; its entry is not put (each attempt)",
    "committed.put": "the entry is in the log; the job does not know it",
    "collected.removed": "removed files are deleted or retained (each batch of them)",
    "collected.files": "the staged files of an ended job are deleted; then those with names that do not count",
    "collected.mark": "the job's mark is deleted: nothing of it is left",
    "aborted.expired": "the entry that expires jobs is in the log; their files are there",
}
"""Every edge of `table.transaction.Transaction`, with its state when it is passed."""

_NAMES: Final = (*POINTS, *COPY_POINTS, *TABLE_POINTS)

OF_COPIES: Final = frozenset({"C4.proven", "C4.sources", "C4.waited", "H.announced"})
"""The points of storages that publish by copies."""

_SYNTAX: Final = re.compile(
    r"(?P<name>[^:]+):(?:(?P<fault>kill|raise|enospc)|delay=(?P<delay>\d+(?:\.\d+)?))(?:@(?P<nth>[1-9]\d*))?"
)

_ERRNO: Final[Mapping[str, int]] = {"raise": errno.EIO, "enospc": errno.ENOSPC}


@dataclass(frozen=True, slots=True)
class Failpoint:
    """A fault at one point."""

    # A key of `POINTS`, `COPY_POINTS` or `TABLE_POINTS`
    name: str
    # "kill", "raise" (an OSError of EIO), "enospc" or "delay"
    fault: str
    # Passage of the point at which it happens, from 1
    nth: int = 1
    seconds: float = 0.0
    _passages: count[int] = field(default_factory=lambda: count(1), compare=False, repr=False)

    @classmethod
    def parse(cls, string: str) -> Failpoint:
        """Parse the value of the environment variable."""
        match = _SYNTAX.fullmatch(string)
        if match is None or match["name"] not in _NAMES:
            raise OptionError(
                expected=f"{VARIABLE} as NAME:kill, NAME:raise, NAME:enospc or NAME:delay=SECONDS, with @N for the "
                f"N-th passage, and a name of {', '.join(_NAMES)}",
                found=repr(string),
            )
        return cls(match["name"], match["fault"] or "delay", int(match["nth"] or 1), float(match["delay"] or 0))

    def hit(self, name: str) -> None:
        """Cause the fault if this is its point and passage."""
        if name != self.name or next(self._passages) != self.nth:
            return
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.fault == "delay":
            time.sleep(self.seconds)
        else:
            number = _ERRNO[self.fault]
            raise OSError(number, f"{os.strerror(number)} (failpoint {name})")


_value: Final = os.environ.get(VARIABLE)

hit: Callable[[str], None] = Failpoint.parse(_value).hit if _value else lambda _: None
"""Called at each point with its name."""
