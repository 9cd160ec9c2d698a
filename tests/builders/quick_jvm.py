"""Options of the JVMs that tests start: one that lives for minutes need not compile well, which saves half of its CPU time."""

import importlib.metadata
import shlex
import sys
from pathlib import Path


def _version():
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return "none"


HOME = Path(__file__).parents[2] / "build" / f"spark-{_version()}-{sys.implementation.cache_tag}"
"""Where `quick_spark` makes a Spark home for the PySpark and the Python that run."""

CLASSES = HOME / "classes.jsa"
"""Its archive of Spark's classes. A JVM that cannot use it goes on without a word."""

PLAIN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"

SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Says nothing of classes that an archive cannot hold, and of archives that do not fit."""

OPTIONS = f"{PLAIN} -XX:SharedArchiveFile={CLASSES} {SILENT}"

SUBMIT_ARGS = shlex.join([
    "--driver-java-options", OPTIONS, "--conf", f"spark.executor.extraJavaOptions={OPTIONS}",
    "--conf", "spark.ui.enabled=false", "pyspark-shell",
])  # fmt: skip
"""For PYSPARK_SUBMIT_ARGS of a program that opens its own session."""
