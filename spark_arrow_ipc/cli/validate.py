"""``arrowipc validate``: check all values of files, and note pitfalls.

How it works: a file is good if this package reads it to its end with full validation, one batch at a time. Notes are
about good files: values out of their type's range, which the specification forbids and every reader accepts, and
properties that other readers interpret in another way. A note never makes a file bad.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.column_path import child_path
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.unseen import clear_unseen
from spark_arrow_ipc.cli.shared import files, tensors, terminal
from spark_arrow_ipc.cli.shared.differences import Comparison
from spark_arrow_ipc.cli.shared.file_metadata import FileMetadata, read_file_metadata
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.cli.shared.terminal import count_rows
from spark_arrow_ipc.dataset.statistics.read import StatisticsWarning, file_statistics
from spark_arrow_ipc.errors import ArrowIpcError, LimitError, NoTableError, printable
from spark_arrow_ipc.ipc.bytes.source import open_source
from spark_arrow_ipc.ipc.constants import EOS, FILE_HEADER, Limits
from spark_arrow_ipc.ipc.messages.checksums import CHECKSUMS_KEY, ROW_COUNTS_KEY, decode_checksums, decode_row_counts
from spark_arrow_ipc.ipc.messages.message import decode_message, read_stream_message
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader, SchemaMessage, decode_schema
from spark_arrow_ipc.storage.paths import has_query

Bools: TypeAlias = npt.NDArray[np.bool_]

_DAY_SECONDS = 24 * 60 * 60
_DAY_MILLISECONDS = 1000 * _DAY_SECONDS
_WORD = 1 << 64


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """Slots of one array whose values are out of their type's range."""

    path: str
    what: str
    count: int
    first: int


def out_of_range(array: Array, path: str) -> Iterator[OutOfRange]:
    """Yield the visible values of an array, its children and its dictionary that are out of their type's range."""
    # Files hardly ever have one: slots that no row sees are cleared only for those that do.
    if next(_beyond(array, path), None) is not None:
        yield from _beyond(clear_unseen(array), path)


def _beyond(array: Array, path: str) -> Iterator[OutOfRange]:
    """Yield the values out of range in all slots of an array, its children and its dictionary."""
    check = _CHECKS.get(type(array.type))
    if check is not None and array.length:
        what, bad = check(array)
        valid = array_data.validity_mask(array)
        # Bytes under a null have no meaning.
        bad = bad if valid is None else bad & valid
        if bad.any():
            yield OutOfRange(path, what, int(np.count_nonzero(bad)), int(bad.argmax()))
    if array.dictionary is not None:
        yield from _beyond(array.dictionary, path)
    for field, child in zip(array.type.children, array.children, strict=True):
        yield from _beyond(child, child_path(array.type, path, field))


def _decimals(array: Array) -> tuple[str, Bools]:
    type_ = array.type
    assert isinstance(type_, t.Decimal)
    words = array_data.data_values(array)
    bound = 10**type_.precision
    bad = ~(_below(words, bound) & ~_below(words, 1 - bound))
    return f"decimals of more than {type_.precision} digits", bad


def _below(words: npt.NDArray[Any], bound: int) -> Bools:
    """Return the mask of integers less than `bound`; the words of wide ones are named from the lowest."""
    if words.dtype.names is None:
        small: Bools = words < bound
        return small
    below = np.zeros(len(words), np.bool_)
    # Names of words rise with their weight.
    *low, top = sorted(words.dtype.names)
    for name in low:
        bound, limit = divmod(bound, _WORD)
        # Lower words are unsigned, and decide only where the higher ones are equal.
        below = (words[name] < np.uint64(limit)) | ((words[name] == np.uint64(limit)) & below)
    result: Bools = (words[top] < bound) | ((words[top] == bound) & below)
    return result


def _times(array: Array) -> tuple[str, Bools]:
    type_ = array.type
    assert isinstance(type_, t.Time)
    values = array_data.data_values(array)
    return "times outside of a day", (values < 0) | (values >= _DAY_SECONDS * type_.unit.per_second)


def _dates(array: Array) -> tuple[str, Bools]:
    assert isinstance(array.type, t.Date)
    values = array_data.data_values(array)
    if array.type.unit is t.DateUnit.DAY:
        return "", np.zeros(len(values), np.bool_)
    return "dates with a time of day", values % _DAY_MILLISECONDS != 0


# By type with fewer values than its bits (Schema.fbs): a description, and the mask of bad slots.
_CHECKS: Mapping[type[t.DataType], Callable[[Array], tuple[str, Bools]]] = {
    t.Decimal: _decimals,
    t.Time: _times,
    t.Date: _dates,
}


_COPIES = Comparison("the footer", "the copy at the start", names_of_maps=True)

