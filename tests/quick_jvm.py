"""Options of the JVMs that tests start: one that lives for minutes need not compile well, which saves half of its CPU time."""

import shlex

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"

SUBMIT_ARGS = shlex.join([
    "--driver-java-options", OPTIONS, "--conf", f"spark.executor.extraJavaOptions={OPTIONS}",
    "--conf", "spark.ui.enabled=false", "pyspark-shell",
])  # fmt: skip
"""For PYSPARK_SUBMIT_ARGS of a program that opens its own session."""
