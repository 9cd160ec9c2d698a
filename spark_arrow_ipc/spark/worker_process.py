"""What makes tasks in one of Spark's Python workers cheap: imported modules are taken out of the garbage collector.

Strategy
--------
Spark's daemon collects garbage after each task, and a full collection walks every object of every imported module:
with numpy, pyarrow and this package about 15 ms, with pyarrow's kernels twice that, for tasks that may need 3 ms.
`settle` collects once, and moves what is left, which is modules and what they define, to the generation that is
never walked (``gc.freeze``). Reference counts free such objects as before; only cycles among them stay, and there
is one such moment in a worker's life, or one more where many modules were imported since.
"""

from __future__ import annotations

import gc
import sys

from pyspark import TaskContext

__all__ = ["settle"]

_NEW_MODULES = 20
"""So many modules more are worth another collection."""


class _Settled:
    """What was done in this process."""

    modules = -_NEW_MODULES


def settle() -> None:
    """Freeze what is imported by now; does nothing outside of a task, or where little was imported since."""
    if len(sys.modules) - _Settled.modules < _NEW_MODULES or TaskContext.get() is None:
        return
    gc.collect()
    gc.freeze()
    _Settled.modules = len(sys.modules)
