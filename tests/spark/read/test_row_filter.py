"""A bound predicate keeps rows of pyarrow batches as SQL does; the oracle is Python's own arithmetic."""

import math
from decimal import Decimal
from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import bound as bound_module
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.expressions import Operator
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.read import row_filter as row_filter_module
from spark_arrow_ipc.spark.read.row_filter import RowFilter, compile_filter, predicate_fields

NUMBERS = pa.record_batch({name: pa.array([-200, 0, 5, 9, None], type_) for name, type_ in (
    ("l", pa.int64()), ("i", pa.int32()), ("b", pa.int16()),
)})  # fmt: skip
FLOATS = pa.record_batch({"x": [1.0, math.nan, None, -0.0, math.inf], "y": [math.nan, math.nan, 1.0, 0.0, 1.0]})
DECIMALS = pa.record_batch({name: pa.array([None if digits is None else Decimal(digits).scaleb(-2) for digits in (0, -(10**18) + 1, -5, None, 5, 10**18 - 1)], pa.decimal128(precision, 2)) for name, precision in (("d", 18), ("e", 19))})  # fmt: skip
STRINGS = pa.record_batch({"s": ["ab", "aba", "", None, "b"]})


def test_each_predicate_has_a_row_and_each_operator_a_kernel():
    assert set(get_args(bound_module.BoundPredicate)) == set(row_filter_module._COMPILE)
    assert set(Operator) == set(row_filter_module._COMPARE) == set(row_filter_module._NAN_COMPARE)


KEPT = [
    # the batch, a predicate, positions of the rows it keeps
    (NUMBERS, "l > 0", [2, 3]),
    (NUMBERS, "NOT l > 0", [0, 1]),
    (NUMBERS, "l BETWEEN 0 AND 5", [1, 2]),
    (NUMBERS, "l IN (5, 9, 7)", [2, 3]),
    (NUMBERS, "l <=> NULL", [4]),
    (NUMBERS, "l = i AND b < 0", [0]),
    (NUMBERS, "l IS NULL OR l = 0", [1, 4]),
    (NUMBERS, "l > 100 OR NULL", []),
    # NaN is equal to itself and greater than all other numbers, and the zeros are equal
    (FLOATS, "x > 1", [1, 4]),
    (FLOATS, "x = 'NaN'", [1]),
    (FLOATS, "x < 'NaN'", [0, 3, 4]),
    (FLOATS, "x = y", [1, 3]),
    (FLOATS, "x <= y", [0, 1, 3]),
    (FLOATS, "x > y", [4]),
    (FLOATS, "x <> y", [0, 4]),
    (FLOATS, "x IN (0D, 1D)", [0, 3]),
    *(
        (DECIMALS, predicate.replace("d", column), rows)
        for column in DECIMALS.schema.names
        for predicate, rows in (
            ("d > 0", [4, 5]),
            ("d <= -0.05", [1, 2]),
            ("d = 0.05", [4]),
            ("d <> 0.05", [0, 1, 2, 5]),
            ("d BETWEEN -0.05 AND 0.05", [0, 2, 4]),
            ("d BETWEEN -0.04 AND 9999999999999999.98", [0, 4]),
            ("d BETWEEN -9999999999999999.99 AND 0", [0, 1, 2]),
            ("d > -10000000000000000 AND d < 10000000000000000", [0, 1, 2, 4, 5]),
            ("NOT d < 0", [0, 4, 5]),
        )
    ),
    (STRINGS, "s LIKE 'a%'", [0, 1]),
    (STRINGS, "s LIKE '%b'", [0, 4]),
    (STRINGS, "s LIKE 'a%a'", [1]),
    (STRINGS, "s LIKE 'ab%ba'", []),
    (STRINGS, "s LIKE 'ab%a'", [1]),
    (STRINGS, "s LIKE '%b%'", [0, 1, 4]),
    (STRINGS, "s < 'ab'", [2]),
]


@pytest.mark.parametrize(("batch", "predicate", "rows"), KEPT, ids=[case[1] for case in KEPT])
def test_rows_are_kept_as_in_sql(batch, predicate, rows):
    kept = compiled(predicate, batch).filter(batch)
    expected = batch.take(pa.array(rows, pa.int64()))
    # repr, since NaN is not equal to itself
    assert repr(expected.to_pylist()) == repr([] if kept is None else kept.to_pylist())


def in_dictionaries(array, form):
    """Return an array as a dictionary array: of its values, of more than its values, or of one value for each row."""
    if form == "distinct":
        return array.dictionary_encode()
    more = [array, pa.nulls(1, array.type), array]
    values = pa.concat_arrays(more if form == "repeated" else [array])
    # The last of equal values, and nulls as indices and as values.
    indices = [len(values) - len(array) + i if i % 2 or array[i].is_valid else None for i in range(len(array))]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), values)


@pytest.mark.parametrize("form", ["distinct", "repeated", "a value a row"])
@pytest.mark.parametrize(("batch", "predicate", "rows"), KEPT, ids=[case[1] for case in KEPT])
def test_rows_of_dictionaries_are_kept_as_others(batch, predicate, rows, form):
    encoded = pa.record_batch([in_dictionaries(column, form) for column in batch.columns], batch.schema.names)
    row_filter = compiled(predicate, batch, encoded.schema)
    expected = repr(batch.take(pa.array(rows, pa.int64())).to_pylist())
    # Slices share a dictionary; the next batch has another.
    for each in (encoded, encoded.slice(1), encoded):
        kept = row_filter.filter(each)
        if each is encoded:
            assert expected == repr([] if kept is None else kept.to_pylist())
    last = batch.slice(len(batch) - 1)
    other = pa.record_batch([in_dictionaries(column, form) for column in last.columns], batch.schema.names)
    kept = row_filter.filter(other)
    assert (len(batch) - 1 in rows) == (kept is not None)


