"""Statistics of record batches: what is gathered, how it comes back, and that a broken one is never believed."""

import base64
import decimal
import io
import json
import random
import warnings

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.statistics import format as f
from spark_arrow_ipc.dataset.statistics.collect import Statistics, StatisticsCollector
from spark_arrow_ipc.dataset.statistics.min_max import summarise
from spark_arrow_ipc.dataset.statistics.prune_blocks import block_filter
from spark_arrow_ipc.dataset.statistics.read import StatisticsWarning, read_statistics


def gathered(batches, which=Statistics.AUTO, file_nbytes=0):
    collector = StatisticsCollector(batches[0].schema, which)
    for batch in batches:
        collector.add(batch, file_nbytes)
    return collector.pair(file_nbytes)


def batch_of(type_, *values):
    schema = Schema.of([t.field("a", type_)])
    return RecordBatch.from_pylist([{"a": value} for value in values], schema)


def column_of(type_, *blocks):
    """Return the statistics of one column, through a file's pair and back."""
    batches = [batch_of(type_, *block) for block in blocks]
    statistics = read_statistics((gathered(batches),), batches[0].schema, len(blocks))
    assert statistics is not None
    assert tuple(map(len, blocks)) == statistics.row_counts
    return statistics.columns[("a",)]


NAN = float("nan")
BOUNDS = [
    ("int", t.int16, (3, None, -4), -4, 3),
    ("uint64", t.uint64, (2**64 - 1, 0), 0, 2**64 - 1),
    ("bool", t.bool_, (False, None, True), 0, 1),
    ("float16", t.float16, (1.5, NAN, -2.0), -2.0, 1.5),
    ("negative_zero", t.float64, (-0.0, -0.0), 0.0, 0.0),
    ("infinities", t.float32, (float("inf"), float("-inf"), NAN), float("-inf"), float("inf")),
    ("decimal32", t.Decimal(5, 2, 32), (decimal.Decimal("-1.5"), decimal.Decimal(2)), -150, 200),
    ("decimal128", t.Decimal(38, 0), (10**37, -1, None, -(10**37)), -(10**37), 10**37),
    ("decimal256", t.Decimal(76, 0, 256), (10**75, -(10**75), 5), -(10**75), 10**75),
    ("date", t.date32, (5, -5), -5, 5),
    ("date64", t.date64, (86_400_000, 0), 0, 86_400_000),
    ("time", t.Time(t.TimeUnit.NANOSECOND, 64), (5, 1), 1, 5),
    ("timestamp", t.Timestamp(t.TimeUnit.NANOSECOND, "UTC"), (-1, 7), -1, 7),
    ("duration", t.Duration(t.TimeUnit.SECOND), (1, 2), 1, 2),
    ("months", t.IntervalYearMonth(), (1, 2), 1, 2),
    ("text_by_unsigned_bytes", t.utf8, ("z", "ä", "Z"), b"Z", "ä".encode()),
    ("large_text", t.large_utf8, ("b", "a"), b"a", b"b"),
    ("text_view", t.utf8_view, ("b" * 20, "b" * 19, "a"), b"a", b"b" * 20),
    ("empty_text", t.utf8, ("", "a"), b"", b"a"),
    ("binary_with_zeros", t.binary, (b"a\0", b"a", b"a\0\0"), b"a", b"a\0\0"),
    ("fixed_width", t.FixedSizeBinary(3), (b"abc", b"abd"), b"abc", b"abd"),
    ("dictionary", t.dictionary(t.int8, t.utf8), ("b", None, "a", "b"), b"a", b"b"),
    ("runs", t.run_end_encoded(t.int32, t.int64), (5, 5, None, 7), 5, 7),
    ("all_null", t.int32, (None, None), None, None),
    ("no_rows", t.int32, (), None, None),
    ("all_nan", t.float64, (NAN, None), None, None),
]


