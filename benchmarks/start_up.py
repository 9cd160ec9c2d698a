"""`imports`: what a worker imports for the first task of ours, beyond what it has imported for any Python source.

Strategy
--------
A fresh process does what a worker does: it imports PySpark's worker, pyarrow and numpy, then loads a pickled reader
and one of its partitions and reads it. Python's own `-X importtime` says what each import took; those behind the
first part count, without what belongs to PySpark, pyarrow and numpy themselves.
"""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from workloads import Workload, arrow_file

from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

BAR_MILLISECONDS = 60.0

_FOREIGN = {"pyspark", "pyarrow", "numpy", "pandas", "py4j"}
"""Packages whose imports are not ours."""

_PRINTED = 12
"""So many modules and packages are printed, the slowest first."""

_CODE = """
import pickle, sys
import numpy, pyarrow, pyspark.worker, pyspark.sql.datasource, pyspark.sql.worker.plan_data_source_read
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches
sys.stderr.write("import time: mark\\n")
sys.stderr.flush()
with open(sys.argv[1], "rb") as file:
    reader, partition = pickle.load(file)
for _ in reader.read(partition):
    pass
"""

_LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \| ( *)(\S+)")
"""Microseconds of its own, depth, name; a module comes behind those that it imported."""


def imports(processes: int) -> Mapping[str, float]:
    """Return the milliseconds of imports that are ours, by module, medians of several processes."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as temporary:
        path = str(arrow_file(Workload(100, 1), Path(temporary)))
        source = ArrowIpcDataSource({"path": path})
        reader = source.reader(source.schema())
        pickled = Path(temporary) / "task.pickle"
        pickled.write_bytes(pickle.dumps((reader, reader.partitions()[0])))
        found = [_one(pickled) for _ in range(processes + 1)][1:]  # the first writes .pyc files
    names = sorted({name for one in found for name in one})
    return {name: median(one.get(name, 0.0) for one in found) for name in names}


def _one(pickled: Path) -> Mapping[str, float]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", _CODE, str(pickled)], capture_output=True, text=True, check=True
    )
    _, _, behind = done.stderr.partition("import time: mark\n")
    spent: dict[str, float] = {}
    foreign: int | None = None  # depth of the foreign module that the lines above it were imported for
    for own, indent, module in reversed(_LINE.findall(behind)):
        if foreign is not None and len(indent) > foreign:
            continue
        foreign = len(indent) if module.partition(".")[0] in _FOREIGN else None
        if foreign is None:
            spent[module] = spent.get(module, 0.0) + int(own) / 1000
    return spent


def print_imports(processes: int) -> Mapping[str, float]:
    """Print what a worker imports for us, and whether the bar is kept."""
    found = imports(processes)
    for name, milliseconds in sorted(found.items(), key=lambda pair: -pair[1])[:_PRINTED]:
        print(f"{name:<50}{milliseconds:>8.1f} ms")
    packages: dict[str, float] = defaultdict(float)
    for name, milliseconds in found.items():
        packages[name.partition(".")[0]] += milliseconds
    largest = sorted(packages.items(), key=lambda pair: -pair[1])[:_PRINTED]
    print(f"{len(found)} modules; by package: " + ", ".join(f"{name} {spent:.1f}" for name, spent in largest))
    whole = sum(found.values())
    verdict = "kept" if whole <= BAR_MILLISECONDS else "MISSED"
    print(f"issue 7: imports of a worker's first task, ms: {whole:.1f}, at most {BAR_MILLISECONDS:.0f}: {verdict}")
    return found
