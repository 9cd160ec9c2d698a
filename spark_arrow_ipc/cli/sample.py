"""``arrowipc sample``: print rows at random, the same ones for the same seed.

Strategy
--------
Rows are counted first, by headers, or by reading what ``--where`` needs. Then the record batches that hold chosen
rows are read. So a sample costs little memory, and is in the order of the files.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.kernels.sample import RowSample
from spark_arrow_ipc.arrow.kernels.take import take_rows
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.count import count
from spark_arrow_ipc.cli.shared import inputs
from spark_arrow_ipc.cli.shared.inputs import Input
from spark_arrow_ipc.cli.shared.print_rows import add_format_argument, print_rows, print_tables
from spark_arrow_ipc.cli.shared.rows import Chosen, add_number_argument, add_row_arguments, each_given, number_of_rows
from spark_arrow_ipc.errors import error_context


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc sample``."""
    inputs.add_path_arguments(parser)
    add_format_argument(parser)
    add_row_arguments(parser)
    add_number_argument(parser)
    parser.add_argument(
        "--seed",
        type=number_of_rows,
        metavar="NUMBER",
        help="the same number gives the same rows; by default they differ",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the chosen rows, in the order of the files."""
    chosen = Chosen.of(arguments)
    given = list(each_given(arguments))
    sample = RowSample(arguments.rows, arguments.seed)
    starts = [0]
    for one in given:
        with error_context(path=one.path):
            rows = _count(one, chosen)
        sample.add(rows)
        starts.append(starts[-1] + rows)
    numbers = sample.rows()
    if not len(numbers):
        with inputs.open_rows(given[0], chosen.columns) as opened:
            print_rows(arguments.format, opened.schema, (), 0)
        return 0
    print_tables(arguments.format, _chosen_rows(given, starts, numbers, chosen))
    return 0


def _chosen_rows(
    given: Sequence[Input], starts: Sequence[int], numbers: npt.NDArray[np.int64], chosen: Chosen
) -> Iterator[tuple[Schema, RecordBatch]]:
    """Yield the chosen rows, whose numbers count over all files, and their schemas."""
    places = np.searchsorted(numbers, starts)
    for one, start, first, last in zip(given, starts[:-1], places[:-1], places[1:], strict=True):
        if first == last:
            continue
        picked = _Picked(numbers[first:last] - start)
        batches_of = picked.batches if chosen.where is None else iter
        with error_context(path=one.path), inputs.open_rows(one, chosen.columns, batches_of, chosen.where) as opened:
            for batch in picked.rows(opened.batches):
                yield opened.schema, batch


def _count(given: Input, chosen: Chosen) -> int:
    if chosen.where is None:
        return count(given).rows
    with inputs.open_rows(given, [], where=chosen.where) as rows:
        return sum(batch.num_rows for batch in rows.batches)


class _Picked:
    """The record batches of a file that hold chosen rows, and the rows by their numbers among those batches."""

    def __init__(self, numbers: npt.NDArray[np.int64]) -> None:
        self._numbers = numbers

    def batches(self, reader: ipc.FileReader | ipc.StreamReader) -> Iterable[RecordBatch]:
        """Return the record batches to read; a stream is read whole."""
        if not isinstance(reader, ipc.FileReader):
            return reader
        lengths = np.array(reader.row_counts(range(len(reader))), np.int64)
        ends = np.cumsum(lengths)
        of_numbers = np.searchsorted(ends, self._numbers, side="right")
        wanted, place = np.unique(of_numbers, return_inverse=True)
        before = np.cumsum(lengths[wanted]) - lengths[wanted]
        self._numbers = self._numbers - (ends - lengths)[of_numbers] + before[place]
        return map(reader.read_batch, wanted.tolist())

    def rows(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Yield the chosen rows of those batches."""
        start = 0
        for batch in batches:
            stop = start + batch.num_rows
            own = self._numbers[(self._numbers >= start) & (self._numbers < stop)] - start
            if len(own):
                yield take_rows(batch, own)
            start = stop