# arrow-rs pads with zeros, so that its first message begins at a multiple of this
_MOST_PADDING = 64


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking one file."""

    path: str
    # "file", "stream" or "tensor"; None for any other file
    format: str | None = None
    # Numbers up to the error, if one stopped the check
    record_batches: int = 0
    num_rows: int = 0
    tensors: int = 0
    notes: tuple[str, ...] = ()
    # The reason why it is bad, or None
    error: ArrowIpcError | OSError | None = None


def validate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc validate``."""
    files.add_path_arguments(parser)
    parser.add_argument(
        "--values",
        action="store_true",
        help="also note decimals, times and dates out of their type's range, which readers accept",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line for each file")


def run_validate(arguments: argparse.Namespace) -> int:
    """Print one verdict for each file; return 1 if one is bad."""
    bad = False

    def tell(verdict: Verdict) -> None:
        nonlocal bad
        bad = bad or verdict.error is not None
        lines = [terminal.json_line(_to_json(verdict))] if arguments.json else _describe(verdict)
        # Flushed, as checking the next file may take minutes.
        print("\n".join(lines), flush=True)

    def report(path: str, error: ArrowIpcError | OSError) -> None:
        # A signed URL is refused because its signature is a secret: it must not be shown here either.
        tell(Verdict(f"{path.partition('?')[0]}?..." if has_query(path) else path, error=error))

    for source in files.list_inputs(arguments, refused=report):
        tell(examine(source, values=arguments.values))
    return 1 if bad else 0


def examine(source: Input, *, values: bool = False) -> Verdict:
    """Read and check one file completely, one batch at a time."""
    form, batches, rows = None, 0, 0
    ranges = _Ranges()
    try:
        with warnings.catch_warnings(), ipc.open(source.openable(), validation="full") as reader:
            # A note has the same content.
            warnings.simplefilter("ignore", ipc.ConcatenatedStreamsWarning)
            form = reader.format
            for batch in count_rows(reader):
                if values:
                    ranges.add(batch, batches)
                batches, rows = batches + 1, rows + batch.num_rows
            # Only footers have claims.
            claims = _claims_that_readers_ignore(reader) if reader.is_numbered else ()
        # Only of good files: of a bad one the error matters.
        notes = (*_metadata_notes(source), *claims, *ranges.notes())
    except (ArrowIpcError, OSError) as error:
        if isinstance(error, NoTableError) and tensors.holds_tensors(source):
            return _examine_tensors(source)
        return Verdict(source.path, form, batches, rows, error=error)
    return Verdict(source.path, form, batches, rows, notes=notes)


def _examine_tensors(source: Input) -> Verdict:
    notes: list[str] = []
    count = 0
    try:
        with tensors.open_tensors(source) as every:
            for stored in every:
                notes += (f"tensor {stored.number}: {note}" for note in tensors.notes(stored))
                count += 1
    except (ArrowIpcError, OSError) as error:
        return Verdict(source.path, "tensor", tensors=count, error=error)
    return Verdict(source.path, "tensor", tensors=count, notes=tuple(notes))


def _claims_that_readers_ignore(reader: ipc.FileReader) -> tuple[str, ...]:
    """Return notes on checksums, statistics and row counts of a footer that belong to another file."""
    notes = []
    if any(key == CHECKSUMS_KEY for key, _ in reader.custom_metadata) and reader.checksums is None:
        is_malformed = decode_checksums(reader.custom_metadata) is None
        why = "they are malformed" if is_malformed else "they are not those of this file's messages"
        notes.append(f"the checksums in the footer are ignored: {why}; write the file again")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StatisticsWarning)
        file_statistics(reader)
    notes += (str(each.message).removeprefix(f"{printable(reader.path or '')}: ") for each in caught)
    notes += _row_count_notes(reader)
    return tuple(notes)


def _row_count_notes(reader: ipc.FileReader) -> Iterator[str]:
    """Yield a note if the row counts of a footer differ from the record batches; polars relies on them."""
    try:
        row_counts = decode_row_counts(reader.custom_metadata)
    except ValueError as error:
        yield f"the row counts of {ROW_COUNTS_KEY} in the footer are malformed: {printable(str(error))}"
        return
    if row_counts is None:
        return
    rows = reader.row_counts(range(len(reader)))
    if len(row_counts) != len(rows):
        note = f"{len(row_counts):,} record batches, and the file has {len(rows):,}: polars ignores it"
    elif row_counts != rows:
        i = next(i for i, (one, other) in enumerate(zip(row_counts, rows, strict=True)) if one != other)
        note = f"{row_counts[i]:,} rows in record batch {i}, which has {rows[i]:,}: polars reads the wrong rows"
    else:
        return
    yield f"{ROW_COUNTS_KEY} in the footer says {note}; write the file again"


def _metadata_notes(source: Input) -> Iterator[str]:
    try:
        metadata = read_file_metadata(source.openable())
    except LimitError as error:  # a sound stream may have any number of messages
        yield f"the headers are not looked at for pitfalls: {error}"
    else:
        yield from _notes(source, metadata)


