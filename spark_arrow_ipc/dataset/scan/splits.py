"""How files become input partitions: large files are cut between their blocks, small ones are packed together.

Strategy
--------
Spark's arithmetic (``FilePartition.maxSplitBytes`` and ``getFilePartitions``) over Arrow's blocks. A file that fits
one split is never opened: 100,000 small files are planned from their sizes alone. Of a larger one only the footer
is read, never a body; a stream has no footer, and the headers of its messages are read instead, one small read each.
A record batch that is larger than a split is cut between its rows, where those can be read apart.

A range names its file by path, size and modification time, so that a task notices a file that changed since. A range
of a stream also names the dictionary batches in force at its first record batch, which a task replays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import ceil
from typing import Final, TypeAlias

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.errors import FileChangedError, InvalidArrowError, error_context
from spark_arrow_ipc.ipc.row_ranges import ROW_ALIGNMENT
from spark_arrow_ipc.ipc.stream_index import StreamIndex, StreamStart

__all__ = ["MAX_PARTITION_BYTES", "OPEN_COST_BYTES", "FileRange", "block_sizes", "block_sizes_if_sound", "plan_splits"]

MAX_PARTITION_BYTES: Final = 128 << 20
"""Bytes of an input partition at most: the default of ``spark.sql.files.maxPartitionBytes``."""

OPEN_COST_BYTES: Final = 4 << 20
"""Bytes that could be read in the time it takes to open a file: ``spark.sql.files.openCostInBytes``."""

_UNEVENNESS: Final = 1.1
"""How much heavier than its fair share a range may be so that ranges hold equally many record batches."""

Footer: TypeAlias = Callable[[str], "Sequence[int] | StreamIndex | None"]
"""Gives the bytes of each record batch of a file in order, or where a stream's messages lie, or None: not to be cut."""


KeptSizes: TypeAlias = Callable[[DataFile], "Sequence[int] | None"]
"""Gives the bytes of each record batch of a file, 0 for those that are passed over, or None: not known."""


