"""The final step of a read filters rows, adds metadata columns and reorders columns."""

import itertools

import pyarrow as pa
import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.read_blocks import ScannedBatch
from spark_arrow_ipc.spark.convert import pyarrow_schema
from spark_arrow_ipc.spark.read.columns import METADATA_COLUMNS, RowsOf, metadata_schema
from spark_arrow_ipc.spark.read.reader import compile_output
from spark_arrow_ipc.spark.read.where import Where

OWN = s.StructType([s.StructField("a", s.LongType()), s.StructField("b", s.StringType())])
EXTRA = s.StructType([s.StructField("c", s.LongType())])
BLOCK = next(field for field in metadata_schema().fields if field.name == "_block")
VALUES = {"a": [1, 2, 3], "b": ["x", None, "z"], "c": [10, 20, 30], "_block": [7, 7, 7]}
ROWS = RowsOf(FileRange("/a.arrow", 1, 1), 0, ScannedBatch(RecordBatch(Schema(()), (), 3), 7, 0, (3,)), 0, 3)


def batch_of(schema):
    if not schema.fields:  # only a struct array has rows without fields
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), 3, [None]))
    return pa.RecordBatch.from_pydict({name: VALUES[name] for name in schema.names}, pyarrow_schema(schema))


def finish(asked, where=None, *, is_encoded=False, expands=True):
    """Spark's batch of a converted one, for a schema with columns of OWN and perhaps `_block`."""
    schema = s.StructType([BLOCK if name == "_block" else OWN[name] for name in asked])
    own = s.StructType([field for field in schema.fields if field.name not in METADATA_COLUMNS])
    added = [name for name in asked if name in METADATA_COLUMNS]
    selection = None
    if where is not None:
        parsed = Where.parse(where, own, metadata=True)
        missing = [path[0] for path in parsed.missing]
        selection = parsed.bind(own, [field for field in (*OWN.fields, *EXTRA.fields) if field.name in missing], None)
    converted = batch_of(s.StructType([*own.fields, *(() if selection is None else selection.extra)]))
    if is_encoded and converted.num_columns:
        converted = pa.record_batch(
            [column.dictionary_encode() for column in converted.columns], converted.schema.names
        )
    batch = compile_output(schema, own, added, converted.schema, selection, expands=expands)(converted, ROWS)
    return converted, pyarrow_schema(schema), batch


ORDERS = [*itertools.permutations(["a", "b", "_block"]), ("b",), ("_block",), ("_block", "a"), ()]
KEPT = [
    # the predicate, positions of the rows that it keeps
    (None, [0, 1, 2]),
    ("a >= 2", [1, 2]),
    ("c > 20", [2]),
    ("b IS NULL", [1]),
    ("a < 10 AND c < 100", [0, 1, 2]),
    ("_row_index = 1", [1]),
    ("_Block = 7 AND _row_index <> 0", [1, 2]),
    ("_row_index < a AND (_block = a OR c = 30)", [2]),
    ("_row_index >= 1 AND c <= 20 AND _file_path = '/a.arrow' AND _block IS NOT NULL", [1]),
]


@pytest.mark.parametrize("order", ORDERS, ids=",".join)
@pytest.mark.parametrize(("where", "kept"), KEPT, ids=[str(case[0]) for case in KEPT])
def test_batches_have_sparks_schema_and_the_rows_that_match(order, where, kept):
    for is_encoded in (False, True) if where or "_block" in order else (False,):
        _, schema, batch = finish(order, where, is_encoded=is_encoded)
        assert schema == batch.schema
        assert len(kept) == batch.num_rows
        assert {name: [VALUES[name][i] for i in kept] for name in order} == batch.to_pydict()
        if is_encoded:
            _, _, encoded = finish(order, where, is_encoded=True, expands=False)
            assert [name != "_block" for name in order] == [pa.types.is_dictionary(t) for t in encoded.schema.types]
            assert (len(kept), batch.to_pydict()) == (encoded.num_rows, encoded.to_pydict())


def test_a_batch_that_needs_nothing_is_not_touched():
    converted, _, batch = finish(["a", "b"])
    assert converted is batch


@pytest.mark.parametrize("order", ORDERS, ids=",".join)
def test_without_a_matching_row_there_is_no_batch(order):
    assert finish(order, "c > 30")[2] is None
