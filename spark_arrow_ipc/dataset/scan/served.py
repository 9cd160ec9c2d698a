"""Read a part of a server's table, as `scan` reads the ranges of files.

A server has no files: nothing is listed, outlined or cut at planning, and nothing can be skipped but the columns that it
does not send. A part that breaks off is read again by the next attempt of its task, from its beginning.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.dataset.scan.read_blocks import ScannedBatch, join_small
from spark_arrow_ipc.dataset.scan.scan import ScannedFile, ScanOptions
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.ipc.dissociated.location import MAX_PARTS, parse_location


@dataclass(frozen=True, slots=True)
class ServedPart:
    """A table of a server, or a part of it."""

    uri: str = field(repr=False)  # as `ipc.connect` takes it
    path: str  # what people see of it: address, ticket, part
    # None: a server says nothing of a file
    nbytes: None = None
    mtime_ns: None = None


def plan_parts(uri: str, parts: int | None) -> list[ServedPart]:
    """Return the parts that a table is read in. Asks no server."""
    location = parse_location(uri)
    of = location.of or (None if parts is None else min(parts, MAX_PARTS))
    if of is None or location.part is not None or location.want_part is None:
        return [ServedPart(uri, location.shown)]
    cut = (replace(location, part=part, of=of) for part in range(of))
    return [ServedPart(part.uri, part.shown) for part in cut]


def scan_served(part: ServedPart, *, options: ScanOptions, token: str | None) -> Generator[ScannedFile, None, None]:
    """Yield one `ScannedFile`: the rows of a part. Numbers of blocks and rows count from its beginning."""
    how = options.read
    with (
        error_context(path=part.path),
        ipc.connect(part.uri, columns=how.columns, validation=how.validation, limits=how.limits, token=token) as reader,
    ):
        yield ScannedFile(part, reader.schema, join_small(_numbered(reader), options.joined_rows), lambda: 0)


def _numbered(batches: Iterable[RecordBatch]) -> Iterator[ScannedBatch]:
    first_row = 0
    for number, batch in enumerate(batches):
        yield ScannedBatch(batch, number, first_row, (batch.num_rows,))
        first_row += batch.num_rows