@pytest.mark.parametrize(
    ("type_", "values", "least", "greatest"), [pytest.param(*case[1:], id=case[0]) for case in BOUNDS]
)
def test_bounds_go_through_a_file_and_back(type_, values, least, greatest):
    found = column_of(type_, values)
    assert ([least], [greatest]) == (list(found.least), list(found.greatest))
    assert [values.count(None)] == list(found.null_counts)
    if isinstance(type_, t.FloatingPoint):
        assert [sum(value is not None and value != value for value in values)] == list(found.nan_counts)
        assert str(least) == str(found.least[0])


CUTS = [
    ("short", t.utf8, "a" * 64, b"a" * 64, True, b"a" * 64, True),
    ("long", t.utf8, "a" * 65, b"a" * 64, False, b"a" * 63 + b"b", False),
    ("at_a_code_point", t.utf8, "a" * 63 + "äx", b"a" * 63, False, b"a" * 62 + b"b", False),
    ("before_the_surrogates", t.utf8, "\ud7ff" * 30, ("\ud7ff" * 21).encode(), False, ("\ud7ff" * 20 + "\ue000").encode(), False),
    ("last_code_point", t.utf8, "\U0010ffff" * 20, ("\U0010ffff" * 16).encode(), False, None, False),
    ("last_code_points_behind_another", t.utf8, "a" + "\U0010ffff" * 20, ("a" + "\U0010ffff" * 15).encode(), False, b"b", False),
    ("bytes", t.binary, b"\xff" * 63 + b"\x01" * 5, b"\xff" * 63 + b"\x01", False, b"\xff" * 63 + b"\x02", False),
    ("last_bytes", t.binary, b"\xff" * 70, b"\xff" * 64, False, None, False),
    ("wide_fixed_width", t.FixedSizeBinary(70), b"a" * 70, b"a" * 64, False, b"a" * 63 + b"b", False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "value", "least", "least_exact", "greatest", "greatest_exact"),
    [pytest.param(*case[1:], id=case[0]) for case in CUTS],
)
def test_long_values_are_cut_to_bounds(type_, value, least, least_exact, greatest, greatest_exact):
    found = column_of(type_, (value,))
    assert (least, greatest) == (found.least[0], found.greatest[0])
    assert least_exact is found.least_exact[0]
    assert greatest_exact is (found.greatest_exact[0] if greatest is not None else False)


def test_text_that_is_no_utf8_has_no_bounds():
    sound = batch_of(t.utf8, "ab", "b")
    column = sound.columns[0]
    broken = type(column)(t.utf8, 2, 0, (None, column.buffers[1], memoryview(b"\xff\xfe\xfd")))
    batch = RecordBatch(sound.schema, (broken,), 2)
    statistics = read_statistics((gathered([batch]),), batch.schema, 1)
    assert statistics.columns[("a",)].least == (None,)


def found_and_known(values, first=0):
    """Return what is found of texts, as far as it is kept, and what Python finds."""
    found = summarise(batch_of(t.binary, *values).columns[0].slice(first))
    known = [value for value in values[first:] if value is not None]
    return [end[:72] if end is not None else None for end in (found.least, found.greatest)], [
        best(known)[:72] if known else None for best in (min, max)
    ]


def test_texts_are_ordered_as_python_orders_them():
    r = random.Random(3)
    for _ in range(300):
        prefix = bytes(r.choices(b"ab\0\xff", k=r.choice([0, 3, 8, 17, 70])))
        values = [
            prefix + bytes(r.choices(b"\0ab\xff", k=r.choice([0, 1, 7, 8, 20]))) for _ in range(r.choice([1, 3, 40]))
        ]
        values[r.randrange(len(values))] = None if len(values) > 1 else values[0]
        found, known = found_and_known(values, r.randrange(len(values)))
        assert found == known


