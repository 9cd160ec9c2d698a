"""What makes work in Spark's Python processes cheap: modules leave the garbage collector, and memory is kept.

Strategy
--------
Spark's daemon collects garbage after each task and each planning, and a full collection walks every object of every
imported module: with numpy, pyarrow and this package about 15 ms, with pyarrow's kernels twice that, for work that
may need 3 ms.
`settle` collects once, and moves what is left, which is modules and what they define, to the generation that is
never walked (``gc.freeze``). Reference counts free such objects as before; only cycles among them stay, and there
is one such moment in a worker's life, or one more where many modules were imported since.

Each batch needs buffers of the sizes that the batch before it gave back. The allocator of glibc gives larger ones
back to the kernel, which hands them out again as pages of zeros, one fault each: a third of what it costs to look
for the least and greatest texts. `settle` lets it keep up to `_KEPT_NBYTES`, unless the environment says what to keep.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys

from pyspark import TaskContext

__all__ = ["settle"]

_DAEMON = "pyspark.daemon"
"""The program from which Spark forks its Python processes."""

_NEW_MODULES = 20
"""So many modules more are worth another collection."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of ``mallopt``, as <malloc.h> numbers them."""

_KEPT_NBYTES = 32 << 20
"""Of free memory; larger blocks, which glibc cannot keep, go back at once."""

_ALLOCATOR_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD")
"""Of the environment: who sets them has chosen."""


class _Settled:
    """What was done in this process."""

    modules = -_NEW_MODULES


def settle() -> None:
    """Make one of Spark's processes ready for more work; does nothing in others, or where little was imported since."""
    if len(sys.modules) - _Settled.modules < _NEW_MODULES or not _is_sparks():
        return
    if _Settled.modules < 0:
        _keep_memory()
    gc.collect()
    gc.freeze()
    _Settled.modules = len(sys.modules)


def _is_sparks() -> bool:
    """Return whether Spark runs this process for tasks or for planning: no user's own objects live in it."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return TaskContext.get() is not None or (spec is not None and spec.name == _DAEMON)


def _keep_memory() -> None:
    """Let the allocator keep what is freed; does nothing where it is not that of glibc."""
    if any(os.environ.get(name) for name in _ALLOCATOR_VARIABLES):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, _KEPT_NBYTES)
    mallopt(_TRIM_THRESHOLD, _KEPT_NBYTES)
