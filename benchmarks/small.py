"""Small things beside pyarrow, polars and nanoarrow: many files, tiny and wide record batches, and one large file.

    python benchmarks/small.py [--turns 9] [--only PART] [--ours] [--directory /dev/shm]

One thread, contenders in turns, CPU seconds of this process: the least and the median of the turns. A ratio is that of
the leasts, to pyarrow's. All write and read the same rows: five columns (int64, float64, utf8, timestamp, int32), or 1,000
of float64. Each decodes what it reads, and ours checks it in full, which the others do not. nanoarrow has streams only.
Files are written into a new directory in memory: what a disk's file system takes for a new file varies tenfold.
The last part is a control: what helps small things may cost large ones nothing.
"""

from __future__ import annotations

import argparse
import gc
import io
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import nanoarrow as na
import nanoarrow.ipc as na_ipc
import numpy as np
import polars as pl
import pyarrow as pa
from codec import table

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch

ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
FILES = 1_000
TINY_BATCHES, TINY_ROWS = 2_000, 25
WIDE_COLUMNS, WIDE_BATCHES, WIDE_ROWS = 1_000, 10, 100
LARGE_BATCHES, LARGE_ROWS = 40, 65_536

Contenders = Mapping[str, Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Case:
    """A thing that contenders do, by their names."""

    name: str
    contenders: Contenders


def rows(count: int) -> pa.RecordBatch:
    """One batch of the table that the benchmark of the codec reads."""
    return table(count).to_batches()[0]


def differing() -> bytes:
    """A file of tiny batches whose strings and nulls differ in number, so that no two headers are the same."""
    many = table(TINY_BATCHES * TINY_ROWS)
    names = pa.array([None if i % 31 < i % 7 else "x" * (i * i % 13) for i in range(len(many))])
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, many.schema) as writer:
        writer.write_table(many.set_column(2, "name", names), max_chunksize=TINY_ROWS)
    return sink.getvalue()


def wide() -> pa.RecordBatch:
    """Many columns of float64."""
    random = np.random.default_rng(0)
    return pa.record_batch({f"c{i}": random.random(WIDE_ROWS) for i in range(WIDE_COLUMNS)})


def write_ours(sink: str | io.BytesIO, batch: RecordBatch, times: int = 1) -> None:
    """Write a file of one batch, once or again and again."""
    with ipc.create(sink, batch.schema, ipc.WriteOptions(compression=None)) as writer:
        for _ in range(times):
            writer.write(batch)


def write_pyarrow(sink: str | io.BytesIO, batch: pa.RecordBatch, times: int = 1) -> None:
    """The same by pyarrow."""
    with pa.ipc.new_file(sink, batch.schema) as writer:
        for _ in range(times):
            writer.write_batch(batch)


def stream_ours(sink: io.BytesIO, batch: RecordBatch, times: int) -> None:
    """Write a stream of one batch again and again."""
    with ipc.create(sink, batch.schema, ipc.WriteOptions(format="stream")) as writer:
        for _ in range(times):
            writer.write(batch)


def stream_pyarrow(sink: io.BytesIO, batch: pa.RecordBatch, times: int) -> None:
    """The same by pyarrow."""
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        for _ in range(times):
            writer.write_batch(batch)


def stream_nanoarrow(sink: str | io.BytesIO, batch: pa.RecordBatch, times: int) -> None:
    """The same by nanoarrow."""
    array = na.c_array(batch)
    make = na_ipc.StreamWriter.from_path if isinstance(sink, str) else na_ipc.StreamWriter.from_writable
    with make(sink) as writer:
        for _ in range(times):
            writer.write_array(array)


def read_ours(source: str | bytes) -> None:
    """Read all columns of all batches, each made an array."""
    with ipc.open(source) as reader:
        for batch in reader:
            list(batch.columns)


def read_pyarrow(source: str | bytes) -> None:
    """The same by pyarrow."""
    with pa.OSFile(source) if isinstance(source, str) else pa.BufferReader(source) as file:
        reader = pa.ipc.open_file(file, options=ONE_THREAD)
        for i in range(reader.num_record_batches):
            reader.get_batch(i).columns  # noqa: B018 - pyarrow makes them when they are asked for


def read_stream_ours(data: bytes) -> None:
    """Read all batches of a stream."""
    with ipc.open_stream(data) as reader:
        for batch in reader:
            list(batch.columns)


