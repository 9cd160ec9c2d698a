"""Scans of one file in a slow object store: how much of the waiting each reader hides.

The server is that of the tests (`tests/fakes/fault_server.py`) in a process of its own: 30 ms a request, 90 MB/s a
connection, as one finds them at S3. Each measurement is a process of its own that reads once to begin with, and the
least of some readings then. Engine-free: no Spark runs.

Run it by::

    python benchmarks/object_store.py --directory build/benchmarks

It needs pyarrow and obstore; readers that are not installed (polars, s3fs) are left out with a line.

With ``--spark`` the same file is read through Spark instead, on `local[2]`, in turns with a null source that sends a
batch that it already has: what a worker needs in memory above it, beside its bar.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from measure import Cost

COLUMNS, BATCHES, ROWS = 40, 21, 57_344
"""21 batches of 18.4 MB, 385 MB in all."""

_MORE_MIB, _BATCHES_HELD = 96, 3
"""What a worker may hold above the null source: so much, and so many record batches."""

SOME = ["c7", "c23"]
NAME = "large.arrow"
SERVER = Path(__file__).parents[1] / "tests" / "fakes" / "fault_server.py"
KEY, SECRET, REGION = "tests", "a-secret-that-must-not-be-seen", "us-east-1"


def make_file(path: Path) -> None:
    """Write the file, uncompressed."""
    rng = np.random.default_rng(1)
    columns = {f"c{i}": rng.integers(0, 2**60, ROWS) for i in range(COLUMNS)}
    batch = pa.RecordBatch.from_pydict(columns)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        for _ in range(BATCHES):
            writer.write_batch(batch)


@contextmanager
def server(directory: Path, latency_ms: float, nbytes_per_second: float) -> Iterator[tuple[str, str]]:
    """Serve the files of a directory; gives the endpoint and the URL of the bucket."""
    command = [
        sys.executable, str(SERVER), "--files", str(directory),
        "--latency-ms", str(latency_ms), "--nbytes-per-second", str(nbytes_per_second),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        endpoint, url = process.stdout.readline().split()
        yield endpoint, url
    finally:
        process.terminate()
        process.wait()


def arrowipc(endpoint: str, url: str, columns: list[str] | None) -> int:
    """Read by `ipc.open`; every value is validated, as always."""
    from spark_arrow_ipc import ipc
    from spark_arrow_ipc.storage.open import storage_of

    storage, path = storage_of(f"{url}/{NAME}", tuple(sorted(_storage_options(endpoint).items())))
    with ipc.open(storage.open(path), columns=columns) as reader:
        return sum(batch.num_rows for batch in reader)


def _storage_options(endpoint: str) -> dict[str, str]:
    return {
        "endpoint": endpoint, "access_key_id": KEY, "secret_access_key": SECRET, "region": REGION, "allow_http": "true",
    }  # fmt: skip


def _pyarrow_file_system(endpoint: str) -> object:
    from pyarrow import fs

    return fs.S3FileSystem(
        access_key=KEY, secret_key=SECRET, region=REGION, scheme="http", endpoint_override=endpoint.split("//")[1]
    )


def pyarrow_dataset(endpoint: str, url: str, columns: list[str] | None) -> int:
    """Read by pyarrow.dataset, which reads 16 batches ahead."""
    from pyarrow import dataset

    files = dataset.dataset(f"{url[5:]}/{NAME}", filesystem=_pyarrow_file_system(endpoint), format="ipc")
    return sum(batch.num_rows for batch in files.to_batches(columns=columns))


def pyarrow_ipc(endpoint: str, url: str, columns: list[str] | None) -> int:
    """Read batch after batch by pyarrow.ipc."""
    system = _pyarrow_file_system(endpoint)
    included = None if columns is None else [int(name[1:]) for name in columns]
    with system.open_input_file(f"{url[5:]}/{NAME}") as file:  # type: ignore[attr-defined]
        reader = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=included))
        return sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))


def polars_scan(endpoint: str, url: str, columns: list[str] | None) -> int:
    """Read by polars.scan_ipc."""
    import polars as pl

    options = {f"aws_{name}": value for name, value in _storage_options(endpoint).items()}
    frame = pl.scan_ipc(f"{url}/{NAME}", storage_options=options)
    return frame.select(columns or pl.all()).collect().height


def fsspec_file(endpoint: str, url: str, columns: list[str] | None) -> int:
    """Read a file object of s3fs by `ipc.open`."""
    import s3fs

    from spark_arrow_ipc import ipc

    system = s3fs.S3FileSystem(
        key=KEY, secret=SECRET, client_kwargs={"endpoint_url": endpoint, "region_name": REGION},
        config_kwargs={"s3": {"addressing_style": "path"}}, skip_instance_cache=True,
    )  # fmt: skip
    with system.open(f"{url}/{NAME}", "rb") as file, ipc.open(file, columns=columns) as reader:
        return sum(batch.num_rows for batch in reader)


READERS: dict[str, tuple[Callable[[str, str, list[str] | None], int], str]] = {
    "arrowipc": (arrowipc, "obstore"),
    "pyarrow.dataset": (pyarrow_dataset, "pyarrow"),
    "pyarrow.ipc": (pyarrow_ipc, "pyarrow"),
    "polars.scan_ipc": (polars_scan, "polars"),
    "s3fs file object, read by arrowipc": (fsspec_file, "s3fs"),
}


def counts(endpoint: str) -> dict[str, int]:
    """Return what the server was asked so far."""
    with urllib.request.urlopen(f"{endpoint}/-/counts") as answer:
        found: dict[str, int] = json.load(answer)
    return found


def measure(name: str, columns: list[str] | None, endpoint: str, url: str, times: int) -> dict[str, float]:
    """Read in this process; the least wall time, and the CPU, requests and bytes of that reading."""
    read = READERS[name][0]
    best: dict[str, float] = {}
    for turn in range(times + 1):
        before, usage, begun = counts(endpoint), resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        rows = read(endpoint, url, columns)
        wall = time.perf_counter() - begun
        usage_after, after = resource.getrusage(resource.RUSAGE_SELF), counts(endpoint)
        assert rows == ROWS * BATCHES, rows
        requests = sum(after[kind] - before.get(kind, 0) for kind in after if kind.isupper())
        if turn and (not best or wall < best["wall"]):
            best = {
                "wall": wall,
                "cpu": sum(getattr(usage_after, f) - getattr(usage, f) for f in ("ru_utime", "ru_stime")),
                "requests": requests,
                "mb": (after["nbytes_out"] - before["nbytes_out"]) / 1e6,
            }
    return best | {"rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def measure_workers(directory: Path, endpoint: str, url: str, times: int) -> None:
    """Print what Spark's workers cost and held, of the null source and of the file in the store."""
    from measure import SparkProcesses
    from run import session
    from scans import SINKS

    with session(reuses_workers=False) as spark:
        options = {f"storage.{name}": value for name, value in _storage_options(endpoint).items()}
        middle = BATCHES // 2
        reads = {
            "null": spark.read.format("benchmark_null").option("blocks", f"0,{middle},{BATCHES}"),
            "arrowipc, local": spark.read.format("arrowipc"),
            "arrowipc, store": spark.read.format("arrowipc").options(**options),
        }
        peaks: dict[str, int] = {}
        print(
            "| through Spark | wall s | JVM CPU s | worker CPU s | peak MiB | anonymous MiB |\n|---|---|---|---|---|---|"
        )
        jvm_pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
        costs: dict[str, list[Cost]] = {name: [] for name in reads}
        with SparkProcesses(jvm_pid) as processes:
            for turn in range(-1, times):
                for name, read in reads.items():
                    with processes.cost() as found:
                        SINKS["noop"](read.load(f"{url}/{NAME}" if name.endswith("store") else str(directory / NAME)))
                    if turn >= 0:
                        costs[name] += found
    for name, turns in costs.items():
        figures = [median(getattr(cost, of) for cost in turns) for of in ("wall", "jvm", "worker")]
        peaks[name] = max(cost.peak_nbytes for cost in turns) >> 20
        anonymous = max(cost.peak_anonymous_nbytes for cost in turns) >> 20
        cells = " | ".join(f"{figure:.2f}" for figure in figures)
        print(f"| {name} | {cells} | {peaks[name]} | {anonymous} |")
    batch_mib = COLUMNS * ROWS * 8 / 2**20
    bar = peaks["null"] + _MORE_MIB + _BATCHES_HELD * batch_mib
    held = peaks["arrowipc, store"]
    print(f"a worker's peak: {held} MiB, at most {bar:.0f}: {'kept' if held <= bar else 'MISSED'}")