BatchLength: TypeAlias = Callable[[str, int], "int | None"]
"""Gives the rows of a record batch of a file where ranges of them can be read apart, else None."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """The record batches `first_block` to `end_block` (exclusive) of a file; all of them where both are None.

    Parameters
    ----------
    path
        Absolute.
    nbytes, mtime_ns
        Size and modification time of the whole file at planning.
    first_block, end_block
        Record batch numbers; None for a whole file that was not cut at planning.
    partition
        Values of the hive partition columns, as the listing found them.
    staged
        Where a published file still lies until it is renamed to `path`; None for all others.
    start
        Where reading of a stream begins for this range; None for a file, and for a whole stream.
    rows
        Of the one record batch that the range has, the rows from the first to the second (exclusive); None for all.
    """

    path: str
    nbytes: int
    mtime_ns: int
    first_block: int | None = None
    end_block: int | None = None
    partition: tuple[object, ...] = ()
    staged: str | None = None
    start: StreamStart | None = None
    rows: tuple[int, int] | None = None

    def __reduce__(self) -> tuple[type[FileRange], tuple[object, ...]]:
        # Half of the bytes that a slotted dataclass pickles to: a driver holds and sends one for every file.
        values = (
            self.path, self.nbytes, self.mtime_ns, self.first_block, self.end_block,
            self.partition, self.staged, self.start, self.rows,
        )  # fmt: skip
        end = len(values)
        while end > _REQUIRED and values[end - 1] in {None, ()}:
            end -= 1
        return FileRange, values[:end]


_REQUIRED: Final = 3
"""Fields of a `FileRange` that have no default."""


def block_sizes(path: str) -> tuple[int, ...] | StreamIndex:
    """Return the bytes of each record batch of a file by its footer, or of a stream where its messages lie.

    Reads the footer, or a header for each message, and no body.

    Raises
    ------
    InvalidArrowError
        The bytes are no Arrow IPC, the footer is broken, or the stream's framing.
    FileChangedError
        The file is gone.
    """
    with error_context(path=path):
        try:
            reader = ipc.open(path)
        except FileNotFoundError as error:
            raise FileChangedError("the file was listed a moment ago and is gone now; read the path again") from error
        with reader:
            if isinstance(reader, ipc.FileReader):
                return tuple(block.nbytes for block in reader.blocks)
            return reader.index()


def block_sizes_if_sound(path: str) -> tuple[int, ...] | StreamIndex | None:
    """Return what `block_sizes` does, or None where the file is broken or gone: for a scan that puts up with that."""
    try:
        return block_sizes(path)
    except (InvalidArrowError, FileChangedError):
        return None


def plan_splits(
    files: Sequence[DataFile],
    *,
    max_partition_bytes: int = MAX_PARTITION_BYTES,
    open_cost_bytes: int = OPEN_COST_BYTES,
    min_partitions: int | None = None,
    footer: Footer = block_sizes,
    kept: KeptSizes | None = None,
    share: float = 1.0,
    batch_length: BatchLength | None = None,
) -> tuple[tuple[FileRange, ...], ...]:
    """Return the file ranges of each input partition.

    ``splitBytes = min(maxPartitionBytes, max(openCostInBytes, totalBytes / minPartitionNum))``, `totalBytes` counting
    `open_cost_bytes` for each file. A larger file is cut into so many ranges that each, with the cost of opening it,
    fits a split; ranges of equal batches differ by one batch at most. Ranges and small files are packed largest
    first, and keep the order of `files` where they are equally large. O(files log files), and one footer, or the
    headers of a stream, for each file larger than a split.

    Parameters
    ----------
    files
        As `list_files` gives them.
    max_partition_bytes
        Most bytes of a partition; a single record batch may exceed it.
    open_cost_bytes
        What opening a file costs, in bytes that could be read meanwhile.
    min_partitions
        Partitions that are aimed at where there is enough to read; the CPUs of this machine by default.
    footer
        How a file's record batches are learnt: `block_sizes`, or `block_sizes_if_sound` where broken files are
        skipped or recovered, so that planning does not stop at them.
    kept
        Gives the bytes of each record batch of a file, 0 for those that will be passed over; None where that is not
        known. A file of which nothing is kept is left out, and others count as what is kept of them.
    share
        Part of the bytes of each record batch that will be read, above 0: a projection makes fewer ranges.
    batch_length
        Gives the rows of a record batch that may be cut; called for those that are larger than a split. By default
        none is.

    Raises
    ------
    ValueError
        A parameter is not positive (`open_cost_bytes`: negative).
    InvalidArrowError
        The footer of a large file is broken, or the framing of a large stream.
    """
    aim = (os.cpu_count() or 1) if min_partitions is None else min_partitions
    for name, value, least in (
        ("max_partition_bytes", max_partition_bytes, 1),
        ("open_cost_bytes", open_cost_bytes, 0),
        ("min_partitions", aim, 1),
    ):
        if value < least:
            raise ValueError(f"{name}: expected at least {least}, found {value}")
    known = [(file, None if kept is None else kept(file)) for file in files]
    sized = [(file, sizes, ceil(share * (file.nbytes if sizes is None else sum(sizes)))) for file, sizes in known]
    sized = [row for row in sized if row[1] is None or row[2]]
    total = sum(nbytes + open_cost_bytes for *_, nbytes in sized)
    # Rounded up: one byte less would cut a lone file into one range more than it should have.
    split_bytes = max(1, min(max_partition_bytes, max(open_cost_bytes, -(-total // aim))))
    weighed: list[tuple[int, FileRange]] = []
    for file, sizes, nbytes in sized:
        found = sizes if sizes is not None or nbytes <= split_bytes else _footer_of(file, footer)
        if found is None:
            weighed.append(
                (nbytes, FileRange(file.path, file.nbytes, file.mtime_ns, None, None, file.partition, file.staged))
            )
            continue
        parts = -(-(nbytes + open_cost_bytes) // split_bytes) if nbytes > split_bytes else 1
        ranges = _ranges(file, found, parts)
        if batch_length is not None and not isinstance(found, StreamIndex):
            ranges = _cut_batches(ranges, found, split_bytes / share, batch_length)
        # All ranges of a file weigh the same, so that sorting by weight leaves them in the order of its rows.
        weight = -(-nbytes // max(1, len(ranges)))
        weighed.extend((weight, part) for part in ranges)
    weighed.sort(key=lambda pair: -pair[0])
    return _pack(weighed, split_bytes, open_cost_bytes)


def _footer_of(file: DataFile, footer: Footer) -> Sequence[int] | StreamIndex | None:
    """Return what the footer of a file says, wherever of its places it lies: a commit may be renaming it."""
    if file.staged is not None:
        for place in (file.path, file.staged):
            with suppress(FileChangedError):
                found = footer(place)
                if found is not None:
                    return found
    return footer(file.path)


def _ranges(file: DataFile, found: Sequence[int] | StreamIndex, parts: int) -> list[FileRange]:
    """Return a file's ranges, at most so many."""
    index = found if isinstance(found, StreamIndex) else None
    sizes = [batch.block.nbytes for batch in index.batches] if index else found
    assert not isinstance(sizes, StreamIndex)
    # What is passed over at either end is in no range.
    start = next((i for i, nbytes in enumerate(sizes) if nbytes), 0)
    stop = next((i + 1 for i in reversed(range(len(sizes))) if sizes[i]), 0)
    return [
        FileRange(
            file.path, file.nbytes, file.mtime_ns, start + first, start + end, file.partition, file.staged,
            index.start(first) if index and first < end else None,
        )
        for first, end in _cut(sizes[start:stop], parts)
    ]  # fmt: skip


