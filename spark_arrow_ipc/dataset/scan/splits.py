"""Plan input partitions: cut large files between blocks, pack small files.

How it works: Spark's arithmetic (``FilePartition.maxSplitBytes`` and ``getFilePartitions``) gives the bytes of a split from
the sizes of all files. Metadata are read of the files that are larger than a split, or with a predicate of all files, if
they are few. Files are cut between record batches. A record batch that is larger than a split is cut between its rows, if
they can be read separately. Ranges and small files are then packed, the largest first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import ceil
from operator import itemgetter
from typing import Final, TypeAlias

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.scan.file_metadata import FileMetadata, MetadataCache
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.errors import FileChangedError, InvalidArrowError, NoTableError, NoTensorError
from spark_arrow_ipc.ipc.columns.row_ranges import ROW_ALIGNMENT
from spark_arrow_ipc.ipc.stream_index import StreamIndex

MAX_PARTITION_BYTES: Final = 128 << 20
"""Most bytes of an input partition: the default of ``spark.sql.files.maxPartitionBytes``."""

OPEN_COST_BYTES: Final = 4 << 20
"""Estimated cost of opening a file, in bytes read in the same time: the default of ``spark.sql.files.openCostInBytes``."""

_MOST_OPENED: Final = 1_000
"""Most files whose metadata are read for a predicate on the driver: about 2 ms each."""

_LEAST_SHARE: Final = 1 / 16
"""Least share of a file's bytes in the arithmetic, since each record batch has a fixed cost."""

