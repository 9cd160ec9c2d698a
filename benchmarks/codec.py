"""The codec alone beside pyarrow's: one thread, interleaved, CPU of this process.

    python benchmarks/codec.py [--repeats 7] [--batches 60] [--tiny 20000] [--columns 10000]

pyarrow reads with ``open_file`` on memory and ``get_batch(i).columns`` for each i, with ``validate(full=True)``
where ours validates in full. Medians of the repeats; a ratio is ours to pyarrow's.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np
import pyarrow as pa

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch
from spark_arrow_ipc.ipc.bytes.body import BodyRanges
from spark_arrow_ipc.ipc.columns.compression import Decompressor
from spark_arrow_ipc.ipc.columns.projection import Validation

ROWS = 65_536
TINY_ROWS = 10
PROJECTED = 10
CODECS = (None, "lz4", "zstd")
ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report. `ours` and `theirs` are CPU seconds of what is named, in the unit of `scale`."""

    name: str
    ours: float
    theirs: float | None
    bar: str
    note: str = ""

    def line(self) -> str:
        theirs = f"{self.theirs * 1e6:>12,.1f} {self.ours / self.theirs:>7.2f}" if self.theirs else f"{'':>20}"
        return f"{self.name:<44} {self.ours * 1e6:>12,.1f} {theirs}  {self.bar}{'; ' if self.note else ''}{self.note}"


def table(rows: int) -> pa.Table:
    """Five columns: numbers, ASCII text, timestamps."""
    random = np.random.default_rng(0)
    return pa.table(
        {
            "id": random.integers(0, 1 << 40, rows),
            "value": random.random(rows),
            "name": pa.array([f"user{i % 1000}" for i in range(rows)]),
            "at": pa.array(random.integers(0, 1 << 50, rows), pa.timestamp("us")),
            "kind": pa.array(random.integers(0, 100, rows).astype(np.int32)),
        }
    )


def file_of(rows: pa.Table, batches: int, compression: str | None = None) -> bytes:
    """A file of one record batch again and again, as pyarrow writes it."""
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    (batch,) = rows.combine_chunks().to_batches()
    with pa.ipc.new_file(sink, rows.schema, options=options) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    return sink.getvalue()


def cpu(repeats: int, *contenders: Callable[[], object]) -> list[float]:
    """Median CPU seconds of each, taking turns."""
    found: list[list[float]] = [[] for _ in contenders]
    for _ in range(repeats):
        for seconds, contender in zip(found, contenders, strict=True):
            start = time.process_time()
            contender()
            seconds.append(time.process_time() - start)
    return [median(seconds) for seconds in found]


def ours(data: bytes, validation: Validation) -> None:
    with ipc.open(data, validation=validation) as reader:
        for _ in reader:
            pass


def theirs(data: bytes, *, full: bool) -> None:
    reader = pa.ipc.open_file(pa.BufferReader(data), options=ONE_THREAD)
    for i in range(reader.num_record_batches):
        batch = reader.get_batch(i)
        if full:
            batch.validate(full=True)
        else:
            batch.columns  # noqa: B018 - pyarrow makes them when they are asked for


def decompress_only(data: bytes) -> None:
    """The decompressor's own share: the buffers of every batch, and nothing else."""
    with ipc.open_file(data) as reader:
        for i, block in enumerate(reader.blocks):
            header = reader.read_header(i)
            start = block.byte_offset + block.metadata_nbytes
            body = BodyRanges.whole(memoryview(data)[start : start + block.body_nbytes], start)
            assert header.compression is not None
            buffers = [body.slice(*place) for place in header.buffers.tolist() if place[1]]
            decompressor = Decompressor(header.compression, 2 << 30, buffers)
            for buffer in buffers:
                decompressor.decompress(buffer)


