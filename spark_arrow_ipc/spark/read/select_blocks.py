"""`select_blocks`: which record batches of an open file a task decodes.

Strategy
--------
Statistics say of each record batch which truths the option `where` may have in it. Where it can be true of no row, the
batch is skipped. Where it is true of every row, or there is no predicate, whoever can answer without the rows is asked
(`Answers`), and what is answered is skipped, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.predicate.prune import TRUE
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.scan import SelectBlocks
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics, file_statistics

if TYPE_CHECKING:
    from spark_arrow_ipc.spark.read.where import RowSelection


class Answers(Protocol):
    """Who can answer without the rows."""

    @property
    def need_statistics(self) -> bool:
        """Whether they may use the statistics of files; without a predicate others are not read."""

    def answer(
        self,
        reader: ipc.FileReader,
        part: FileRange,
        fields: Sequence[Field],
        statistics: BlockStatistics | None,
        numbers: Sequence[int],
    ) -> frozenset[int]:
        """Return the record batches that need not be decoded. Called once for each range.

        Parameters
        ----------
        reader, part
            An open file, and the range of it that is read.
        fields
            The partition columns.
        statistics
            Of the file, whose headers have been verified with them; None without any.
        numbers
            The record batches of which all rows are wanted.
        """


def select_blocks(selection: RowSelection | None, fields: Sequence[Field], answers: Answers | None) -> SelectBlocks:
    """Return what selects the record batches of a file for `scan`.

    Parameters
    ----------
    selection
        The option `where`.
    fields
        The partition columns.
    answers
        Who can answer without the rows.
    """

    def select(reader: ipc.FileReader, part: FileRange) -> Callable[[int], bool] | None:
        numbers = range(part.start or 0, len(reader) if part.stop is None else part.stop)
        needs = selection is not None or (answers is not None and answers.need_statistics)
        statistics = file_statistics(reader, numbers) if needs else None
        if answers is None and statistics is None and not (selection is not None and selection.of_blocks):
            return None
        wanted: Sequence[int] = numbers
        whole: Sequence[int] = numbers
        if selection is not None:
            may_be = selection.block_truths(reader, statistics, part, fields)
            truths = {i: may_be(i) for i in numbers}
            wanted = [i for i in numbers if truths[i] & TRUE]
            whole = [i for i in wanted if truths[i] == TRUE]
        answered = frozenset() if answers is None else answers.answer(reader, part, fields, statistics, whole)
        return frozenset(wanted).difference(answered).__contains__

    return select
