"""``arrowipc repair``: copy the readable record batches of a broken file.

How it works: every complete record batch is read with all checks and written to a new file; one that fails is reported
with its rows and the error. The broken file is never changed. Files of a directory keep their paths in a new directory,
and so their partitions. If nothing can be saved, nothing is written.
"""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.cli.shared import files, terminal
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.cli.shared.storages import storage_at
from spark_arrow_ipc.cli.shared.terminal import advance
from spark_arrow_ipc.errors import ArrowIpcError, InvalidArrowError, UnsupportedError, error_context, printable
from spark_arrow_ipc.ipc.recovery import Recovered, Rest, RestKind, open_to_repair
from spark_arrow_ipc.ipc.stream_index import StreamIndex
from spark_arrow_ipc.storage.paths import join, name_of, parent


@dataclass(frozen=True, slots=True, eq=False)
class Lost:
    """A record batch that cannot be read, with the rows of its header, if known."""

    number: int
    rows: int | None
    error: ArrowIpcError


def repair_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc repair``."""
    files.add_path_arguments(parser, "sources", "SOURCE")
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="the file to write; where a directory, a pattern or several files are read, the directory of the files "
        "to write. It must not exist",
    )
    files.add_output_arguments(parser)


def run_repair(arguments: argparse.Namespace) -> int:
    """Write the readable record batches and report the lost ones; return 1 if a file has none."""
    target = arguments.target
    storage = storage_at(target, arguments.storage)
    # Also as a directory: a second run would mix its files with older ones.
    files.refuse_existing(storage, target)
    sources = list(files.each_input(arguments.sources, recursive=arguments.recursive, storage=arguments.storage))
    # One named file is written as one file.
    if len(sources) == 1 and sources[0].below is None:
        files.check_ending(arguments, target)
        return _repair(sources[0], target, arguments)
    status = 0
    for source in sources:
        path = join(target, source.below or name_of(source.path))
        try:
            files.refuse_existing(storage, path)
            storage.make_directory(parent(storage.resolve(path)))
            # Other files may still be repaired.
            status |= _repair(source, path, arguments)
        except (ArrowIpcError, OSError) as error:
            files.complain(error)
            status = 1
    return status


def _repair(source: Input, target: str, arguments: argparse.Namespace) -> int:
    """Repair one file; return 1, and write nothing, if it has no readable record batch."""
    recovered, rest = open_to_repair(source.openable)
    if recovered.reader is None:
        assert recovered.lost is not None
        with error_context(path=source.path):
            # Without a schema no record batch can be read.
            raise recovered.lost
    n_kept = rows = 0
    lost: list[Lost] = []
    with closing(recovered):
        batches = salvage(source, recovered)
        # The target is not created before it has rows: of a file without any only the report is left.
        readable = _first_readable(batches, lost)
        if readable is None and (
            lost or recovered.lost is not None or (rest is not None and rest.kind is RestKind.ZEROS)
        ):
            print(f"{printable(target)}: not written, because nothing of {printable(source.path)} is left")
            _print_losses(_Report(n_kept, lost, recovered, rest))
            return 1
        pairs = files.foreign_metadata(recovered.reader.custom_metadata)
        with files.create(arguments, target, recovered.reader.schema, pairs) as writer:
            for batch in chain(() if readable is None else (readable,), batches):
                if isinstance(batch, Lost):
                    lost.append(batch)
                    continue
                writer.write(batch)
                advance(batch.num_rows)
                n_kept, rows = n_kept + 1, rows + batch.num_rows
    print(f"{printable(target)}: kept {_batches(n_kept)}, {terminal.count(rows, 'row')}")
    _print_losses(_Report(n_kept, lost, recovered, rest))
    return 0


def _first_readable(batches: Iterator[RecordBatch | Lost], lost: list[Lost]) -> RecordBatch | None:
    """Return the first readable record batch, or None; add the lost ones before it to `lost`."""
    for batch in batches:
        if not isinstance(batch, Lost):
            return batch
        lost.append(batch)
    return None


def _print_losses(report: _Report) -> None:
    for line in report.lines():
        print(printable(line))


def salvage(source: Input, recovered: Recovered) -> Iterator[RecordBatch | Lost]:
    """Yield each record batch that can be read, and a `Lost` for each other one."""
    reader, index = recovered.reader, recovered.index
    assert reader is not None, "without a schema no batch is read"
    if reader.is_numbered:
        for number in range(len(reader)):
            try:
                yield reader.read_batch(number)
            except (InvalidArrowError, UnsupportedError) as error:
                # Batches of a file are independent: the next one is read all the same.
                yield Lost(number, _rows(reader, number), error)
        return
    assert index is not None, "a stream has an index"
    number, end = 0, len(index.batches)
    while number < end:
        try:
            batch = next(reader)
        except (InvalidArrowError, UnsupportedError) as error:
            yield Lost(number, index.batches[number].rows, error)
            # The reader's dictionaries are unknown after an error: a new reader replays the next batch's.
            reader, number = yield from _next_readable(source, index, number + 1)
            continue
        yield batch
        number += 1
    reader.close()


def _next_readable(
    source: Input, index: StreamIndex, number: int
) -> Generator[Lost, None, tuple[ipc.StreamReader, int]]:
    """Yield a `Lost` for each unreachable record batch from `number` on; return a reader at the next, and its number."""
    reader = ipc.open_stream(source.openable(), concatenated_streams="read")
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


@dataclass(frozen=True, slots=True, eq=False)
class _Report:
    """The result for one file: the number of copied record batches, the lost ones, and the bytes after them."""

    copied: int
    lost: list[Lost]
    recovered: Recovered
    rest: Rest | None

    def lines(self) -> Iterator[str]:
        """Yield a line for each loss, or one line if nothing was lost."""
        for one in self.lost:
            rows = "an unknown number of rows" if one.rows is None else terminal.count(one.rows, "row")
            yield f"  lost: record batch {one.number}, {rows}: {one.error}"
        line = None if self.rest is None else self._describe_rest(self.rest)
        if line is not None:
            yield f"  {line}"
        elif not self.lost:
            yield "  nothing was lost: the file was sound"

    def _describe_rest(self, rest: Rest) -> str | None:
        """Return the line about the bytes after the last complete message; None for the end of a sound stream."""
        why, reader = self.recovered.lost, self.recovered.reader
        at, size = f"byte offset {rest.byte_offset:,}", terminal.count(rest.nbytes, "byte")
        noun = "file" if reader is not None and reader.is_numbered else "stream"
        match rest.kind:
            case RestKind.END if why is None:
                return None
            case RestKind.END:
                rest_of_it = "" if self.lost else f"; all {_batches(self.copied)} are kept"
                return f"the footer was damaged, and custom metadata in it is lost{rest_of_it}: {why}"
            case RestKind.CUT:
                return (
                    f"lost: what followed {at}, if anything did: the {noun} ends there without its end-of-stream marker"
                )
            case RestKind.ZEROS:
                doubt = "; the record batch before them ends in zeros too, and may have lost values"
                return (
                    f"lost: {size} from {at} on, which are zeros{doubt if rest.zeros_before >= _MOST_PADDING else ''}"
                )
            case RestKind.BROKEN:
                return f"lost: {size} from {at} on, after the last complete record batch: {why}"
            case RestKind.FOREIGN:
                nothing = "" if self.lost else "nothing was lost: "
                return f"{nothing}the {noun} ends at {at}; {size} after it, which are no part of it, were not copied"


# Bytes to which writers align bodies: as many zeros at the end of a record batch may be lost values
_MOST_PADDING: Final = 64


def _batches(number: int) -> str:
    return terminal.count(number, "record batch", "record batches")
