"""What planning costs: many small files, hive directories, one huge file and one huge stream; no Spark is started.

    python benchmarks/plans.py [--files 100000] [--directory DIRECTORY]

Each case is planned by the data source's own reader, in a process of its own: seconds from the first line of `schema`
to the last partition, pickled, and the process's peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import pyarrow as pa  # noqa: E402 - found by the path above

from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource  # noqa: E402

HUGE_NBYTES = 10 << 30
BODY_NBYTES = 16 << 20
LEVELS = (10, 10, 10)
"""Directories below each other; the fourth level holds one directory for each ten files."""


def small_file() -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"n": pa.array(range(10), pa.int32())})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def many_files(root: Path, files: int) -> None:
    """Write one small file many times into one directory."""
    content = small_file()
    root.mkdir(parents=True)
    for i in range(files):
        (root / f"part-{i:06}.arrow").write_bytes(content)


def hive_files(root: Path, files: int) -> None:
    """Write one small file many times below four levels of partitions: a number, a date, a text, a null or double."""
    content = small_file()
    a, b, c = LEVELS
    for i in range(files):
        leaf = i // 10
        last = "__HIVE_DEFAULT_PARTITION__" if leaf % 7 == 0 else f"{leaf}.5"
        path = (
            root
            / f"year={2000 + leaf % a}"
            / f"day=2026-01-{1 + leaf // a % b:02}"
            / f"k=t%3A{leaf // a // b % c}"
            / f"x={last}"
        )
        if i % 10 == 0:
            path.mkdir(parents=True, exist_ok=True)
        (path / f"part-{i:06}.arrow").write_bytes(content)


def huge(path: Path, *, stream: bool) -> None:
    """Write a file of `HUGE_NBYTES` whose bodies are holes: real headers, real footer."""
    path.parent.mkdir(parents=True)
    schema = pa.schema([("n", pa.int64())])
    batch = pa.record_batch([pa.array(memoryview(bytes(BODY_NBYTES)).cast("q"), pa.int64())], schema)
    with path.open("wb") as file:
        sink = _Sparse(file)
        create = pa.ipc.new_stream if stream else pa.ipc.new_file
        with create(pa.PythonFile(sink, "w"), schema) as writer:
            for _ in range(HUGE_NBYTES // BODY_NBYTES):
                writer.write_batch(batch)
        file.truncate()


class _Sparse:
    """A file object that seeks over long runs of zeros instead of writing them."""

    closed = False

    def __init__(self, file) -> None:
        self._file = file

    def write(self, data) -> int:
        if len(data) >= BODY_NBYTES:
            self._file.seek(len(data), os.SEEK_CUR)
            return len(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        pass


def plan(path: str) -> None:
    """Plan one read and print what it cost."""
    options = {"path": path}
    started = time.perf_counter()
    schema = ArrowIpcDataSource(options).schema()
    inferred = time.perf_counter()
    partitions = ArrowIpcDataSource(options).reader(schema).partitions()
    pickled = sum(len(pickle.dumps(partition)) for partition in partitions)
    ended = time.perf_counter()
    ranges = [part for partition in partitions for part in partition.ranges]
    print(
        json.dumps(
            {
                "schema": schema.simpleString(),
                "schema seconds": round(inferred - started, 2),
                "plan seconds": round(ended - inferred, 2),
                "partitions": len(partitions),
                "ranges": len(ranges),
                "bytes of all partitions": pickled,
                "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            }
        )
    )


def main() -> int:
    """Make the files and plan them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--directory", type=Path, help="keeps the files for the next run")
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.plan is not None:
        plan(arguments.plan)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        root = arguments.directory or Path(temporary)
        cases: Mapping[str, Callable[[Path], None]] = {
            "many": lambda path: many_files(path, arguments.files),
            "hive": lambda path: hive_files(path, arguments.files),
            "huge file": lambda path: huge(path / "huge.arrow", stream=False),
            "huge stream": lambda path: huge(path / "huge.arrows", stream=True),
        }
        for name, make in cases.items():
            path = root / name.replace(" ", "_")
            if not path.exists():
                make(path)
            done = subprocess.run(
                [sys.executable, __file__, "--plan", str(path)], capture_output=True, text=True, check=True
            )
            print(name, done.stdout.strip(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
