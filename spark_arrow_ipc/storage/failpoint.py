"""Inject a fault at a step of a write, for tests of the state after a crash.

The environment variable ``ARROWIPC_FAILPOINT`` names one point, the fault, and on which passage it happens::

    ARROWIPC_FAILPOINT=named.file:kill@3           SIGKILL after the third file has its name
    ARROWIPC_FAILPOINT=committed.put:raise         EIO after the call succeeded: its reply is lost
    ARROWIPC_FAILPOINT=T2.batch:enospc             the disk is full
    ARROWIPC_FAILPOINT=committed.asked:delay=2.5   the process sleeps

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

TASK_POINTS: Final[Mapping[str, str]] = {
    "T1.created": "a task's staged file exists and is empty",
    "T2.batch": "a record batch is written (each)",
    "T2.finished": "the footer is written, nothing is durable",
    "T2.proven": "the staged file is durable and verified, not reported",
}
"""Every point of a task, with its state when it is passed."""

LOCAL_POINTS: Final[Mapping[str, str]] = {
    "C3.torn": "half of a file that is put if absent is written under another name",
    "C3.written": "that file is durable under the other name",
    "C3.linked": "it has its own name; one that is an entry commits its job",
}
"""Every point of `LocalStorage.put_if_absent`, which puts the id of a table, its entries and its checkpoints."""

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

POINTS: Final[Mapping[str, str]] = {**TASK_POINTS, **LOCAL_POINTS, **TABLE_POINTS}

_SYNTAX: Final = re.compile(
    r"(?P<name>[^:]+):(?:(?P<fault>kill|raise|enospc)|delay=(?P<delay>\d+(?:\.\d+)?))(?:@(?P<nth>[1-9]\d*))?"
)

_ERRNO: Final[Mapping[str, int]] = {"raise": errno.EIO, "enospc": errno.ENOSPC}


@dataclass(frozen=True, slots=True)
class Failpoint:
    """A fault at one point."""

    # A key of `POINTS`
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
        if match is None or match["name"] not in POINTS:
            raise OptionError(
                expected=f"{VARIABLE} as NAME:kill, NAME:raise, NAME:enospc or NAME:delay=SECONDS, with @N for the "
                f"N-th passage, and a name of {', '.join(POINTS)}",
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