_UNEVENNESS: Final = 1.1
"""A range of an equal number of record batches may have this many times its fair share of bytes."""


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """The sizes of input partitions; ValueError if one is not positive (`open_cost_bytes`: negative)."""

    max_partition_bytes: int = MAX_PARTITION_BYTES  # most bytes of a partition; a single record batch may exceed it
    # estimated cost of opening a file, in bytes that could be read in the same time
    open_cost_bytes: int = OPEN_COST_BYTES
    # number of partitions to aim at if there are enough bytes; the CPUs of this machine by default
    min_partitions: int | None = None

    def __post_init__(self) -> None:
        for name, value, least in (
            ("max_partition_bytes", self.max_partition_bytes, 1),
            ("open_cost_bytes", self.open_cost_bytes, 0),
            ("min_partitions", 1 if self.min_partitions is None else self.min_partitions, 1),
        ):
            if value < least:
                raise ValueError(f"{name}: expected at least {least}, found {value}")

    def split_bytes(self, total: int) -> int:
        """Return the bytes of a split; `total` has the bytes of all files and the cost of opening them."""
        aim = (os.cpu_count() or 1) if self.min_partitions is None else self.min_partitions
        # Rounded up: one byte less would cut a single file into one range too many.
        return max(1, min(self.max_partition_bytes, max(self.open_cost_bytes, -(-total // aim))))


_DEFAULT_OPTIONS: Final = SplitOptions()


def cut_above(split_bytes: int, share: float = 1.0) -> int:
    """Return the size up to which nothing is cut, if `share` of all bytes is read."""
    return int(split_bytes / share) - 1  # one byte less, since the division rounds


SelectedSizes: TypeAlias = Callable[[FileMetadata, DataFile], "Sequence[int] | None"]
"""Returns the bytes of each record batch, 0 for those that cannot match; None without statistics."""


def split_files(
    files: Sequence[DataFile],
    options: SplitOptions,
    cache: MetadataCache,
    selected_sizes: SelectedSizes | None = None,
    *,
    skips_broken: bool = False,
) -> tuple[tuple[FileRange, ...], ...]:
    """Read the metadata that a plan needs, and return the file ranges of each input partition."""
    selected: Mapping[str, Sequence[int]] = {}
    if selected_sizes is not None and len(files) <= _MOST_OPENED:
        share = _share(files, cache, cut_above(options.split_bytes(0)), options)
        selected = _select_blocks(files, options, cache, selected_sizes, share)
    else:
        large, most = larger_than_split(files, options)
        share = _share(files, cache, most, options)
        if share < 1:
            large, most = larger_than_split(files, options, share=share)
        cache.read_all(large, cut_above=most)
    return plan_splits(
        files, options, metadata=cache.by_path, selected=selected, share=share, skips_broken=skips_broken
    )


def _share(files: Sequence[DataFile], cache: MetadataCache, cut_above: int, options: SplitOptions) -> float:
    """Return the share of bytes that is read, estimated from the first record batch of the largest file; 1 if unknown."""
    largest = max(files, key=lambda file: file.nbytes, default=None)
    if largest is None or largest.nbytes <= options.open_cost_bytes:
        return 1.0
    return max(_LEAST_SHARE, cache.read(largest, cut_above=cut_above, with_share=True).projected_share)


def _select_blocks(
    files: Sequence[DataFile], options: SplitOptions, cache: MetadataCache, selected_sizes: SelectedSizes, share: float
) -> dict[str, Sequence[int]]:
    """Read metadata, and return `selected` for `plan_splits`, of files with statistics."""
    selected: dict[str, Sequence[int]] = {}
    total = 0

    def read(file: DataFile) -> None:
        nonlocal total
        # The bytes of a split rise with the selected bytes of all files, so the sum of the files so far gives a lower bound.
        # If two threads add at once one sum may be lost, which is still a lower bound.
        metadata = cache.read(file, cut_above=cut_above(options.split_bytes(total), share))
        sizes = selected_sizes(metadata, file)
        if sizes is not None:
            selected[file.path] = sizes
        nbytes = ceil(share * (file.nbytes if sizes is None else sum(sizes)))
        if nbytes:
            total += nbytes + options.open_cost_bytes

    cache.each_file(read, files)
    return selected


def larger_than_split(
    files: Sequence[DataFile], options: SplitOptions = _DEFAULT_OPTIONS, *, share: float = 1.0
) -> tuple[list[DataFile], int]:
    """Return the files whose metadata `plan_splits` needs, and their `cut_above`."""
    sizes = [file.nbytes if share == 1 else ceil(share * file.nbytes) for file in files]
    split_bytes = options.split_bytes(sum(sizes) + len(sizes) * options.open_cost_bytes)
    large = [file for file, nbytes in zip(files, sizes, strict=True) if nbytes > split_bytes]
    return large, cut_above(split_bytes, share)


def plan_splits(
    files: Sequence[DataFile],
    options: SplitOptions = _DEFAULT_OPTIONS,
    *,
    metadata: Mapping[str, FileMetadata],
    selected: Mapping[str, Sequence[int]] | None = None,
    share: float = 1.0,
    skips_broken: bool = False,
) -> tuple[tuple[FileRange, ...], ...]:
    """Return the file ranges of each input partition."""
    # splitBytes = min(maxPartitionBytes, max(openCost, totalBytes / minPartitionNum)), where totalBytes has openCost for
    # each file.
    sized = [(file, selected.get(file.path) if selected else None) for file in files]
    weights = [(file, sizes, ceil(share * (file.nbytes if sizes is None else sum(sizes)))) for file, sizes in sized]
    if selected:
        weights = [row for row in weights if row[1] is None or row[2]]
    split_bytes = options.split_bytes(sum(nbytes + options.open_cost_bytes for *_, nbytes in weights))
    weighed: list[tuple[int, FileRange]] = []
    for file, sizes, nbytes in weights:
        if sizes is None and nbytes > split_bytes:
            sizes = _sizes(metadata[file.path], skips_broken=skips_broken)  # noqa: PLW2901
        if sizes is None:
            weighed.append((nbytes, _range_of(file)))
            continue
        of_file = metadata.get(file.path, _UNKNOWN)
        # So that each range fits a split with the cost of opening it.
        parts = -(-(nbytes + options.open_cost_bytes) // split_bytes) if nbytes > split_bytes else 1
        ranges = _ranges(file, sizes, parts, of_file.stream)
        if of_file.block_rows:
            ranges = _cut_batches(ranges, sizes, split_bytes / share, of_file.block_rows)
        # All ranges of a file weigh the same, so that sorting by weight leaves them in the order of its rows.
        weight = -(-nbytes // max(1, len(ranges)))
        weighed.extend((weight, part) for part in ranges)
    weighed.sort(key=itemgetter(0), reverse=True)  # stable, so that equal weights keep the order of `files`
    return _pack(weighed, split_bytes, options.open_cost_bytes)


_UNKNOWN: Final = FileMetadata()


def _range_of(file: DataFile) -> FileRange:
    # 100,000 times: a third of the time of a call with keywords.
    path, nbytes, mtime_ns, partition, version = file
    return tuple.__new__(FileRange, (path, nbytes, mtime_ns, None, None, partition, None, None, version, None))


def _sizes(metadata: FileMetadata, *, skips_broken: bool) -> Sequence[int] | None:
    """Return the bytes of each record batch of a large file; None if it is not cut."""
    if metadata.error is not None:
        if skips_broken and isinstance(
            metadata.error, InvalidArrowError | NoTableError | NoTensorError | FileChangedError
        ):
            return None
        raise metadata.error
    if metadata.stream is not None:
        return [batch.block.nbytes for batch in metadata.stream.batches]
    return metadata.block_nbytes


def _ranges(file: DataFile, sizes: Sequence[int], parts: int, stream: StreamIndex | None) -> list[FileRange]:
    """Return at most `parts` ranges, without skipped record batches at either end."""
    start = next((i for i, nbytes in enumerate(sizes) if nbytes), 0)
    stop = next((i + 1 for i in reversed(range(len(sizes))) if sizes[i]), 0)
    return [
        _range_of(file)._replace(
            start=start + first,
            stop=start + end,
            stream_start=stream.start(start + first) if stream and first < end else None,
        )
        for first, end in _cut(sizes[start:stop], parts)
    ]


def _cut_batches(
    ranges: list[FileRange], sizes: Sequence[int], split_bytes: float, block_rows: Mapping[int, int]
) -> list[FileRange]:
    """Cut ranges of one record batch that is larger than a split between its rows."""
    cut: list[FileRange] = []
    for part in ranges:
        first = part.start
        assert first is not None
        is_large = part.stop == first + 1 and sizes[first] > split_bytes * _UNEVENNESS
        length = block_rows.get(first) if is_large else None
        if not length:
            cut.append(part)
            continue
        parts = ceil(sizes[first] / split_bytes)
        edges = sorted({i * length // parts // ROW_ALIGNMENT * ROW_ALIGNMENT for i in range(parts)} | {length})
        cut.extend(part._replace(rows=(a, b)) for a, b in pairwise(edges))
    return cut


def _cut(sizes: Sequence[int], parts: int) -> list[tuple[int, int]]:
    """Return at most `parts` contiguous ranges of blocks of about the same bytes."""
    blocks = len(sizes)
    parts = min(parts, blocks)
    if parts == 0:  # no record batch: one range still checks the file
        return [(0, 0)]
    ends = [0, *accumulate(sizes)]
    by_count = list(pairwise(i * blocks // parts for i in range(parts + 1)))
    # Blocks of about one size are cut by count, so that ranges differ by one block at most. Where that would make a range
    # heavier than its fair share by more than a tenth and a block, they are cut at the bytes.
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
    """Pack ranges as Spark does: the first one that does not fit closes a partition."""
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
