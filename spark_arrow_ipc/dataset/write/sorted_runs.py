"""Sort a task's rows within its files, in bounded memory: each file is one sorted run.

Strategy
--------
Rows are held until they reach a number of bytes, sorted, and written as files of their own; then the next run begins. A
batch with more bytes than that is cut between its rows. So a file is sorted as a whole, whatever the task has, and
statistics of its record batches say much. Files of one task may overlap: nothing is merged, which would cost a second
pass over the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from spark_arrow_ipc.arrow.kernels.order import sort_batches
from spark_arrow_ipc.arrow.kernels.slice import batch_nbytes, split_rows
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.dataset.commit_log.recorded_files import StagedFile
from spark_arrow_ipc.dataset.write.staged_file import column_types, remove_staged
from spark_arrow_ipc.dataset.write.staging import Staging
from spark_arrow_ipc.dataset.write.task import TaskOutput


@dataclass(frozen=True, slots=True)
class Order:
    """The order of rows within files.

    Parameters
    ----------
    columns
        Positions of the columns to sort by, the first one first: null before all values, NaN after all numbers, strings
        by their bytes, as Spark sorts.
    nbytes
        Bytes of the rows that are sorted together, uncompressed and without dictionaries; a single row may have more.
    """

    columns: tuple[int, ...]
    nbytes: int


def sorted_runs(batches: Iterable[RecordBatch], order: Order, *, rows: int) -> Iterator[Iterator[RecordBatch]]:
    """Yield runs of sorted batches; consume each before the next.

    Memory: `order.nbytes` and a batch, twice while a run is sorted, and 8 bytes for each of its rows and columns of the
    order. A run also ends where the type of a column changes.

    Parameters
    ----------
    batches
        Of one schema but for the types of columns.
    order
        How to sort.
    rows
        Rows of each batch that is yielded.
    """
    held: list[RecordBatch] = []
    nbytes = 0
    for batch in _pieces(batches, order.nbytes):
        more = batch_nbytes(batch)
        if held and (nbytes + more > order.nbytes or column_types(batch.schema) != column_types(held[0].schema)):
            yield _sorted(held, order, rows)
            held, nbytes = [], 0
        held.append(batch)
        nbytes += more
    if held:
        yield _sorted(held, order, rows)


def _pieces(batches: Iterable[RecordBatch], nbytes: int) -> Iterator[RecordBatch]:
    """Cut batches that are larger than a run, so that no file has more than it; slices share the batch's memory."""
    for batch in batches:
        # By the bytes that runs are counted in: by decoded ones a batch of indices would fall into a piece a row.
        yield from split_rows(batch, max_rows=max(1, batch.num_rows), max_nbytes=nbytes, decoded=False)


def _sorted(batches: Sequence[RecordBatch], order: Order, rows: int) -> Iterator[RecordBatch]:
    return sort_batches(batches, order.columns, rows=rows)


def write_runs(
    staging: Staging,
    runs: Iterable[Iterator[RecordBatch]],
    write: Callable[[Iterator[RecordBatch]], TaskOutput],
) -> TaskOutput:
    """Write each run by a call of `write`, and return the files of all; after any error none remains."""
    files: list[StagedFile] = []
    try:
        for run in runs:
            files += write(run).files
    except BaseException:
        for file in files:
            remove_staged(staging, file.staged)
        raise
    return TaskOutput(staging.jobid, tuple(files))