def read_stream_pyarrow(data: bytes) -> None:
    """The same by pyarrow."""
    for batch in pa.ipc.open_stream(data, options=ONE_THREAD):
        batch.columns  # noqa: B018 - pyarrow makes them when they are asked for


def read_stream_nanoarrow(data: bytes) -> None:
    """The same by nanoarrow, which makes views of the columns."""
    for array in na.c_array_stream(na_ipc.InputStream.from_readable(data)):
        list(array.view().children)


def open_pyarrow(path: str) -> pa.Schema:
    """Open a file and know its schema."""
    with pa.OSFile(path) as file:
        return pa.ipc.open_file(file).schema


def open_ours(path: str) -> object:
    """The same by ours."""
    with ipc.open(path) as reader:
        return reader.schema


def _bytes(write: Callable[..., None], *arguments: object) -> bytes:
    sink = io.BytesIO()
    write(sink, *arguments)
    return sink.getvalue()


def _each(paths: list[str], do: Callable[[str], object]) -> Callable[[], None]:
    def all_of_them() -> None:
        for path in paths:
            do(path)

    return all_of_them


def _new_files(folder: Path, write: Callable[[str], object]) -> Callable[[], None]:
    def all_of_them() -> None:
        with tempfile.TemporaryDirectory(dir=folder) as new:
            start = time.process_time()
            for i in range(FILES):
                write(f"{new}/{i}.arrow")
            all_of_them.seconds = time.process_time() - start

    return all_of_them


def cases(folder: Path) -> Iterator[Case]:
    """All cases, one after the other."""
    tiny, many, large = rows(TINY_ROWS), wide(), rows(LARGE_ROWS)
    ours = {id(batch): RecordBatch.from_arrow(batch) for batch in (tiny, many, large)}
    o_tiny, o_wide, o_large = (ours[id(batch)] for batch in (tiny, many, large))
    frame = pl.from_arrow(tiny)
    yield Case(
        f"write {FILES:,} files",
        {
            "ours": _new_files(folder, lambda path: write_ours(path, o_tiny)),
            "pyarrow": _new_files(folder, lambda path: write_pyarrow(path, tiny)),
            "polars": _new_files(folder, frame.write_ipc),
        },
    )
    nowhere = [""] * FILES
    yield Case(
        f"write {FILES:,} files in memory",
        {
            "ours": _each(nowhere, lambda _: write_ours(io.BytesIO(), o_tiny)),
            "pyarrow": _each(nowhere, lambda _: write_pyarrow(io.BytesIO(), tiny)),
            "polars": _each(nowhere, lambda _: frame.write_ipc(io.BytesIO())),
        },
    )
    yield Case(
        f"write {TINY_BATCHES:,} batches of {TINY_ROWS} rows",
        {
            "ours": lambda: write_ours(str(folder / "o.arrow"), o_tiny, TINY_BATCHES),
            "pyarrow": lambda: write_pyarrow(str(folder / "p.arrow"), tiny, TINY_BATCHES),
            "nanoarrow": lambda: stream_nanoarrow(str(folder / "n.arrows"), tiny, TINY_BATCHES),
        },
    )
    yield Case(
        f"write {TINY_BATCHES:,} batches in memory",
        {
            "ours": lambda: write_ours(io.BytesIO(), o_tiny, TINY_BATCHES),
            "pyarrow": lambda: write_pyarrow(io.BytesIO(), tiny, TINY_BATCHES),
        },
    )
    yield Case(
        f"write a stream of {TINY_BATCHES:,} batches",
        {
            "ours": lambda: stream_ours(io.BytesIO(), o_tiny, TINY_BATCHES),
            "pyarrow": lambda: stream_pyarrow(io.BytesIO(), tiny, TINY_BATCHES),
            "nanoarrow": lambda: stream_nanoarrow(io.BytesIO(), tiny, TINY_BATCHES),
        },
    )
    yield Case(
        f"write {WIDE_BATCHES} batches of {WIDE_COLUMNS:,} columns",
        {
            "ours": lambda: write_ours(io.BytesIO(), o_wide, WIDE_BATCHES),
            "pyarrow": lambda: write_pyarrow(io.BytesIO(), many, WIDE_BATCHES),
        },
    )
    paths = [str(folder / f"{i}.arrow") for i in range(FILES)]
    for path in paths:
        write_pyarrow(path, tiny)
    yield Case(
        f"open {FILES:,} files",
        {
            "ours": _each(paths, open_ours),
            "pyarrow": _each(paths, open_pyarrow),
            "polars": _each(paths, pl.read_ipc_schema),
        },
    )
    yield Case(
        f"read {FILES:,} files",
        {
            "ours": _each(paths, read_ours),
            "pyarrow": _each(paths, read_pyarrow),
            "polars": _each(paths, pl.read_ipc),
        },
    )
    file, stream = _bytes(write_pyarrow, tiny, TINY_BATCHES), _bytes(stream_pyarrow, tiny, TINY_BATCHES)
    yield Case(
        f"read {TINY_BATCHES:,} batches of {TINY_ROWS} rows",
        {
            "ours": lambda: read_ours(file),
            "pyarrow": lambda: read_pyarrow(file),
            "polars": lambda: pl.read_ipc(file),
        },
    )
    others = differing()
    yield Case(
        f"read {TINY_BATCHES:,} batches that differ",
        {
            "ours": lambda: read_ours(others),
            "pyarrow": lambda: read_pyarrow(others),
            "polars": lambda: pl.read_ipc(others),
        },
    )
    yield Case(
        f"read a stream of {TINY_BATCHES:,} batches",
        {
            "ours": lambda: read_stream_ours(stream),
            "pyarrow": lambda: read_stream_pyarrow(stream),
            "nanoarrow": lambda: read_stream_nanoarrow(stream),
        },
    )
    for count in (WIDE_BATCHES, 1):
        wide_file, wide_stream = _bytes(write_pyarrow, many, count), _bytes(stream_pyarrow, many, count)
        yield Case(
            f"read {count} batches of {WIDE_COLUMNS:,} columns",
            {
                "ours": lambda wide_file=wide_file: read_ours(wide_file),
                "pyarrow": lambda wide_file=wide_file: read_pyarrow(wide_file),
                "polars": lambda wide_file=wide_file: pl.read_ipc(wide_file),
                "nanoarrow": lambda wide_stream=wide_stream: read_stream_nanoarrow(wide_stream),
            },
        )
    large_file = _bytes(write_pyarrow, large, LARGE_BATCHES)
    yield Case(
        f"control: write {LARGE_BATCHES} batches of {LARGE_ROWS:,} rows",
        {
            "ours": lambda: write_ours(io.BytesIO(), o_large, LARGE_BATCHES),
            "pyarrow": lambda: write_pyarrow(io.BytesIO(), large, LARGE_BATCHES),
        },
    )
    yield Case(
        f"control: read {LARGE_BATCHES} batches of {LARGE_ROWS:,} rows",
        {"ours": lambda: read_ours(large_file), "pyarrow": lambda: read_pyarrow(large_file)},
    )


