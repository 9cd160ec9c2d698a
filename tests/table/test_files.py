"""Files as columns: joining and selecting them, with statistics of other columns and types."""

import numpy as np
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.statistics.format import Leaf
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.table.files import Files, concat_files


def bounds(name, type_, values):
    struct = Leaf((name,), (0,), type_).field()
    rows = [{"ARROW:null_count:exact": 0, "ARROW:min_value:exact": v, "ARROW:max_value:exact": v} for v in values]
    return RecordBatch.from_pylist([{struct.name: row} for row in rows], Schema.of([struct]))


def files(start, count, statistics=None):
    return Files.of([(f"f{i}.arrow", i, i, i) for i in range(start, start + count)], 1, statistics)


def least(joined):
    """The least value of each file by column, as text; None where it has no statistics."""
    columns = {}
    for field, column in zip(joined.statistics.schema.fields, joined.statistics.columns, strict=True):
        rows = column.to_pylist()
        columns[f"{field.name} {field.type.children[1].type}"] = [
            None if row is None else row["ARROW:min_value:exact"] for row in rows
        ]
    return columns


def test_files_without_statistics_of_a_column_have_nulls():
    parts = [files(0, 2, bounds("a", t.int64, [1, 2])), files(2, 1), files(3, 1, bounds("b", t.utf8, ["x"]))]
    assert {"a int64": [1, 2, None, None], "b utf8": [None, None, None, "x"]} == least(concat_files(parts))


def test_statistics_of_another_type_are_a_column_of_their_own():
    parts = [files(0, 1, bounds("a", t.int32, [1])), files(1, 1, bounds("a", t.int64, [1 << 40]))]
    assert {"a int32": [1, None], "a int64": [None, 1 << 40]} == least(concat_files(parts))


@pytest.mark.parametrize("mask", [[True, True, True], [False, True, False], [False, False, False]])
def test_selected_files_have_their_statistics(mask):
    some = files(0, 3, bounds("a", t.int64, [5, 6, 7])).select(np.array(mask))
    chosen = [i for i in range(3) if mask[i]]
    assert tuple(f"f{i}.arrow" for i in chosen) == some.paths
    assert [5 + i for i in chosen] == least(some)["a int64"]
    assert chosen == some.nbytes.tolist() == some.rows.tolist() == some.crc32.tolist()


def test_statistics_of_another_number_of_files_are_refused():
    with pytest.raises(CommitError, match="expected statistics of 2 files, found 3"):
        files(0, 2, bounds("a", t.int64, [1, 2, 3])).check()


def test_rows_of_a_checkpoint_are_the_files():
    before = files(0, 3, bounds("a", t.int64, [5, 6, 7]))
    after = Files.from_batch(before.to_batch())
    assert before.paths == after.paths
    assert least(before) == least(after)
