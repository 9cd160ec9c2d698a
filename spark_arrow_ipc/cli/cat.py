"""``arrowipc cat``, ``head``, ``tail`` and ``sample``: print rows of files; ``count``: count them.

How it works: only record batches with rows to print are read. `tail` goes from the last file back, and from the end of
each file; `sample` counts rows by headers first. A stream has no index and is read from its start.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.kernels.take import take_rows
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import files, tensors, terminal
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.cli.shared.rows import (
    Chosen,
    add_format_argument,
    add_number_argument,
    add_row_arguments,
    number_of_rows,
    print_rows,
    print_tables,
)
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.errors import ArrowIpcError, FileChangedError, NoTableError, error_context, printable


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    files.add_path_arguments(parser)
    add_format_argument(parser)
    add_row_arguments(parser)


def cat_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc cat``."""
    _add_arguments(parser)
    parser.add_argument(
        "--limit", type=number_of_rows, default=sys.maxsize, metavar="ROWS", help="print at most this number of rows"
    )


def head_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc head``."""
    _add_arguments(parser)
    add_number_argument(parser, dest="limit")


def tail_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc tail``."""
    _add_arguments(parser)
    add_number_argument(parser)


def sample_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc sample``."""
    tail_arguments(parser)
    parser.add_argument(
        "--seed",
        type=number_of_rows,
        metavar="NUMBER",
        help="the same number gives the same rows; by default they differ",
    )


# ---- cat and head


def run_cat(arguments: argparse.Namespace) -> int:
    """Print the rows of all files, one after the other, up to the first error."""
    left = arguments.limit
    chosen = Chosen.of(arguments)
    empty: Schema | None = None
    is_printed = False
    for source in files.list_inputs(arguments, columns=True):
        if not left:
            break
        # Closed at once when enough rows are printed, as its generator holds an open file.
        with error_context(path=source.path), closing(_tables(source, chosen)) as tables:
            for schema, batches in tables:
                if chosen.where is not None:
                    # A head without rows for each file that has no match would bury the rows.
                    rest = iter(batches)
                    batch = next(rest, None)
                    if batch is None:
                        empty = schema
                        continue
                    batches = chain([batch], rest)  # noqa: PLW2901 - the same rows
                is_printed = True
                left -= print_rows(arguments.format, schema, batches, left)
                if not left:
                    break
    if not is_printed and empty is not None:
        print_rows(arguments.format, empty, (), 0)
    return 0


run_head = run_cat


def _tables(source: Input, chosen: Chosen) -> Generator[tuple[Schema, Iterable[RecordBatch]], None, None]:
    """Yield the table of a file, or one of cells for each tensor."""
    try:
        with chosen.open_rows(source) as rows:
            yield rows.schema, rows.batches
    except NoTableError:
        # A predicate needs a schema before the first row, which tensors of one file need not share.
        if not tensors.holds_tensors(source) or chosen.where is not None:
            raise
        yield from tensors.each_table_of_cells(source, chosen.columns)


# ---- tail


def run_tail(arguments: argparse.Namespace) -> int:
    """Print the last rows, in the order of the files."""
    left = arguments.rows
    chosen = Chosen.of(arguments)
    last_rows: list[tuple[Schema, RecordBatch]] = []
    schema = None
    # From the last file back, so that files before the last rows are not opened.
    for source in reversed(list(files.list_inputs(arguments, columns=True))):
        with error_context(path=source.path):
            schema, batches = _last_rows(source, chosen, left)
        last_rows += ((schema, batch) for batch in batches)
        left -= sum(batch.num_rows for batch in batches)
        if not left:
            break
    print_tables(arguments.format, reversed(last_rows), schema)
    return 0


def _last_rows(source: Input, chosen: Chosen, most: int) -> tuple[Schema, list[RecordBatch]]:
    """Return the schema of a file, and the batches of its last rows, the last one first."""

    def backward(reader: ipc.FileReader | ipc.StreamReader) -> Iterable[RecordBatch]:
        return map(reader.read_batch, reversed(range(len(reader)))) if reader.is_numbered else reader

    with chosen.open_rows(source, backward) as rows:
        if rows.reader.is_numbered:
            return rows.schema, list(_from_the_end(rows.batches, most))
        held: deque[RecordBatch] = deque()
        count = 0
        for batch in rows.batches:
            held.append(batch)
            count += batch.num_rows
            # A stream is read once: only batches that may hold the last rows stay in memory.
            while held and count - held[0].num_rows >= most:
                count -= held.popleft().num_rows
        # A list, as the file is closed when this returns.
        return rows.schema, list(_from_the_end(reversed(held), most))


def _from_the_end(batches: Iterable[RecordBatch], most: int) -> Iterator[RecordBatch]:
    """Yield batches from the last one back until they have enough rows, and read no other."""
    for batch in batches:
        if not most:
            return
        rows = min(batch.num_rows, most)
        yield batch.slice(batch.num_rows - rows, rows)
        most -= rows
        if not most:
            return


# ---- sample

# Rows that get their numbers together: 8 MiB
_AT_ONCE = 1 << 20


class RowSample:
    """A sample of `size` rows without replacement, each row with the same chance, in O(size) memory.

    Each row draws a random key, and the rows with the least keys are the sample (a bottom-k sample).
    """

    def __init__(self, size: int, seed: int | None = None) -> None:
        self._size = size
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._keys = np.zeros(0)
        self._rows = np.zeros(0, np.int64)
        self._count = 0

    def add(self, rows: int) -> None:
        """Count the next rows. O(rows)."""
        while rows:
            length = min(rows, _AT_ONCE)
            keys = self._random.random(length)
            # A row whose key is above all keys of a complete sample cannot join it: most rows cost one comparison.
            # Until the sample is complete any key joins it.
            most = self._keys.max() if self._size and len(self._keys) == self._size else np.inf
            chosen = np.flatnonzero(keys < most)
            self._keys = np.concatenate([self._keys, keys[chosen]])
            self._rows = np.concatenate([self._rows, chosen + self._count])
            if len(self._keys) > self._size:
                least = np.argsort(self._keys, kind="stable")[: self._size]
                self._keys, self._rows = self._keys[least], self._rows[least]
            self._count += length
            rows -= length

    def rows(self) -> npt.NDArray[np.int64]:
        """Return the positions of the chosen rows among all rows, rising."""
        # Sorted, so that each file is opened once and read forward.
        return np.sort(self._rows)


def run_sample(arguments: argparse.Namespace) -> int:
    """Print the chosen rows, in the order of the files."""
    chosen = Chosen.of(arguments)
    sources = list(files.list_inputs(arguments, columns=True))
    sample = RowSample(arguments.rows, arguments.seed)
    starts = [0]
    for source in sources:
        with error_context(path=source.path):
            rows = _count_rows(source, chosen)
        # The sample needs only the number of rows, so that record batches are read once, after it.
        sample.add(rows)
        starts.append(starts[-1] + rows)
    numbers = sample.rows()
    if len(numbers):
        print_tables(arguments.format, _sample_rows(sources, starts, numbers, chosen))
        return 0
    with Chosen(chosen.columns).open_rows(sources[0]) as opened:
        print_rows(arguments.format, opened.schema, (), 0)
    return 0


def _sample_rows(
    sources: Sequence[Input], starts: Sequence[int], numbers: npt.NDArray[np.int64], chosen: Chosen
) -> Iterator[tuple[Schema, RecordBatch]]:
    """Yield the rows with the given numbers among the rows of all files, and their schemas."""
    places = np.searchsorted(numbers, starts)
    for source, start, low, high in zip(sources, starts[:-1], places[:-1], places[1:], strict=True):
        # A file without a sampled row is not opened again.
        if low == high:
            continue
        sampled = _Sampled(numbers[low:high] - start)
        # With a predicate only reading tells which batch a row is in.
        batches_of = sampled.batches if chosen.where is None else None
        with error_context(path=source.path), chosen.open_rows(source, batches_of) as opened:
            for batch in sampled.rows(opened.batches):
                yield opened.schema, batch


def _count_rows(source: Input, chosen: Chosen) -> int:
    if chosen.where is None:
        return count(source).rows
    with Chosen((), chosen.where).open_rows(source) as rows:
        return sum(batch.num_rows for batch in rows.batches)


class _Sampled:
    """The sampled rows of one file: the batches to read, and row numbers among them."""

    def __init__(self, numbers: npt.NDArray[np.int64]) -> None:
        self._numbers = numbers

    def batches(self, reader: ipc.FileReader | ipc.StreamReader) -> Iterable[RecordBatch]:
        """Return the record batches to read, which are all of a stream."""
        if not reader.is_numbered:
            return reader
        # Headers have the rows, so that batches without a sampled row are not read.
        lengths = np.array(reader.row_counts(range(len(reader))), np.int64)
        ends = np.cumsum(lengths)
        of_numbers = np.searchsorted(ends, self._numbers, side="right")
        numbers, position = np.unique(of_numbers, return_inverse=True)
        before = np.cumsum(lengths[numbers]) - lengths[numbers]
        # From here on rows are numbered among the batches that are read.
        self._numbers = self._numbers - (ends - lengths)[of_numbers] + before[position]
        return map(reader.read_batch, numbers.tolist())

    def rows(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Yield the sampled rows of those batches."""
        start = 0
        for batch in batches:
            stop = start + batch.num_rows
            of_batch = self._numbers[(self._numbers >= start) & (self._numbers < stop)] - start
            if len(of_batch):
                yield take_rows(batch, of_batch)
            start = stop


