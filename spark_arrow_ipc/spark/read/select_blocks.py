"""`select_blocks`: which record batches of an open file a task decodes.

Strategy
--------
Statistics say of each record batch which truths the option `where` may have in it. Where it can be true of no row, the
batch is skipped. Where it is true of every row, or there is no predicate, whoever can answer without the rows is asked
(`AnswerBlocks`), and what is answered is skipped, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.predicate.prune import TRUE
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.scan import SelectBlocks
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics, file_statistics

if TYPE_CHECKING:
    from spark_arrow_ipc.spark.read.where import RowSelection

__all__ = ["AnswerBlocks", "select_blocks"]

AnswerBlocks: TypeAlias = Callable[
    [ipc.FileReader, FileRange, Sequence[Field], BlockStatistics | None, Sequence[int]], frozenset[int]
]
"""Takes an open file, its range, the partition columns, the statistics of the file, and numbers of record batches of
which all rows are wanted. Returns those that need not be decoded. Called once for each range."""


def select_blocks(selection: RowSelection | None, fields: Sequence[Field], answer: AnswerBlocks | None) -> SelectBlocks:
    """Return what selects the record batches of a file for `scan`.

    Parameters
    ----------
    selection
        The option `where`.
    fields
        The partition columns.
    answer
        Answers without the rows.
    """

    def select(reader: ipc.FileReader, part: FileRange) -> Callable[[int], bool] | None:
        numbers = range(part.start or 0, len(reader) if part.stop is None else part.stop)
        statistics = file_statistics(reader, numbers)
        if answer is None and statistics is None:
            return None
        wanted: Sequence[int] = numbers
        whole: Sequence[int] = numbers
        if selection is not None:
            may_be = selection.block_truths(reader, statistics, part, fields)
            truths = {i: may_be(i) for i in numbers}
            wanted = [i for i in numbers if truths[i] & TRUE]
            whole = [i for i in wanted if truths[i] == TRUE]
        answered = frozenset() if answer is None else answer(reader, part, fields, statistics, whole)
        return frozenset(wanted).difference(answered).__contains__

    return select