def main() -> None:
    """Measure every reader, or with --measure one of them, or Spark's workers."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--directory", type=Path, help="where the file is made, 385 MB")
    parser.add_argument("--latency-ms", type=float, default=30)
    parser.add_argument("--nbytes-per-second", type=float, default=90e6)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--spark", action="store_true", help="measure Spark's workers instead")
    arguments = parser.parse_args()
    if arguments.measure:
        name, columns, endpoint, url = arguments.measure
        print(json.dumps(measure(name, columns.split(",") if columns else None, endpoint, url, arguments.times)))
        return
    directory = arguments.directory / "object_store"
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / NAME).exists():
        make_file(directory / NAME)
    with server(directory, arguments.latency_ms, arguments.nbytes_per_second) as (endpoint, url):
        print(f"load {os.getloadavg()[0]:.1f}; {(directory / NAME).stat().st_size / 1e6:.0f} MB")
        if arguments.spark:
            measure_workers(directory.resolve(), endpoint, url, arguments.times)
            return
        print("| read | by | wall s | CPU s | requests | MB | peak MiB |\n|---|---|---|---|---|---|---|")
        for columns, what in ((None, f"all {COLUMNS} columns"), (SOME, f"{len(SOME)} of {COLUMNS}")):
            for name, (_, needs) in READERS.items():
                _print_row(name, needs, columns, what, [endpoint, url], arguments.times)


def _print_row(name: str, needs: str, columns: list[str] | None, what: str, place: list[str], times: int) -> None:
    command = [sys.executable, __file__, "--times", str(times), "--measure", name, ",".join(columns or ()), *place]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = f"{needs} is not installed" if "ModuleNotFoundError" in done.stderr else done.stderr.strip()[-300:]
        print(f"left out: {name}, {what}: {reason}")
        return
    row = json.loads(done.stdout)
    print(
        f"| {what} | {name} | {row['wall']:.2f} | {row['cpu']:.2f} | {row['requests']:.0f} | {row['mb']:.1f} | "
        f"{row['rss_mib']:.0f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