# ---- count

# Attempts to count a directory while its files are replaced.
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Count:
    """The number of rows and record batches of one file, or of cells and tensors."""

    path: str
    rows: int
    record_batches: int
    tensors: int = 0


def count_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc count``."""
    files.add_path_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a line for each file, and no total")


def run_count(arguments: argparse.Namespace) -> int:
    """Print the rows of each file and of all; return 1 if one could not be counted."""
    earlier: dict[DataFile, Count] = {}
    for _ in range(_ATTEMPTS):
        # Nothing is printed before all files are counted, as a writer may replace files meanwhile: list them again.
        try:
            counts, errors = _count_all(arguments, earlier)
        except FileChangedError as error:
            changed = error
            continue
        for refusal in errors:
            files.complain(refusal)
        for one in counts:
            print(terminal.json_line(asdict(one)) if arguments.json else f"{one.rows}\t{printable(one.path)}")
        if len(counts) > 1 and not arguments.json:
            print(f"{sum(one.rows for one in counts)}\ttotal")
        return 1 if errors else 0
    # Files were replaced at each attempt: the last error names one.
    raise changed


def _count_all(
    arguments: argparse.Namespace, earlier: dict[DataFile, Count]
) -> tuple[list[Count], list[ArrowIpcError | OSError]]:
    """Count the files of a new listing; `earlier` has the counts of earlier attempts, and gets the new ones."""
    counts: list[Count] = []
    errors: list[ArrowIpcError | OSError] = []
    for source in files.list_inputs(arguments, refused=lambda _, error: errors.append(error)):
        try:
            # A file that did not change meanwhile is not counted again.
            result = earlier.get(source.file) if source.file is not None else None
            if result is None:
                result = count(source)
        # `run_count` lists the files again.
        except FileChangedError:
            raise
        except (ArrowIpcError, OSError) as error:
            errors.append(error)
            continue
        if source.file is not None:
            earlier[source.file] = result
        counts.append(result)
    return counts, errors


def count(source: Input) -> Count:
    """Count the rows of a file or stream, or the cells of tensors, by headers."""
    try:
        return _count_table(source)
    except NoTableError:
        if not tensors.holds_tensors(source):
            raise
    with tensors.open_tensors(source) as stored:
        cells = list(map(tensors.count_cells, stored))
    return Count(source.path, sum(cells), 0, len(cells))


def _count_table(source: Input) -> Count:
    if source.is_served:
        with Chosen(()).open_rows(source) as served:
            lengths = [batch.num_rows for batch in served.batches]
        return Count(source.path, sum(lengths), len(lengths))
    with ipc.open(source.openable(), columns=[]) as reader:
        rows = batches = 0
        for batch in reader.read_headers():
            rows, batches = rows + batch.rows, batches + 1
    return Count(source.path, rows, batches)
