"""Tune Spark's Python processes: cheaper garbage collection, kept memory.

Strategy
--------
Spark's daemon collects garbage after each task and each planning, and a full collection walks every object of every
imported module: with numpy, pyarrow and this package about 15 ms, with pyarrow's kernels twice that, for work that
may need 3 ms.
`tune_worker` collects once, and moves the remaining objects, which belong to modules, to the generation that is
never walked (``gc.freeze``). Reference counts free such objects as before; only cycles among them stay. This happens
once in a worker's life, and again after many modules were imported.

Each batch needs buffers of the sizes that the batch before it freed. The allocator of glibc returns larger ones to
the kernel, which zeroes their pages, one fault each: a third of the cost of finding the least and greatest strings.
`tune_worker` lets the allocator keep up to `_KEPT_NBYTES`, unless an environment variable sets it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys

from spark_arrow_ipc.spark.process import is_sparks

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