def test_a_predicate_is_evaluated_once_for_each_value(monkeypatch):
    """As soon as there were as many rows as values."""
    lengths = []
    starts_with = pc.starts_with
    monkeypatch.setattr(
        pc, "starts_with", lambda array, prefix: lengths.append(len(array)) or starts_with(array, prefix)
    )
    batch = pa.record_batch({"s": pa.array(["ab", "b"] * 50).dictionary_encode()})
    row_filter = compiled("s LIKE 'a%'", pa.record_batch({"s": ["ab"]}), batch.schema)
    pieces = [batch.slice(0, 1), batch, batch.slice(50), pa.record_batch({"s": pa.array(["ac"]).dictionary_encode()})]
    assert [1, 50, 25, 1] == [row_filter.filter(each).num_rows for each in pieces]
    assert lengths == [1, 3, 2]  # a row, both values and null, the value of another dictionary and null


def test_a_value_that_a_function_refuses_matters_only_in_rows():
    values = pa.array(["ab", "ä"])
    batch, other = (
        pa.record_batch({"s": pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), values)})
        for indices in ([0, 0], [0, 1])
    )
    row_filter = compiled("upper(s) = 'AB'", pa.record_batch({"s": values}), batch.schema)
    assert 2 == row_filter.filter(batch).num_rows
    with pytest.raises(OptionError, match="upper"):
        row_filter.filter(other)


def test_types_that_nothing_compares_with():
    schema = s.StructType(
        [
            s.StructField("c", s.StringType("UTF8_LCASE")),
            s.StructField("v", s.VariantType()),
            s.StructField("g", s.GeometryType(4326)),
            s.StructField("n", s.StructType([s.StructField("c", s.StringType("UNICODE"))])),
        ]
    )
    fields = predicate_fields(schema)
    for predicate in ("c = 'a'", "c IN ('a')", "c LIKE 'a%'", "n.c < 'a'", "v = 1", "g = 'a'"):
        with pytest.raises(OptionError, match=r"string collate UTF8_LCASE|UNICODE|variant|geometry"):
            bind(parse(predicate), fields)
    assert bind(parse("c IS NULL AND v IS NOT NULL AND g IS NULL"), fields)


def compiled(predicate, batch, schema=None, **options):
    bound = bind(parse(predicate), bridge.schema_from_pyarrow(batch.schema).fields)
    return compile_filter(bound, schema or batch.schema, **options)


def test_nothing_is_copied_where_all_rows_match():
    assert compiled("l IS NULL OR l <> 7", NUMBERS).filter(NUMBERS) is NUMBERS
    assert compiled("TRUE", NUMBERS).filter(NUMBERS) is NUMBERS


def test_without_a_matching_row_there_is_no_batch():
    assert compiled("l = 7", NUMBERS).filter(NUMBERS) is None
    assert compiled("NULL", NUMBERS).filter(NUMBERS) is None
    assert compiled("TRUE", NUMBERS).filter(NUMBERS.slice(0, 0)) is None


def test_columns_after_the_output_are_dropped():
    row_filter = compiled("b = 5", NUMBERS, output=2)
    assert row_filter.schema.names == ["l", "i"]
    assert row_filter.filter(NUMBERS).to_pydict() == {"l": [5], "i": [5]}
    assert compiled("b > -200", NUMBERS.slice(0, 4), output=1).filter(NUMBERS.slice(0, 4)).schema.names == ["l"]
    none = compiled("b = 5", NUMBERS, output=0).filter(NUMBERS)
    assert (none.num_rows, none.num_columns) == (1, 0)


def test_a_struct_may_be_there_once_more_for_the_predicate():
    whole = pa.array([{"x": 1, "y": 2}, {"x": 3, "y": 4}, None])
    batch = pa.record_batch([pa.array([{"x": 1}, {"x": 3}, None]), whole], ["n", "n again"])
    bound = bind(parse("n.y > 2"), [t.field("n", bridge.type_from_pyarrow(whole.type))])
    kept = compile_filter(bound, batch.schema, output=1, positions={"n": 1}).filter(batch)
    assert kept.to_pydict() == {"n": [{"x": 3}]}


def test_a_hint_that_keeps_most_rows_is_asked_of_few_batches():
    batch = pa.RecordBatch.from_pydict({"k": [1, 2, 3, 4]})
    asked = []

    def mask(of):
        asked.append(of)
        return pa.array([True, True, True, False])

    kept = RowFilter(mask, None, batch.schema, required=lambda _: pa.scalar(value=True))
    assert all(kept.filter(batch) is batch for _ in range(40))
    assert len(asked) == 4 + 40 // 8  # the first four, and one in eight


def test_a_hint_that_keeps_few_rows_drops_the_others():
    batch = pa.RecordBatch.from_pydict({"k": [1, 2, 3, 4]})
    kept = RowFilter(
        lambda _: pa.array([True, False, False, None]), None, batch.schema, required=lambda _: pa.scalar(value=True)
    )
    assert kept.filter(batch).to_pydict() == {"k": [1]}