def measure(case: Case, turns: int) -> dict[str, list[float]]:
    """Return the CPU seconds of each turn by contender; the first turn, which warms up, is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in case.contenders}
    for turn in range(turns + 1):
        for name, do in case.contenders.items():
            gc.collect()
            start = time.process_time()
            do()
            spent = time.process_time() - start
            if turn:
                seconds[name].append(getattr(do, "seconds", spent))  # without the removal of what was written
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--only", default="", help="cases whose names have these words")
    parser.add_argument("--ours", action="store_true", help="ours and pyarrow alone")
    parser.add_argument("--directory", default="/dev/shm" if Path("/dev/shm").is_dir() else None)
    chosen = parser.parse_args()
    print(f"{'CPU milliseconds':<46} {'contender':<10} {'least':>9} {'median':>9} {'ratio':>7}")
    with tempfile.TemporaryDirectory(prefix="small-", dir=chosen.directory) as folder:
        for case in cases(Path(folder)):
            if chosen.only not in case.name:
                continue
            kept = {n: do for n, do in case.contenders.items() if not chosen.ours or n in {"ours", "pyarrow"}}
            seconds = measure(Case(case.name, kept), chosen.turns)
            base = min(seconds["pyarrow"])
            for name, own in seconds.items():
                figures = f"{min(own) * 1e3:>9.1f} {median(own) * 1e3:>9.1f} {min(own) / base:>7.2f}"
                print(f"{case.name:<46} {name:<10} {figures}", flush=True)


if __name__ == "__main__":
    main()