def _cut_batches(
    ranges: list[FileRange], sizes: Sequence[int], split_bytes: float, batch_length: BatchLength
) -> list[FileRange]:
    """Return the ranges, those of one record batch that is larger than a split cut between its rows."""
    cut: list[FileRange] = []
    for part in ranges:
        first = part.first_block
        assert first is not None
        is_large = part.end_block == first + 1 and sizes[first] > split_bytes * _UNEVENNESS
        length = batch_length(part.path, first) if is_large else None
        if not length:
            cut.append(part)
            continue
        parts = ceil(sizes[first] / split_bytes)
        edges = sorted({i * length // parts // ROW_ALIGNMENT * ROW_ALIGNMENT for i in range(parts)} | {length})
        cut.extend(replace(part, rows=(a, b)) for a, b in pairwise(edges))
    return cut


def _cut(sizes: Sequence[int], parts: int) -> list[tuple[int, int]]:
    """Return at most `parts` contiguous ranges of blocks, none empty, of about the same bytes.

    Blocks of about one size are cut by count: the ranges then differ by one block at most. Where that would make a
    range heavier than its fair share by more than a tenth and a block, they are cut at the bytes.
    """
    blocks = len(sizes)
    parts = min(parts, blocks)
    if parts == 0:  # no record batch: the one range still carries the schema and its checks
        return [(0, 0)]
    ends = [0, *accumulate(sizes)]
    by_count = list(pairwise(i * blocks // parts for i in range(parts + 1)))
    most = _UNEVENNESS * ends[-1] / parts + ends[-1] / blocks
    if max(ends[b] - ends[a] for a, b in by_count) <= most:
        return by_count
    edges = {0, blocks}
    block = 0
    for i in range(1, parts):
        # The edge nearest to the fair share i / parts of the bytes.
        while ends[block + 1] * parts <= i * ends[-1]:
            block += 1
        nearer_above = (ends[block + 1] * parts - i * ends[-1]) < (i * ends[-1] - ends[block] * parts)
        edges.add(block + nearer_above)
    return list(pairwise(sorted(edges)))


def _pack(
    weighed: Sequence[tuple[int, FileRange]], split_bytes: int, open_cost_bytes: int
) -> tuple[tuple[FileRange, ...], ...]:
    """Return Spark's next-fit decreasing packing: a partition is closed by the first range that does not fit."""
    partitions: list[tuple[FileRange, ...]] = []
    current: list[FileRange] = []
    filled = 0
    for weight, part in weighed:
        if current and filled + weight > split_bytes:
            partitions.append(tuple(current))
            current = []
            filled = 0
        current.append(part)
        filled += weight + open_cost_bytes
    if current:
        partitions.append(tuple(current))
    return tuple(partitions)
