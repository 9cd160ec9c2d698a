"""Settings of the Python processes that Spark starts to plan, commit and run tasks; a user's own program is not changed.

How it works
------------
1. A process belongs to Spark if it runs one of Spark's programs or a task (`is_sparks`).
2. For each session of Spark Connect Spark creates a temporary directory, named by ``SPARK_JOB_ARTIFACT_UUID``, and starts
   the session's processes in it. A relative path would be read and written in a directory that Spark deletes.
3. Spark shows an error of such a process with its traceback, unless ``SPARK_HIDE_TRACEBACK`` is set in the process.
   `short_errors` sets it for errors that users can correct; after an error the process ends.
4. Each of these processes collects garbage often and frees memory that it needs again (`tune_worker`).
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
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
"""Modules that Spark starts as programs: daemons, workers and planners."""

_SESSION: Final = "SPARK_JOB_ARTIFACT_UUID"
"""The environment variable with the name of the directory of a Connect session."""

_NO_SESSION: Final = "default"
"""The value for a classic session, whose processes start in the driver's working directory."""


def is_sparks() -> bool:
    """Return True if Spark runs this process for tasks or planning."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return TaskContext.get() is not None or (spec is not None and spec.name.startswith(_PROGRAMS))


def is_session_directory() -> bool:
    """Return True if the working directory is the temporary directory of a Spark Connect session."""
    session = os.environ.get(_SESSION, _NO_SESSION)
    return session not in {_NO_SESSION, ""} and Path.cwd().name == session


_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"


class _ShortErrors(ContextDecorator):
    def __enter__(self) -> None:
        return None

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        # Any other error is a fault of this package, and its traceback is needed.
        is_of_user = isinstance(error, (ArrowIpcError, ConnectionError, TimeoutError)) or (
            isinstance(error, OSError) and error.filename is not None
        )
        if is_of_user and is_sparks():
            # A value that is set already stays, even an empty one.
            os.environ.setdefault(_HIDE_TRACEBACK, "1")


short_errors: Final = _ShortErrors()
"""Lets Spark show errors about options, paths and files without a traceback; a context and a decorator."""


_LOG_LEVEL: Final = "ARROWIPC_LOG_LEVEL"
"""The environment variable with the least level of the lines that streaming queries write to the driver's stderr."""


def show_log() -> None:
    """Write lines of this package's logger to stderr, if Spark runs this process and the variable has a level."""
    level, logger = os.environ.get(_LOG_LEVEL, "").upper(), logging.getLogger("spark_arrow_ipc")
    if level in logging.getLevelNamesMapping() and is_sparks() and not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False


# Spark's daemon collects garbage after each task and each planning, and a full collection walks every object of every
# imported module: about 15 ms with numpy, pyarrow and this package, and twice that with pyarrow's kernels, for work that
# may need 3 ms. `tune_worker` collects once, and moves the objects of modules to the generation that is never walked
# (``gc.freeze``). Reference counts still free such objects; only cycles among them stay.
#
# Each batch needs buffers of the sizes that the batch before it freed. The allocator of glibc returns large ones to the
# kernel, which zeroes their pages, one fault each: a third of the cost of finding the least and greatest strings.
# pyarrow has an allocator of its own, which retains memory that only pyarrow uses again: with glibc's for both, the peak of
# a worker that writes is 9 to 26 MiB less, at the same CPU.
_NEW_MODULES = 20
"""After this many new modules another collection pays for itself."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameter numbers of ``mallopt`` in <malloc.h>."""

_RETAINED_NBYTES = 32 << 20
"""Free memory that the allocator retains; glibc allows no more, and returns larger blocks at once."""

_ALLOCATOR_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD")
"""Environment variables by which users tune the allocator, whose settings then stay."""

_POOL_VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"
"""The variable by which users choose pyarrow's allocator."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Collect no garbage while 100,000 objects are made that stay: to walk them takes a quarter of a plan's time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Tuned:
    """State of this process."""

    modules = -_NEW_MODULES  # number of modules at the last collection


def tune_worker() -> None:
    """Tune this process if Spark runs it and new modules make it worthwhile."""
    if len(sys.modules) - _Tuned.modules < _NEW_MODULES or not is_sparks():
        return
    if _Tuned.modules < 0:
        _retain_memory()
    gc.collect()
    gc.freeze()
    _Tuned.modules = len(sys.modules)


def _retain_memory() -> None:
    """Let the allocator of glibc retain freed memory, and pyarrow use it."""
    if any(os.environ.get(name) for name in _ALLOCATOR_VARIABLES):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    mallopt(_MMAP_THRESHOLD, _RETAINED_NBYTES)
    mallopt(_TRIM_THRESHOLD, _RETAINED_NBYTES)
    if "pyarrow" in sys.modules and not os.environ.get(_POOL_VARIABLE):  # a planner need not have pyarrow
        from spark_arrow_ipc.spark import bridge

        bridge.use_system_memory()
