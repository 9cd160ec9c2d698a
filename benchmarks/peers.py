"""The codec beside its peers: wide tables, kinds of columns, and threads. CPU and wall seconds of this process, in turns.

    python benchmarks/peers.py wide [--cells 20000000] [--turns 5]
    POLARS_MAX_THREADS=1 python benchmarks/peers.py tables [--turns 5]
    python benchmarks/peers.py threads [--turns 5]

`wide` reads tables of the same number of cells and of 100, 1,000 and 10,000 columns, some compressed or with a list; `tables` reads kinds of tables with
pyarrow.dataset and polars as well (one thread each); `threads` reads with one thread and with two. Ours checks in full;
pyarrow reads ``get_batch(i)`` and ``validate(full=True)``. Least of the turns, and the ratio of CPU to ours.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset

from spark_arrow_ipc import ipc

ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
DISTINCT_COLUMNS = 8
"""Columns that are made; wider tables repeat them."""

MOST_BATCH_ROWS = 10_000
CODEC_ROWS = 65_536
CODEC_BATCHES = 40


def texts(random: np.random.Generator, rows: int, word: str = "user") -> list[str]:
    return [f"{word}{i}" for i in random.integers(0, 1000, rows)]


def column(kind: str, rows: int, seed: int) -> pa.Array:
    """One column of numbers or strings, with a tenth of nulls or none."""
    random = np.random.default_rng(seed)
    nulls = random.random(rows) < 0.1 if kind.endswith("nulls") else None
    if kind.startswith("int64"):
        return pa.array(random.integers(0, 1 << 40, rows), mask=nulls)
    if kind.startswith("strings"):
        return pa.array(np.array(texts(random, rows), object), pa.string(), mask=nulls)
    kinds = ["int64", "int64 with nulls", "strings", "strings with nulls"]
    return column(kinds[seed % len(kinds)], rows, seed)


def file_of(directory: Path, columns: Mapping[str, pa.Array], batches: int, codec: str | None = None) -> str:
    """Write a file of one record batch again and again, as pyarrow writes it; return its path."""
    return file_of_batches(directory, [pa.record_batch(dict(columns))] * batches, codec)


def file_of_batches(directory: Path, batches: Sequence[pa.RecordBatch], codec: str | None = None) -> str:
    """Write a file of record batches, as pyarrow writes it; return its path."""
    path = directory / "table.arrow"
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return str(path)


def ours(data: bytes, _: str, *, threads: int = 1) -> None:
    with ipc.open(data, threads=threads) as reader:
        for _ in reader:
            pass


def two_threads(data: bytes, path: str) -> None:
    ours(data, path, threads=2)


def pyarrow_ipc(data: bytes, _: str) -> None:
    reader = pa.ipc.open_file(pa.BufferReader(data), options=ONE_THREAD)
    for i in range(reader.num_record_batches):
        reader.get_batch(i).validate(full=True)


def pyarrow_unchecked(data: bytes, _: str) -> None:
    reader = pa.ipc.open_file(pa.BufferReader(data), options=ONE_THREAD)
    for i in range(reader.num_record_batches):
        reader.get_batch(i)


def pyarrow_dataset(_: bytes, path: str) -> None:
    pyarrow.dataset.dataset(path, format="ipc").to_table(use_threads=False)


def polars_scan(_: bytes, path: str) -> None:
    pl.scan_ipc(path).collect()


Contenders = Mapping[str, Callable[[bytes, str], None]]
PEERS: Contenders = {"ours": ours, "pyarrow.ipc + validate(full)": pyarrow_ipc}
ALL: Contenders = {
    **PEERS,
    "pyarrow.ipc": pyarrow_unchecked,
    "pyarrow.dataset": pyarrow_dataset,
    "polars.scan_ipc": polars_scan,
}
THREADS: Contenders = {"ours": ours, "ours, 2 threads": two_threads}


def measured(path: str, contenders: Contenders, turns: int) -> dict[str, tuple[float, float]]:
    """Return the least CPU and wall seconds of each contender, taking turns after one turn that does not count."""
    data = Path(path).read_bytes()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for turn in range(turns + 1):
        for name, contender in contenders.items():
            cpu, wall = time.process_time(), time.perf_counter()
            contender(data, path)
            seconds = time.process_time() - cpu, time.perf_counter() - wall
            if turn:
                found[name].append(seconds)
    return {name: (min(c for c, _ in own), min(w for _, w in own)) for name, own in found.items()}


def wide(directory: Path, cells: int) -> Iterator[tuple[str, str]]:
    for kind in WIDE_KINDS:
        for columns in (100, 1_000, 10_000):
            for codec, is_nested in ((None, False), *(OTHER_WIDE if kind in {"int64", "mixed"} else ())):
                name = f"{kind}, {columns:,} columns{', a list' if is_nested else ''}, {codec or 'uncompressed'}"
                batches = wide_batches(kind, columns, cells, is_nested=is_nested)
                yield name, file_of_batches(directory, batches, codec)


WIDE_KINDS = ("int64", "int64 with nulls", "strings", "strings with nulls", "mixed")
OTHER_WIDE = (("lz4", False), ("zstd", False), (None, True))
"""Of some kinds also: the codec, and whether one more column is a list."""


def wide_batches(kind: str, columns: int, cells: int, *, is_nested: bool) -> list[pa.RecordBatch]:
    """Return record batches of many columns; one after the other has other values and other null counts."""
    rows = min(MOST_BATCH_ROWS, cells // columns)
    made = [column(kind, rows, seed) for seed in range(DISTINCT_COLUMNS)]
    more = {"list": pa.array([[1, 2]] * rows)} if is_nested else {}
    half = DISTINCT_COLUMNS // 2  # those of the other half have the same kinds
    return [
        pa.record_batch({f"c{i}": made[(i + k * half) % DISTINCT_COLUMNS] for i in range(columns)} | more)
        for k in range(cells // columns // rows)
    ]


def tables(directory: Path, _: int) -> Iterator[tuple[str, str]]:
    random = np.random.default_rng(0)
    rows = CODEC_ROWS
    numbers = {
        "id": pa.array(random.integers(0, 1 << 40, rows)),
        "value": pa.array(random.random(rows)),
        "name": pa.array(texts(random, rows)),
        "at": pa.array(random.integers(0, 1 << 50, rows), pa.timestamp("us")),
        "kind": pa.array(random.integers(0, 100, rows).astype(np.int32)),
    }
    for codec in (None, "lz4", "zstd"):
        yield f"numbers and strings, {codec or 'uncompressed'}", file_of(directory, numbers, CODEC_BATCHES, codec)
    foreign = {f"t{i}": pa.array(texts(random, rows, "日本語テキスト")) for i in range(2)}
    yield "strings beyond ASCII", file_of(directory, foreign, CODEC_BATCHES)
    nested = {
        "l": pa.array([[i, i + 1] for i in range(rows)]),
        "s": pa.array([{"a": i, "b": i % 7} for i in range(rows)]),
    }
    yield "lists and structs", file_of(directory, nested, CODEC_BATCHES)
    yield "a dictionary", file_of(directory, {"d": numbers["name"].dictionary_encode()}, CODEC_BATCHES)


CASES: Mapping[str, tuple[Callable[[Path, int], Iterator[tuple[str, str]]], Contenders]] = {
    "wide": (wide, PEERS),
    "tables": (tables, ALL),
    "threads": (tables, THREADS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", choices=CASES)
    parser.add_argument("--cells", type=int, default=20_000_000)
    parser.add_argument("--turns", type=int, default=5)
    chosen = parser.parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    cases, contenders = CASES[chosen.cases]
    with tempfile.TemporaryDirectory() as directory:
        for name, path in cases(Path(directory), chosen.cells):
            seconds = measured(path, contenders, chosen.turns)
            own_cpu, own_wall = seconds["ours"]
            print(f"{name} (load {os.getloadavg()[0]:.1f})")
            for contender, (cpu, wall) in seconds.items():
                ratios = f"ours to it {own_cpu / cpu:.2f} CPU, {own_wall / wall:.2f} wall"
                print(f"    {contender:<30} CPU {cpu * 1e3:8.1f} ms, wall {wall * 1e3:8.1f} ms; {ratios}", flush=True)


if __name__ == "__main__":
    main()
