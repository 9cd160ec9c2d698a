"""A daemon of Spark's Python workers that has imported what they need: ``spark.python.daemon.module`` (docs/deploy.md).

How it works
------------
Spark starts one daemon for each executor, which forks a worker when none is idle. A new worker imports PySpark, numpy,
pyarrow and this package in half a second of CPU or more. Spark needs many: one for each core at first, and another
whenever a query does not read all rows (``limit``, ``show``, ``first``), because Spark then ends the worker.

Spark's own daemon imports nothing, because a library may start threads, which a fork does not copy, and their locks stay
locked in the fork. This daemon imports first and then counts threads. If it has more than one, it writes a line to stderr
and becomes Spark's daemon by ``exec``, so no worker is forked from a process with threads.
"""

from __future__ import annotations

import importlib
import os
import sys
import zipimport
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

# None of these modules imports PySpark: `main` first chooses from where.

_SPARKS: Final = "pyspark.daemon"
"""The module of Spark's own daemon, which has the loop that forks workers."""

_MODULES: Final = (
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "spark_arrow_ipc.spark.datasource",
    "spark_arrow_ipc.spark.read.reader",
    "spark_arrow_ipc.spark.read.where",
    "spark_arrow_ipc.spark.push_down.aggregates",
    "spark_arrow_ipc.spark.push_down.conjuncts",
    "spark_arrow_ipc.spark.push_down.narrow",
    "spark_arrow_ipc.spark.write.writer",
)
"""Modules that tasks import when they read or write; they import all others."""

_THREADS: Final = Path("/proc/self/task")

_JEMALLOC_CONF: Final = "JE_ARROW_MALLOC_CONF"
"""The variable that keeps jemalloc from starting a thread, if pyarrow uses it."""

_THREADED: Final = (
    "{name}: imported modules started threads ({others}), which a fork does not copy. Workers start from "
    f"{_SPARKS}, as without this module, and import for themselves; spark.executorEnv.OMP_NUM_THREADS=1 is the usual cure\n"
)


def main() -> None:
    """Import what workers need and run Spark's loop, which ends with the executor."""
    # On other systems libraries do not survive a fork, and their threads cannot be counted.
    if sys.platform == "linux":
        _pass_over_zip()
        os.environ.setdefault(_JEMALLOC_CONF, "background_thread:false")
        _import_modules()
        others = _other_threads()
        if others:
            sys.stderr.write(_THREADED.format(name=__spec__.name, others=", ".join(others)))
            sys.stderr.flush()
            os.execv(sys.executable, [sys.executable, "-m", _SPARKS, *sys.argv[1:]])  # noqa: S606 - this program again
        _seed_forks()
        _forget_zips()
        # Also freezes all imported objects, so that no collection writes to pages that workers share.
        importlib.import_module("spark_arrow_ipc.spark.process").tune_worker()
    importlib.import_module(_SPARKS).manager()


def _pass_over_zip() -> None:
    """Remove Spark's ``pyspark.zip`` from the path if it is part of the installed PySpark, which has the same modules."""
    # Imports from the zip compile each module, 0.5 to 0.8 s of CPU; an installation has bytecode.
    for entry in [entry for entry in sys.path if isinstance(entry, str) and entry.endswith("pyspark.zip")]:
        others = [other for other in sys.path if other != entry]
        spec = PathFinder.find_spec("pyspark", others)
        home = Path(entry, "..", "..", "..").resolve()  # of python/lib/pyspark.zip
        if spec is not None and spec.origin is not None and Path(spec.origin).resolve().parent == home:
            sys.path[:] = others


def _import_modules() -> None:
    for name in _MODULES:
        # The worker that needs a missing or broken module raises the error, which the user sees.
        with suppress(Exception):
            importlib.import_module(name)


def _other_threads() -> list[str]:
    """Return the names of all other threads of this process."""
    names = []
    for entry in _THREADS.iterdir():
        if entry.name != str(os.getpid()):
            with suppress(OSError):  # it has ended meanwhile
                names.append((entry / "comm").read_text().strip())
    return names


def _seed_forks() -> None:
    """Let each fork seed the random generator of ``numpy.random``, if it is imported."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        # Forks would draw the same numbers; Python does this for its own generator.
        os.register_at_fork(after_in_child=random.seed)


def _forget_zips() -> None:
    """Remove importers of zip files from Python's cache, which creates them again when it needs them."""
    # A worker whose path changes makes each importer read the directory of its zip again: 0.3 s of CPU for the 18
    # importers of pyspark.zip, with Python 3.11 and 3.12.
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    main()
