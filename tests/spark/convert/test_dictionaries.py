"""Dictionary columns have the same values, whether they are expanded at once or after rows were filtered and grouped."""

import datetime as dt
import decimal

import pyarrow as pa
import pytest
from convert_batches import DEFAULT, asked, batch_of
from pyspark.sql import types as s

from spark_arrow_ipc.ipc.constants import Validation
from spark_arrow_ipc.spark.convert import compile_converter, expand, expanded_type, pyarrow_schema
from spark_arrow_ipc.spark.convert.dictionaries import is_same
from spark_arrow_ipc.spark.options.read_options import ReadOptions

INSTANTS = pa.array([1, 2, None], pa.timestamp("ms", "UTC"))
CASES = {
    # the dictionary's values, and the Spark type
    "strings": (pa.array(["a", None, "a"]), s.StringType()),
    "large strings": (pa.array(["a", "bc", ""], pa.large_string()), s.StringType()),
    "unsigned": (pa.array([1, 2**63, None], pa.uint64()), s.DecimalType(20, 0)),
    "decimals": (pa.array([decimal.Decimal("1.5"), None]), s.DecimalType(2, 1)),
    "instants": (INSTANTS, s.TimestampType()),
    "days": (pa.array([dt.date(2024, 1, 1)]), s.DateType()),
    "wider": (pa.array([1, -2], pa.int8()), s.LongType()),
    "booleans": (pa.array([True, None]), s.BooleanType()),
    "lists": (pa.array([[1, None], [], None], pa.list_(pa.int32())), s.ArrayType(s.IntegerType())),
}


@pytest.mark.parametrize("index", [pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64()], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_columns_expanded_at_once(case, index):
    values, target = CASES[case]
    indices = pa.array([0, None, len(values) - 1, 0, len(values) // 2], index)
    batch = batch_of(pa.DictionaryArray.from_arrays(indices, values))
    schema = s.StructType([asked(target)])
    expected = pyarrow_schema(schema)
    (now,) = compile_converter(batch.schema, schema, DEFAULT).convert(batch)
    converter = compile_converter(batch.schema, schema, DEFAULT, expands=False)
    (late,) = converter.convert(batch)
    assert (now.schema, converter.schema) == (expected, late.schema)
    assert pa.types.is_dictionary(late.schema.types[0])
    assert (late.schema.types[0].index_type, expanded_type(late.schema.types[0])) == (index, expected.types[0])
    for each, whole in ((late, now), (late.slice(1, 3), now.slice(1, 3)), (late.slice(5), now.slice(5))):
        assert whole.column(0).equals(expand(each.column(0)))


@pytest.mark.parametrize("options", [ReadOptions(memory_map=True), ReadOptions(validation=Validation.STRUCTURAL)])
def test_indices_that_nobody_has_checked_are_expanded_at_once(options):
    batch = batch_of(pa.array(["a", "b"]).dictionary_encode())
    schema = s.StructType([asked(s.StringType())])
    assert compile_converter(batch.schema, schema, options, expands=False).schema == pyarrow_schema(schema)


def test_other_columns_and_dictionaries_below_them_are_as_they_were():
    encoded = pa.array(["a", "b"]).dictionary_encode()
    for array, target in (
        (pa.array(["a", "b"]), s.StringType()),
        (pa.StructArray.from_arrays([encoded], ["x"]), s.StructType([s.StructField("x", s.StringType())])),
    ):
        batch, schema = batch_of(array), s.StructType([asked(target)])
        (late,) = compile_converter(batch.schema, schema, DEFAULT, expands=False).convert(batch)
        assert late.schema == pyarrow_schema(schema)
        assert expand(late.column(0)) is not None
        assert array.to_pylist() == late.column(0).to_pylist()


def test_a_dictionary_is_the_same_in_all_batches_of_it():
    one, other = pa.array(["a", "b"]).dictionary_encode(), pa.array(["a", "b"]).dictionary_encode()
    assert is_same(one.dictionary, one.slice(1).dictionary)
    assert not is_same(one.dictionary, other.dictionary)
    assert not is_same(one.dictionary, one.dictionary.slice(1))
