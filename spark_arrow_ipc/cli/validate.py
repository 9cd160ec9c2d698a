"""``arrowipc validate``: whether files are sound, every value of them, and what readers may stumble over.

Strategy
--------
A verdict comes from the reader that everybody uses, at its strictest: what it reads is sound. One batch at a time
is in memory. Notes are about sound files: what the specification bounds though readers accept it, and what other
readers are known to take another way. A note never makes a file bad.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.cli.shared import render
from spark_arrow_ipc.cli.shared.differences import Comparison
from spark_arrow_ipc.cli.shared.outline import Outline, read_outline
from spark_arrow_ipc.cli.shared.ranges import OutOfRange, out_of_range
from spark_arrow_ipc.dataset.listing.directory import list_directory
from spark_arrow_ipc.errors import ArrowIpcError, NoFilesError
from spark_arrow_ipc.ipc.constants import EOS, FILE_HEADER
from spark_arrow_ipc.ipc.framing import read_stream_message
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.metadata.message import decode_message
from spark_arrow_ipc.ipc.metadata.schema import SchemaHeader, SchemaMessage, decode_schema
from spark_arrow_ipc.ipc.source import open_source
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.storage import Kind

__all__ = ["Verdict", "add_arguments", "examine", "run"]

_COPIES = Comparison("the footer", "the copy at the start", names_of_maps=True)

_MOST_PADDING = 64
"""arrow-rs begins its first message at a multiple of this, behind zeros."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found out about one file.

    Parameters
    ----------
    path
        As it was named, or found in a directory that was.
    format
        "file" or "stream"; None where not even that is clear.
    record_batches, num_rows
        That were read, up to the error if there is one.
    notes
        Sentences about a sound file.
    error
        Why it is bad, or None.
    """

    path: str
    format: str | None = None
    record_batches: int = 0
    num_rows: int = 0
    notes: tuple[str, ...] = ()
    error: ArrowIpcError | OSError | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc validate``."""
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="Arrow IPC files and streams, and directories: the files in them"
    )
    parser.add_argument(
        "--values",
        action="store_true",
        help="also note decimals, times and dates that are out of their type's range, which no reader refuses",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line for each file")


def run(arguments: argparse.Namespace) -> int:
    """Print one verdict a file; return 1 if a file is bad."""
    status = 0
    for path in arguments.paths:
        for verdict in _verdicts(path, values=arguments.values):
            status = 1 if verdict.error else status
            lines = [json.dumps(_to_json(verdict))] if arguments.json else _describe(verdict)
            print("\n".join(lines), flush=True)
    return status


def _verdicts(path: str, *, values: bool) -> Iterator[Verdict]:
    storage, directory = storage_of(path)
    status = storage.status(directory)
    if status is None or status.kind is not Kind.DIRECTORY:
        yield examine(path, values=values)
        return
    try:
        files = list_directory(storage, directory).files
        if not files:
            raise NoFilesError(expected="files in the directory", found="none", path=path)
    except (ArrowIpcError, OSError) as error:
        yield Verdict(path, error=error)
        return
    for file in files:
        yield examine(file.path, values=values)


def examine(path: str, *, values: bool = False) -> Verdict:
    """Return the verdict on one file. Reads and checks all of it, one batch at a time.

    Parameters
    ----------
    path
        A file or stream.
    values
        Whether to note values that are out of their type's range.
    """
    form, batches, rows = None, 0, 0
    ranges = _Ranges()
    try:
        with ipc.open(path, validation="full") as reader:
            form = reader.format
            for batch in reader:
                if values:
                    ranges.look(batch, batches)
                batches, rows = batches + 1, rows + batch.num_rows
        outline = read_outline(path)
        notes = (*_notes(path, outline), *ranges.notes())
    except (ArrowIpcError, OSError) as error:
        return Verdict(path, form, batches, rows, error=error)
    return Verdict(path, form, batches, rows, notes)


def _notes(path: str, outline: Outline) -> Iterator[str]:
    yield from (_copy_notes if outline.format == "file" else _end_notes)(path, outline)
    every = (*outline.record_batches, *outline.dictionaries)
    if any(batch.compression and batch.metadata_version == "V4" for batch in every):
        yield "bodies are compressed under metadata V4: pyarrow takes their buffers for uncompressed ones"


def _copy_notes(path: str, outline: Outline) -> Iterator[str]:
    """Yield a note where the stream inside a file does not begin with the footer's schema."""
    copy = _schema_at_start(path)
    if copy is None:
        yield "there is no schema message at the start: who reads the file as a stream cannot"
        return
    difference = _COPIES.of_schemas(outline.schema, copy.schema)
    if difference is None and outline.schema.endianness != copy.schema.endianness:
        difference = "the byte orders are not the same"
    if difference is not None:
        yield f"the schema at the start is not that of the footer, which is the one that counts: {difference}"


def _schema_at_start(path: str) -> SchemaMessage | None:
    limits = Limits()
    with closing(open_source(path)) as source:
        head = bytes(source.read_up_to(len(FILE_HEADER), _MOST_PADDING))
        zeros = len(head) - len(head.lstrip(b"\0"))
        try:
            found = read_stream_message(source, len(FILE_HEADER) + zeros // 8 * 8, limits)
            header = None if found is None else decode_message(found[0], limits).header
            return decode_schema(header.view, limits) if isinstance(header, SchemaHeader) else None
        except ArrowIpcError:
            # Nothing that counts stands there, so what does is no error: polars 2.1 omits the prefix.
            return None


def _end_notes(path: str, outline: Outline) -> Iterator[str]:
    """Yield a note where a stream ends without its marker, or goes on behind it."""
    assert outline.end_offset is not None
    with closing(open_source(path)) as source:
        marker = bytes(source.read_up_to(outline.end_offset, len(EOS)))
    if not marker:
        yield "the end-of-stream marker is missing: if messages were cut off, nothing would show it"
        return
    behind = outline.nbytes - outline.end_offset - (len(EOS) if marker == EOS else len(EOS) // 2)
    if behind:
        yield f"{render.count(behind, 'byte')} behind the end-of-stream marker, which nobody reads"


class _Ranges:
    """Values out of range, summed up over the batches of a file."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str, str], tuple[int, str]] = {}
        self._dictionaries: dict[int, Array] = {}

    def look(self, batch: RecordBatch, number: int) -> None:
        """Take in one batch."""
        for position, (field, column) in enumerate(zip(batch.schema.fields, batch.columns, strict=True)):
            if column.dictionary is not None:
                # One dictionary serves many batches: it is looked at when it is new.
                if self._dictionaries.get(position) is column.dictionary:
                    continue
                self._dictionaries[position] = column.dictionary
            for finding in out_of_range(column, field.name):
                self._add(position, finding, f"slot {finding.first:,} in record batch {number:,}")

    def _add(self, position: int, finding: OutOfRange, place: str) -> None:
        key = (position, finding.path, finding.what)
        count, first = self._found.get(key, (0, place))
        self._found[key] = (count + finding.count, first)

    def notes(self) -> Iterator[str]:
        """Yield a sentence for each field and kind."""
        for (_, path, what), (count, first) in self._found.items():
            yield f"field {path}: {count:,} {what}, the first in {first}"


def _describe(verdict: Verdict) -> list[str]:
    path = render.printable(verdict.path)
    if verdict.error is not None:
        return [f"{path}: bad: {render.printable(_words(verdict))}"]
    batches = render.count(verdict.record_batches, "record batch", "record batches")
    sound = f"{path}: ok: {verdict.format}, {batches}, {render.count(verdict.num_rows, 'row')}"
    return [sound, *(f"  note: {render.printable(note)}" for note in verdict.notes)]


def _words(verdict: Verdict) -> str:
    """Return the error without the path, which stands before it already."""
    error = verdict.error
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error).removeprefix(f"{verdict.path}: ")


def _to_json(verdict: Verdict) -> dict[str, Any]:
    error = verdict.error
    return {
        "path": verdict.path,
        "ok": error is None,
        "format": verdict.format,
        "record_batches": verdict.record_batches,
        "num_rows": verdict.num_rows,
        "notes": list(verdict.notes),
        "error": error and {"kind": type(error).__name__, "message": _words(verdict), **_place(error)},
    }


def _place(error: ArrowIpcError | OSError) -> dict[str, int | str | None]:
    """Return where in a file an error lies, as far as it is known."""
    names = ("block_kind", "block_number", "field_path", "byte_offset")
    return {name: getattr(error, name, None) for name in names}
