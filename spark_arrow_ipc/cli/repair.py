"""``arrowipc repair``: copy the readable record batches of a broken file.

Strategy
--------
Every complete record batch is read with all checks and written to a new file; each that fails is reported with its
rows and the error. The broken file is never changed.
"""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.cli.shared import files, render
from spark_arrow_ipc.errors import ArrowIpcError, InvalidArrowError, UnsupportedError, error_context
from spark_arrow_ipc.ipc.recover import Recovered, open_recovered
from spark_arrow_ipc.ipc.stream_index import StreamIndex

__all__ = ["Lost", "add_arguments", "run", "salvage"]


@dataclass(frozen=True, slots=True, eq=False)
class Lost:
    """A record batch that cannot be read; its rows are those of its header, if known."""

    number: int
    rows: int | None
    error: ArrowIpcError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc repair``."""
    parser.add_argument("source", metavar="SOURCE", help="the broken file or stream; it stays as it is")
    parser.add_argument("target", metavar="TARGET", help="the file to write; it must not exist")
    files.add_output_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the readable record batches and report the lost ones; return 1 if none is readable."""
    source, target = arguments.source, arguments.target
    files.refuse_existing(target)
    found = open_recovered(lambda: source)
    if found.reader is None:
        assert found.lost is not None
        with error_context(path=source):
            raise found.lost
    kept = rows = 0
    lost: list[Lost] = []
    try:
        with ipc.create(target, found.reader.schema, files.write_options(arguments, target)) as writer:
            if isinstance(found.reader, ipc.FileReader):
                writer.custom_metadata.update(files.foreign_metadata(found.reader.custom_metadata))
            for batch in salvage(source, found):
                if isinstance(batch, Lost):
                    lost.append(batch)
                    continue
                writer.write(batch)
                kept, rows = kept + 1, rows + batch.num_rows
    finally:
        found.close()
    print(f"{render.printable(target)}: kept {_batches(kept)}, {render.count(rows, 'row')}")
    for line in _losses(lost, found):
        print(render.printable(line))
    return 1 if lost and not kept else 0


def salvage(source: str, found: Recovered) -> Iterator[RecordBatch | Lost]:
    """Yield each record batch that can be read, and a `Lost` for each other one."""
    reader, index = found.reader, found.index
    if isinstance(reader, ipc.FileReader):
        for number in range(len(reader)):
            try:
                yield reader.read_batch(number)
            except (InvalidArrowError, UnsupportedError) as error:
                yield Lost(number, _rows(reader, number), error)
        return
    assert reader is not None, "without a schema no batch is read"
    assert index is not None, "a stream has an index"
    number, end = 0, len(index.batches)
    while number < end:
        try:
            batch = next(reader)
        except (InvalidArrowError, UnsupportedError) as error:
            yield Lost(number, index.batches[number].rows, error)
            reader, number = yield from _next_readable(source, index, number + 1)
            continue
        yield batch
        number += 1
    reader.close()


def _next_readable(source: str, index: StreamIndex, number: int) -> Generator[Lost, None, tuple[ipc.StreamReader, int]]:
    """Return a reader at the first reachable record batch from `number` on, and its number.

    Yields a `Lost` for each record batch before it.
    """
    reader = ipc.open_stream(source)
    while number < len(index.batches):
        try:
            reader.start_at(index.start(number))
        except (InvalidArrowError, UnsupportedError) as error:
            yield Lost(number, index.batches[number].rows, error)
            number += 1
            continue
        break
    return reader, number


def _rows(reader: ipc.FileReader, number: int) -> int | None:
    try:
        return reader.read_header(number).length
    except ArrowIpcError:
        return None


def _losses(lost: list[Lost], found: Recovered) -> Iterator[str]:
    for one in lost:
        rows = "an unknown number of rows" if one.rows is None else render.count(one.rows, "row")
        yield f"  lost: record batch {one.number}, {rows}: {one.error}"
    if found.lost is not None:
        yield f"  lost: everything after the last complete record batch: {found.lost}"
    if not lost and found.lost is None:
        yield "  nothing was lost: the file was sound"


def _batches(number: int) -> str:
    return render.count(number, "record batch", "record batches")