def reading(repeats: int, batches: int) -> Iterator[Figure]:
    for codec in CODECS:
        data = file_of(table(ROWS), batches, codec)
        contenders = [
            lambda data=data: ours(data, "structural"),
            lambda data=data: theirs(data, full=False),
            lambda data=data: ours(data, "full"),
            lambda data=data: theirs(data, full=True),
        ]
        if codec is not None:
            contenders.append(lambda data=data: decompress_only(data))
        structural, plain, full, validated, *share = (seconds / batches for seconds in cpu(repeats, *contenders))
        bar = "at most 1.25" if codec else "at most 100 us"
        note = f"decompression alone {share[0] * 1e6:,.0f} us" if share else ""
        yield Figure(f"read {codec or 'uncompressed'}, structural, us a batch", structural, plain, bar, note)
        yield Figure(
            f"read {codec or 'uncompressed'}, full, us a batch", full, validated, "at most 0.6" if not codec else bar
        )


def tiny(repeats: int, batches: int) -> Iterator[Figure]:
    data = file_of(table(TINY_ROWS), batches)
    seconds = cpu(
        repeats, lambda: ours(data, "structural"), lambda: theirs(data, full=False), lambda: ours(data, "full")
    )
    structural, plain, full = (each / batches for each in seconds)
    yield Figure("10 rows a batch, structural, us a batch", structural, plain, "at most 5")
    yield Figure("10 rows a batch, full, us a batch", full, None, "no bar")


def wide(repeats: int, columns: int) -> Iterator[Figure]:
    data = file_of(pa.table({f"c{i}": [1, 2, 3] for i in range(columns)}), 1)
    chosen = [f"c{i * (columns // PROJECTED)}" for i in range(PROJECTED)]
    opened, projected = cpu(repeats, lambda: ipc.open(data), lambda: list(ipc.open(data, columns=chosen)))
    yield Figure(f"open a schema of {columns:,} columns, us", opened, None, "at most 350,000 for 10,000")
    yield Figure(f"open it and read {PROJECTED} of them, us", projected, None, "no bar")


def writing(repeats: int, batches: int) -> Iterator[Figure]:
    source = table(ROWS)
    decoded = list(ipc.open(file_of(source, batches)))
    for codec in CODECS:
        options = ipc.WriteOptions(compression=codec)
        seconds = cpu(
            repeats,
            lambda options=options: ipc.write(io.BytesIO(), decoded, options=options),
            lambda codec=codec: file_of(source, batches, codec),
        )
        yield Figure(
            f"write {codec or 'uncompressed'}, us a batch", *(each / batches for each in seconds), "at most 1.3"
        )


def unifying(repeats: int) -> Iterator[Figure]:
    """A file of 20 record batches, each with a dictionary of its own of up to 50,000 values."""
    random = np.random.default_rng(0)
    for name, most in (("different", 10_000_000), ("of 60,000", 60_000)):
        drawn = [random.integers(0, most, 50_000) for _ in range(20)]
        for kind, arrays in (
            ("strings", [pa.array([f"value-{number}" for number in numbers]) for numbers in drawn]),
            ("numbers", [pa.array(numbers) for numbers in drawn]),
        ):
            batches = [pa.record_batch([array.dictionary_encode()], names=["d"]) for array in arrays]
            decoded = [RecordBatch.from_arrow(batch) for batch in batches]
            seconds = cpu(
                repeats,
                lambda decoded=decoded: ipc.write(io.BytesIO(), decoded, options=ipc.WriteOptions(compression=None)),
                lambda batches=batches: unified_by_pyarrow(batches),
            )
            yield Figure(f"unify 20 dictionaries of {kind}, {name}, us", *seconds, "no bar")


def unified_by_pyarrow(batches: list[pa.RecordBatch]) -> bytes:
    whole = pa.Table.from_batches(batches).unify_dictionaries()
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, whole.schema) as writer:
        writer.write_table(whole)
    return sink.getvalue()


def figures(repeats: int, batches: int, tiny_batches: int, columns: int) -> Iterator[Figure]:
    """All figures, one after the other."""
    yield from reading(repeats, batches)
    yield from tiny(min(repeats, 3), tiny_batches)
    yield from wide(min(repeats, 3), columns)
    yield from writing(repeats, max(1, batches // 3))
    yield from unifying(repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--tiny", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=10_000)
    chosen = parser.parse_args()
    print(f"{'':<44} {'ours':>12} {'pyarrow':>12} {'ratio':>7}  bar")
    for figure in figures(chosen.repeats, chosen.batches, chosen.tiny, chosen.columns):
        print(figure.line(), flush=True)


if __name__ == "__main__":
    main()
