"""Faults on purpose, at every step of a write, for tests of what a crash leaves behind.

Strategy
--------
The environment variable ``ARROWIPC_FAILPOINT`` names one point, what happens there, and at which passage of it::

    ARROWIPC_FAILPOINT=C4.renamed:kill@3         SIGKILL after the third rename
    ARROWIPC_FAILPOINT=C3.linked:raise           an EIO whose cause succeeded: the reply is lost
    ARROWIPC_FAILPOINT=T2.batch:enospc           the disk is full
    ARROWIPC_FAILPOINT=C2.synced:delay=2.5       the process sleeps

It is read once, when this module is imported. Unset, `hit` is a function that does nothing. A name or a fault that
does not exist is an error at once, so that a test with a typing error does not pass.
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

__all__ = ["POINTS", "VARIABLE", "Failpoint", "hit"]

VARIABLE: Final = "ARROWIPC_FAILPOINT"

POINTS: Final[Mapping[str, str]] = {
    "P0.begin": "nothing is done",
    "P0.snapshot": "the directory is there and its files are noted",
    "P0.staging": "the job's staging directory is there",
    "T1.created": "a task's staged file is there and empty",
    "T2.batch": "a record batch is written (each)",
    "T2.finished": "the footer is written, nothing is durable",
    "T2.proven": "the staged file is durable and read back, not reported",
    "C1.checked": "the staged files are those that were reported",
    "C2.synced": "their names are durable",
    "C3.checked": "no conflict was found (each attempt)",
    "C3.torn": "half of a record is written to its temporary file",
    "C3.written": "a record is durable under its temporary name",
    "C3.linked": "a record has its name: the job is committed, or withdrawn",
    "C3.synced": "that name is durable",
    "C4.directories": "the partitions' directories are there",
    "C4.renamed": "a file has its final name (each)",
    "C4.synced": "the final names are durable",
    "C5.unlinked": "an old file is gone (each)",
    "C5.synced": "that is durable",
    "C6.success": "_SUCCESS is written",
    "C6.done": "the record is marked as done",
    "C6.pruned": "older records are gone",
    "C6.cleaned": "the staging is gone",
    "A.looked": "a withdrawal found no record of the job",
    "A.withdrawn": "the record that withdraws the job is in the chain",
    "A.removed": "the staging is gone",
}
"""Every point and what is true when it is passed."""

_TEXT: Final = re.compile(
    r"(?P<name>[^:]+):(?:(?P<fault>kill|raise|enospc)|delay=(?P<delay>\d+(?:\.\d+)?))(?:@(?P<nth>[1-9]\d*))?"
)

_ERRNO: Final[Mapping[str, int]] = {"raise": errno.EIO, "enospc": errno.ENOSPC}


@dataclass(frozen=True, slots=True)
class Failpoint:
    """One point at which something goes wrong.

    Parameters
    ----------
    name
        A key of `POINTS`.
    fault
        "kill", "raise" (an OSError of EIO), "enospc" or "delay".
    nth
        At which passage, from 1.
    seconds
        Of a delay.
    """

    name: str
    fault: str
    nth: int = 1
    seconds: float = 0.0
    _passages: count[int] = field(default_factory=lambda: count(1), compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Failpoint:
        """Return the failpoint that the text of the environment variable describes.

        Raises
        ------
        OptionError
            The text is of another form, or names no point.
        """
        found = _TEXT.fullmatch(text)
        if found is None or found["name"] not in POINTS:
            raise OptionError(
                expected=f"{VARIABLE} as NAME:kill, NAME:raise, NAME:enospc or NAME:delay=SECONDS, with @N for the "
                f"N-th passage, and a name of {', '.join(POINTS)}",
                found=repr(text),
            )
        return cls(found["name"], found["fault"] or "delay", int(found["nth"] or 1), float(found["delay"] or 0))

    def hit(self, name: str) -> None:
        """Do the fault if this is its point and its passage.

        Raises
        ------
        OSError
            Where that is the fault.
        """
        if name != self.name or next(self._passages) != self.nth:
            return
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.fault == "delay":
            time.sleep(self.seconds)
        else:
            number = _ERRNO[self.fault]
            raise OSError(number, f"{os.strerror(number)} (failpoint {name})")


def _inert(_: str) -> None:
    """Do nothing: the variable is not set."""


def _from_environment() -> Callable[[str], None]:
    text = os.environ.get(VARIABLE)
    return Failpoint.parse(text).hit if text else _inert


hit: Callable[[str], None] = _from_environment()
"""To be called at each point with its name."""
