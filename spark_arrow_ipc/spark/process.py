"""The kind of this process: one of Spark's own or a person's program; in a person's directory or in one of Spark's.

Spark runs a data source in Python processes of its own: to plan and commit, beside the driver, and to run tasks. A
person's program that calls the package directly must not be changed by what is only right there.

For Spark Connect sessions, which may share a server, Spark gives each session a temporary directory, named by the
environment variable ``SPARK_JOB_ARTIFACT_UUID``, and starts the Python processes of the session in it. A relative path
means nothing there: it would be read and written in a directory that Spark deletes with the session.

What a process of Spark's raises is shown to the person with its traceback, Spark's own frames included, unless the
variable ``SPARK_HIDE_TRACEBACK`` is set in that process; after an error the process ends. `short_errors` sets it
where the sentence says all that the person can use.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
from contextlib import ContextDecorator
from pathlib import Path
from types import TracebackType
from typing import Final

from pyspark import TaskContext

from spark_arrow_ipc.errors import ArrowIpcError

_PROGRAMS: Final = (
    "pyspark.daemon",
    "spark_arrow_ipc.spark.daemon",
    "pyspark.worker",
    "pyspark.sql.worker.",
    "pyspark.sql.streaming.",
)
"""The programs that Spark starts: the daemon that forks its processes, or without it the worker and planners."""

_SESSION: Final = "SPARK_JOB_ARTIFACT_UUID"
"""The environment variable in which Spark names the directory of a Connect session."""

_NO_SESSION: Final = "default"
"""Its value for a classic session, whose processes start in the driver's working directory."""


def is_sparks() -> bool:
    """Return True if Spark runs this process for tasks or planning, without user objects."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return TaskContext.get() is not None or (spec is not None and spec.name.startswith(_PROGRAMS))


def is_session_directory() -> bool:
    """Return True if the working directory is the temporary one of a Spark Connect session."""
    session = os.environ.get(_SESSION, _NO_SESSION)
    return session not in {_NO_SESSION, ""} and Path.cwd().name == session


_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"


class _ShortErrors(ContextDecorator):
    def __enter__(self) -> None:
        return None

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        is_persons = isinstance(error, (ArrowIpcError, ConnectionError, TimeoutError)) or (
            isinstance(error, OSError) and error.filename is not None
        )
        if is_persons and is_sparks():
            os.environ.setdefault(_HIDE_TRACEBACK, "1")


short_errors: Final = _ShortErrors()
"""Lets Spark show errors about options, paths and files without a traceback; a context and a decorator.

These are every `ArrowIpcError`, errors of the file system that name a file, and those of connections. All others are
faults of this package and keep their traceback, and so does everything if the variable is set already, even to nothing.
"""


_LOG_LEVEL: Final = "ARROWIPC_LOG_LEVEL"
"""The environment variable with the level from which a query's source writes this package's lines to the driver's stderr."""


def show_log() -> None:
    """Write lines of this package's logger to stderr, where Spark runs this process and a level is set for it."""
    level, logger = os.environ.get(_LOG_LEVEL, "").upper(), logging.getLogger("spark_arrow_ipc")
    if level in logging.getLevelNamesMapping() and is_sparks() and not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False


# Tune Spark's Python processes: cheaper garbage collection, kept memory.
#
# Spark's daemon collects garbage after each task and each planning, and a full collection walks every object of every
# imported module: with numpy, pyarrow and this package about 15 ms, with pyarrow's kernels twice that, for work that
# may need 3 ms. `tune_worker` collects once, and moves the remaining objects, which belong to modules, to the
# generation that is never walked (``gc.freeze``). Reference counts free such objects as before; only cycles among
# them stay. This happens once in a worker's life, and again after many modules were imported.
#
# Each batch needs buffers of the sizes that the batch before it freed. The allocator of glibc returns larger ones to
# the kernel, which zeroes their pages, one fault each: a third of the cost of finding the least and greatest strings.
# `tune_worker` lets the allocator keep up to `_KEPT_NBYTES`, unless an environment variable sets it.
_NEW_MODULES = 20
"""After this many new modules another collection pays."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameter numbers of ``mallopt`` in <malloc.h>."""

_KEPT_NBYTES = 32 << 20
"""Free memory that is kept; larger blocks return to the kernel at once, as glibc allows no more."""

_ALLOCATOR_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD")
"""Environment variables by which users tune the allocator; if one is set, it is left alone."""


class _Tuned:
    """State of this process: the number of modules at the last collection."""

    modules = -_NEW_MODULES


def tune_worker() -> None:
    """Tune this process if Spark runs it and new modules make it worthwhile."""
    if len(sys.modules) - _Tuned.modules < _NEW_MODULES or not is_sparks():
        return
    if _Tuned.modules < 0:
        _keep_memory()
    gc.collect()
    gc.freeze()
    _Tuned.modules = len(sys.modules)


def _keep_memory() -> None:
    """Let the allocator of glibc keep freed memory; does nothing with another one."""
    if any(os.environ.get(name) for name in _ALLOCATOR_VARIABLES):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, _KEPT_NBYTES)
    mallopt(_TRIM_THRESHOLD, _KEPT_NBYTES)