def _notes(source: Input, metadata: FileMetadata) -> Iterator[str]:
    yield from (_copy_notes if metadata.format == "file" else _end_notes)(source, metadata)
    every = (*metadata.record_batches, *metadata.dictionaries)
    if any(batch.compression and batch.metadata_version == "V4" for batch in every):
        yield "bodies are compressed with metadata V4: pyarrow reads their buffers as uncompressed ones"


def _copy_notes(source: Input, metadata: FileMetadata) -> Iterator[str]:
    """Yield a note if the stream inside a file has another schema than the footer."""
    copy = _schema_at_start(source)
    if copy is None:
        yield "there is no schema message at the start: the file cannot be read as a stream"
        return
    difference = _COPIES.of_schemas(metadata.schema, copy.schema)
    if difference is None and metadata.schema.endianness != copy.schema.endianness:
        difference = "the byte orders are not the same"
    if difference is not None:
        yield f"the schema at the start differs from that of the footer, which readers use: {difference}"


def _schema_at_start(source: Input) -> SchemaMessage | None:
    limits = Limits()
    with closing(open_source(source.openable())) as opened:
        head = bytes(opened.read_up_to(len(FILE_HEADER), _MOST_PADDING))
        # arrow-rs pads between the magic and the first message.
        zeros = len(head) - len(head.lstrip(b"\0"))
        try:
            framed = read_stream_message(opened, len(FILE_HEADER) + zeros // 8 * 8, limits)
            header = None if framed is None else decode_message(framed[0], limits).header
            return decode_schema(header.view, limits) if isinstance(header, SchemaHeader) else None
        except ArrowIpcError:
            # Readers of files do not use this message, so that its errors do not matter: polars 2.1 omits the prefix.
            return None


def _end_notes(source: Input, metadata: FileMetadata) -> Iterator[str]:
    """Yield a note if a stream ends without its marker, or continues after it."""
    assert metadata.end_offset is not None
    with closing(open_source(source.openable())) as opened:
        marker = bytes(opened.read_up_to(metadata.end_offset, len(EOS)))
    if not marker:
        yield "the end-of-stream marker is missing: messages may be missing as well"
        return
    trailing = metadata.nbytes - metadata.end_offset - (len(EOS) if marker == EOS else len(EOS) // 2)
    if metadata.next_offset is not None:
        yield f"another stream begins at byte {metadata.next_offset:,}, after the end of this one: most readers ignore it"
    elif trailing:
        yield f"{terminal.count(trailing, 'byte')} after the end-of-stream marker, which readers ignore"


class _Ranges:
    """Values out of range, summed up over the batches of a file."""

    def __init__(self) -> None:
        self._findings: dict[tuple[int, str, str], tuple[int, str]] = {}
        self._dictionaries: dict[int, Array] = {}

    def add(self, batch: RecordBatch, number: int) -> None:
        """Add the values of one batch."""
        for position, (field, column) in enumerate(zip(batch.schema.fields, batch.columns, strict=True)):
            if column.dictionary is not None:
                # Many batches share a dictionary: it is checked once.
                # By identity: equal dictionaries of different batches are rare, and comparing costs as much as
                # checking.
                if self._dictionaries.get(position) is column.dictionary:
                    continue
                self._dictionaries[position] = column.dictionary
            for finding in out_of_range(column, field.name):
                key = (position, finding.path, finding.what)
                first = f"slot {finding.first:,} in record batch {number:,}"
                count, first = self._findings.get(key, (0, first))
                self._findings[key] = (count + finding.count, first)

    def notes(self) -> Iterator[str]:
        """Yield a sentence for each field and kind of value."""
        for (_, path, what), (count, first) in self._findings.items():
            yield f"field {path}: {count:,} {what}, the first in {first}"


def _describe(verdict: Verdict) -> list[str]:
    path = printable(verdict.path)
    if verdict.error is not None:
        return [f"{path}: bad: {printable(_words(verdict))}"]
    contents = terminal.count(verdict.tensors, "tensor")
    if verdict.format != "tensor":
        batches = terminal.count(verdict.record_batches, "record batch", "record batches")
        contents = f"{batches}, {terminal.count(verdict.num_rows, 'row')}"
    sound = f"{path}: ok: {verdict.format}, {contents}"
    return [sound, *(f"  note: {printable(note)}" for note in verdict.notes)]


def _words(verdict: Verdict) -> str:
    """Return the error message without the path."""
    error = verdict.error
    if isinstance(error, OSError):
        # The path is printed before it.
        return error.strerror or str(error)
    return str(error).removeprefix(f"{printable(verdict.path)}: ")


def _to_json(verdict: Verdict) -> dict[str, Any]:
    error = verdict.error
    location = ("block_kind", "block_number", "field_path", "byte_offset")
    return {
        "path": verdict.path,
        "ok": error is None,
        "format": verdict.format,
        "record_batches": verdict.record_batches,
        "num_rows": verdict.num_rows,
        "tensors": verdict.tensors,
        "notes": list(verdict.notes),
        "error": error
        and {
            "kind": type(error).__name__,
            "message": _words(verdict),
            **{name: getattr(error, name, None) for name in location},
        },
    }
