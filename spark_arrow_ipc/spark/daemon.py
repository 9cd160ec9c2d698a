"""The daemon of Spark's Python workers, which here has imported what they need: ``spark.python.daemon.module``.

Spark starts one Python process for each executor, the daemon, and that forks a worker where none is idle. A new worker
imports PySpark, numpy, pyarrow and this package, which takes half a second of CPU and more; and new ones are many: one for
each core at first, and another whenever rows are not taken to the end (``limit``, ``show``, ``first``), because Spark ends a
worker that has more to say.

Spark's own daemon imports nothing before it forks, lest a library has started threads, which a fork does not copy, with
locks that they hold. This one imports first, and looks whether it still is the only thread: if not, it becomes Spark's own
by ``exec``, and says so. So no worker is forked from a process with threads.

What forks have in common is looked after:

- numpy's global random generator gets a new seed in each of them, as that of Python does;
- importers of zip files are forgotten before, as a worker whose path changes makes each of them read the directory of its zip
  again (18 times that of ``pyspark.zip``, 0.3 s of CPU, with Python 3.11 and 3.12);
- garbage is collected once, and what remains is frozen, so that collections leave pages alone that all workers share.

Used by ``--conf spark.python.daemon.module=spark_arrow_ipc.spark.daemon``, where the package is installed with the Python of
the executors; docs/deploy.md.
"""

from __future__ import annotations

import importlib
import os
import sys
import zipimport
from contextlib import suppress
from pathlib import Path
from typing import Final

from spark_arrow_ipc.spark.process import tune_worker

_SPARKS: Final = "pyspark.daemon"
"""The module of Spark's own daemon, whose loop this one runs."""

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
"""Imports of tasks that read or write: the modules that name all others."""

_THREADS: Final = Path("/proc/self/task")

_JEMALLOC_CONF: Final = "JE_ARROW_MALLOC_CONF"
"""The variable by which pyarrow's jemalloc is told to start no thread; pyarrow allocates by it only where one asks for it."""

_THREADED: Final = (
    "{name}: imported modules started threads ({others}), which a fork does not copy. Workers start from "
    f"{_SPARKS}, as without this module, and import for themselves; spark.executorEnv.OMP_NUM_THREADS=1 is the usual cure\n"
)


def main() -> None:
    """Import what workers need and run Spark's loop, which ends with the executor."""
    # Elsewhere libraries of the system do not bear a fork, and their threads cannot be counted.
    if sys.platform == "linux":
        os.environ.setdefault(_JEMALLOC_CONF, "background_thread:false")
        _import_modules()
        others = _other_threads()
        if others:
            sys.stderr.write(_THREADED.format(name=__spec__.name, others=", ".join(others)))
            sys.stderr.flush()
            os.execv(sys.executable, [sys.executable, "-m", _SPARKS, *sys.argv[1:]])  # noqa: S606 - this program again
        _seed_forks()
        _forget_zips()
        tune_worker()
    importlib.import_module(_SPARKS).manager()


def _import_modules() -> None:
    for name in _MODULES:
        # What is missing or broken here is so in the worker, which tells the person.
        with suppress(Exception):
            importlib.import_module(name)


def _other_threads() -> list[str]:
    """Return the names of all threads but this one."""
    names = []
    for entry in _THREADS.iterdir():
        if entry.name != str(os.getpid()):
            with suppress(OSError):  # it has ended meanwhile
                names.append((entry / "comm").read_text().strip())
    return names


def _seed_forks() -> None:
    """Let each fork have random numbers of its own from ``numpy.random``'s functions, where it is imported."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        os.register_at_fork(after_in_child=random.seed)


def _forget_zips() -> None:
    """Drop importers of zip files from Python's cache, which makes them again where it needs them."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    main()