@pytest.mark.parametrize("shared", [0, 1, 5, 8, 9, 24, 31, 70, 80])
@pytest.mark.parametrize("width", [0, 1, 6, 20])
def test_many_texts_that_are_alike_for_long(shared, width):
    r = random.Random(shared + width)
    prefix = bytes(r.choices(b"abc", k=shared))
    values = [prefix + bytes(r.choices(b"\0ab\xff", k=r.randint(width // 2, width))) for _ in range(5000)]
    found, known = found_and_known(values)
    assert found == known
    for place, byte in ((0, 0x00), (0, 0xFF), (7, 0x7F), (8, 0x00), (shared - 1, 0xFF)):
        # One among many, which a look at a few of them does not see.
        odd = bytearray(prefix + b"x")
        odd[place % len(odd)] = byte
        found, known = found_and_known([*values[:-3], bytes(odd), *values[-3:]])
        assert found == known
        shorter = [*values[:-3], bytes(odd[: place % len(odd)]), *values[-3:]]
        found, known = found_and_known(shorter)
        assert found == known


def test_leaves_of_structs_do_not_see_what_lies_under_a_null():
    type_ = t.struct([("x", t.int32), ("s", t.struct([("y", t.float64)]))])
    batch = batch_of(type_, {"x": 1, "s": {"y": 5.0}}, None, {"x": 3, "s": None}, {"x": None, "s": {"y": NAN}})
    (column,) = batch.columns
    # A value under a null struct.
    hidden = type(column.children[0])(
        t.int32, 4, 0, (None, memoryview(b"".join(v.to_bytes(4, "little") for v in (1, 99, 3, 2))))
    )
    column = type(column)(type_, 4, 1, column.buffers, (hidden, column.children[1]))
    batch = RecordBatch(batch.schema, (column,), 4).slice(0, 4)
    found = read_statistics((gathered([batch]),), batch.schema, 1).columns
    assert [("a", "x"), ("a", "s", "y")] == list(found)
    assert (1, 3, 1) == (*found["a", "x"].least, *found["a", "x"].greatest, *found["a", "x"].null_counts)
    assert (5.0, 2, 1) == (
        *found["a", "s", "y"].least,
        *found["a", "s", "y"].null_counts,
        *found["a", "s", "y"].nan_counts,
    )


def test_which_columns():
    schema = Schema.of([*(t.field(f"c{i}", t.int8) for i in range(70)), t.field("n", t.struct([("x", t.int8), ("y", t.int8)])), t.field("l", t.list_(t.int8))])  # fmt: skip
    batch = RecordBatch.from_pylist([{}], schema)
    chosen = {
        which if isinstance(which, str) else "list": list(
            read_statistics((gathered([batch], which),), schema, 1).columns
        )
        for which in (Statistics.AUTO, Statistics.ALL, ["C3", ("n", "Y"), 5])
    }
    assert [len(chosen[Statistics.AUTO]), len(chosen[Statistics.ALL])] == [64, 72]
    assert [("c3",), ("c5",), ("n", "y")] == chosen["list"]
    assert gathered([batch], Statistics.NONE) is None
    assert read_statistics((gathered([batch]),), schema, 1).dropped[-1] == ("n", "y")
    assert len(list(f.leaves(Schema.of([t.field("a", t.int8), t.field("a", t.int8)])))) == 0


def test_auto_is_bounded_by_the_size_of_the_file():
    schema = Schema.of([t.field(f"c{i}", t.utf8) for i in range(30)])
    batch = RecordBatch.from_pylist([{f"c{i}": "x" * 64 for i in range(30)}], schema)
    key, text = gathered([batch] * 600)
    assert len(text) <= 1 << 20
    statistics = read_statistics(((key, text),), schema, 600)
    assert 0 < len(statistics.columns) < 30
    assert [(f"c{i}",) for i in range(30)] == [*statistics.columns, *statistics.dropped]
    assert len(gathered([batch] * 600, Statistics.ALL)[1]) > 1 << 20
    assert len(gathered([batch] * 600, Statistics.AUTO, 10 << 30)[1]) > 1 << 20


def test_arrow_readers_can_read_the_stream():
    pa = pytest.importorskip("pyarrow")
    key, text = gathered([batch_of(t.utf8, "a", "b" * 70), batch_of(t.utf8, None)])
    assert key == "spark_arrow_ipc.statistics"
    table = pa.ipc.open_stream(base64.b64decode(text)).read_all()
    assert table.column("ARROW:row_count:exact").to_pylist() == [2, 1]
    assert table.column("a").to_pylist() == [
        {"ARROW:null_count:exact": 0, "ARROW:min_value:exact": "a", "ARROW:min_value:approximate": None,
         "ARROW:max_value:exact": None, "ARROW:max_value:approximate": "b" * 63 + "c"},
        {"ARROW:null_count:exact": 1, "ARROW:min_value:exact": None, "ARROW:min_value:approximate": None,
         "ARROW:max_value:exact": None, "ARROW:max_value:approximate": None},
    ]  # fmt: skip


def stream(rows, *, path=("a",), type_=t.int32, counts=None):
    """Return a pair made by hand: rows of (row count, null count, min, max)."""
    leaf = f.Leaf(path, (0,), type_).field()
    schema = Schema.of([t.field(f.ROW_COUNT, t.int64), leaf])
    structs = [{f.NULL_COUNT: nulls, f.MIN[0]: low, f.MAX[0]: high} for _, nulls, low, high in rows]
    pylist = [{f.ROW_COUNT: row[0], leaf.name: struct} for row, struct in zip(rows, structs, strict=True)]
    sink = io.BytesIO()
    ipc.write(sink, [RecordBatch.from_pylist(pylist, schema)], schema, ipc.WriteOptions(format="stream"))
    return f.KEY, base64.b64encode(sink.getvalue()).decode()


SOUND = stream([(5, 0, 1, 9), (5, 5, None, None)])
BROKEN = [
    ("no_base64", [(f.KEY, "%%%")]),
    ("no_stream", [(f.KEY, base64.b64encode(b"hello").decode())]),
    ("truncated", [(f.KEY, SOUND[1][: len(SOUND[1]) // 8 * 4])]),
    ("twice", [SOUND, SOUND]),
    ("other_number_of_blocks", [stream([(5, 0, 1, 9)])]),
    ("other_type", [stream([(5, 0, 1, 9)] * 2, type_=t.int64)]),
    ("more_nulls_than_rows", [stream([(5, 6, 1, 9)] * 2)]),
    ("negative_count", [stream([(-5, 0, 1, 9)] * 2)]),
    ("null_count_is_null", [stream([(5, None, 1, 9)] * 2)]),
    ("least_above_greatest", [stream([(5, 0, 9, 1)] * 2)]),
]


@pytest.mark.parametrize("pairs", [pytest.param(pairs, id=name) for name, pairs in BROKEN])
def test_broken_statistics_are_ignored_with_a_warning(pairs):
    schema = Schema.of([t.field("a", t.int32)])
    with pytest.warns(StatisticsWarning, match="are not used"):
        assert read_statistics(tuple(pairs), schema, 2) is None


def test_every_changed_byte_is_survived():
    schema = Schema.of([t.field("a", t.int32)])
    octets = bytearray(base64.b64decode(SOUND[1]))
    r = random.Random(5)
    for _ in range(300):
        changed = bytearray(octets)
        changed[r.randrange(len(changed))] ^= 1 << r.randrange(8)
        pair = (f.KEY, base64.b64encode(changed).decode())
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            statistics = read_statistics((pair,), schema, 2)
        assert (statistics is None) is bool(told)


def test_columns_that_a_file_does_not_have_are_left_out():
    assert read_statistics((SOUND,), Schema.of([t.field("b", t.int32)]), 2).columns == {}
    assert read_statistics((), Schema.of([]), 2) is None


US = t.TimeUnit.MICROSECOND
CONVERSIONS = [
    ("uint64_as_decimal", t.uint64, (2**63,), t.Decimal(20, 0), "a = 9223372036854775808", "a < 9223372036854775808"),
    ("nanoseconds_before_1970", t.Timestamp(t.TimeUnit.NANOSECOND, "UTC"), (-1,), t.Timestamp(US, "UTC"), "a = '1969-12-31 23:59:59.999999Z'", "a >= '1970-01-01 00:00:00Z'"),
    ("nanoseconds_as_long", t.Timestamp(t.TimeUnit.NANOSECOND), (-1,), t.int64, "a = -1", "a = 0"),
    ("seconds", t.Timestamp(t.TimeUnit.SECOND), (1,), t.Timestamp(US), "a = '1970-01-01 00:00:01'", "a < '1970-01-01 00:00:01'"),
    ("date64", t.date64, (86_400_001,), t.date32, "a = '1970-01-02'", "a > '1970-01-02'"),
    ("date_as_timestamp", t.date32, (1,), t.Timestamp(US), "a = '1970-01-02'", "a > '1970-01-02'"),
    ("time_as_interval", t.Time(t.TimeUnit.MILLISECOND, 32), (1500,), t.Duration(US), "a = INTERVAL '1.5' SECOND", "a > INTERVAL '1.5' SECOND"),
    ("wider_decimal", t.Decimal(5, 2), (decimal.Decimal("1.5"),), t.Decimal(10, 4), "a = 1.5", "a > 1.5"),
    ("uuid", t.FixedSizeBinary(16), (bytes(15) + b"\x0f",), t.utf8, "a = '00000000-0000-0000-0000-00000000000f'", "a > '1'"),
    ("nan_is_the_largest", t.float32, (1.0, NAN), t.float32, "a > 5", "a < 1"),
    ("only_nan", t.float64, (NAN,), t.float64, "a = 'NaN'", "a <= 'inf'"),
    ("dictionary", t.dictionary(t.int8, t.utf8), ("b",), t.utf8, "a LIKE 'b%'", "a LIKE 'c%'"),
    ("cut_text", t.utf8, ("b" * 100,), t.utf8, "a LIKE 'bbb%'", "a > 'c'"),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "values", "seen", "keeps", "skips"), [pytest.param(*case[1:], id=case[0]) for case in CONVERSIONS])  # fmt: skip
def test_bounds_are_brought_to_what_spark_sees(stored, values, seen, keeps, skips):
    batch = batch_of(stored, *values)
    statistics = read_statistics((gathered([batch]),), batch.schema, 1)
    kept = [
        block_filter(bind(parse(text), [t.field("A", seen)]), batch.schema, statistics)(0) for text in (keeps, skips)
    ]
    assert [True, False] == kept


def test_what_keeps_no_order_is_not_pruned():
    batch = batch_of(t.int8, -1, 0)
    statistics = read_statistics((gathered([batch]),), batch.schema, 1)
    assert block_filter(bind(parse("a"), [t.field("a", t.bool_)]), batch.schema, statistics)(0)


def test_blocks_are_skipped_one_by_one_and_by_the_path():
    batches = [batch_of(t.int32, *range(i, i + 10)) for i in range(0, 50, 10)] + [batch_of(t.int32, None)]
    statistics = read_statistics((gathered(batches),), batches[0].schema, 6)
    fields = [t.field("a", t.int32), t.field("p", t.utf8)]

    def kept(text, partition=None):
        keep = block_filter(bind(parse(text), fields), batches[0].schema, statistics, partition)
        return [i for i in range(6) if keep(i)]

    assert kept("a BETWEEN 15 AND 22") == [1, 2]
    assert kept("a IS NULL") == [5]
    assert kept("a IN (3, 47) OR a IS NULL") == [0, 4, 5]
    assert kept("NOT a < 40") == [4]
    assert kept("p = 'x' AND a < 5") == [0]
    assert kept("p = 'x' AND a < 5", {"p": "y"}) == []


def test_a_path_is_json_in_the_streams_schema():
    with ipc.open(base64.b64decode(SOUND[1])) as reader:
        assert json.loads(dict(reader.schema.fields[1].custom_metadata)[f.PATH_KEY]) == ["a"]
