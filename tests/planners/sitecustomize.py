"""Planners of the tests' shared session start with their modules, as workers do by `spark_arrow_ipc.spark.daemon`.

A planner ends with each error that it tells, and the next one imports for half a second: tests ask for hundreds of errors.
No setting names the daemon that planners are forks of. But Python imports a module of this name whenever it starts, where
its path has one, and tests/spark/conftest.py gives this folder to that session alone.
"""

import importlib
import os
import sys
from pathlib import Path

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"] and sys.orig_argv[3:4] != ["pyspark.worker"]:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a fork does not copy threads
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    for name in (*sys.orig_argv[3:], "spark_arrow_ipc.spark.datasource", "spark_arrow_ipc.spark.read.reader",
                 "spark_arrow_ipc.spark.read.where", "spark_arrow_ipc.spark.write.writer"):  # fmt: skip
        importlib.import_module(name)
    if len([*Path("/proc/self/task").iterdir()]) > 1:
        sys.exit("an import of a planner has started threads, which its forks would not have")
