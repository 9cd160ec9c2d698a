"""The note of Spark's schema: what is noted, and what of a note is believed."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest
from convert_batches import converted
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes, Times, Vectors
from spark_arrow_ipc.spark.read.matching_rows import MatchingRows
from spark_arrow_ipc.spark.types import arrow_to_spark
from spark_arrow_ipc.spark.types.arrow_to_spark import to_ddl
from spark_arrow_ipc.spark.types.field_metadata import declares_char
from spark_arrow_ipc.spark.types.spark_annotation import KEY, annotation_pairs

LCASE = s.StringType("UTF8_LCASE")
HOUR = s.DayTimeIntervalType(1, 1)
US = t.TimeUnit.MICROSECOND
CHAR = "__CHAR_VARCHAR_TYPE_STRING"


def field(type_, metadata=None, name="c"):
    return s.StructField(name, type_, metadata=metadata)


def note(*fields):
    return s.StructType(list(fields)).json()


def read(arrow, noted, options=None):
    """Return the Spark field of a file's column `c` with a note."""
    arrow = arrow if isinstance(arrow, t.Field) else t.field("c", arrow)
    schema = Schema.of([arrow], {KEY: noted})
    return arrow_to_spark.spark_schema(schema, options or ReadOptions())["c"]


NOT_NOTED = [
    s.StringType(),
    s.LongType(),
    s.DayTimeIntervalType(),
    s.ArrayType(s.StructType([field(s.DateType())])),
    s.VariantType(),
]


@pytest.mark.parametrize("type_", NOT_NOTED, ids=lambda type_: type_.simpleString())
def test_what_arrow_says_itself_is_not_noted(type_):
    assert () == annotation_pairs(s.StructType([field(type_)]))


def test_a_type_of_the_users_is_noted_as_its_storage():
    """Spark's JSON of such a type holds a pickle."""

    class Own(s.UserDefinedType):
        @classmethod
        def sqlType(cls):
            return s.ArrayType(LCASE)

        @classmethod
        def module(cls):
            return "os"

    ((_, noted),) = annotation_pairs(s.StructType([field(Own())]))
    assert note(field(s.ArrayType(LCASE))) == noted


BELIEVED = [
    ("a collation", t.utf8, LCASE),
    ("of any layout", t.dictionary(t.int8, t.large_utf8), LCASE),
    ("of runs", t.run_end_encoded(t.int16, t.utf8_view), LCASE),
    ("in a list", t.list_(t.utf8), s.ArrayType(LCASE)),
    ("in a map", t.map_(t.utf8, t.list_(t.utf8)), s.MapType(LCASE, s.ArrayType(s.StringType("UNICODE")))),
    ("in a struct", t.struct([("a", t.utf8), ("b", t.int8)]), s.StructType([field(LCASE, name="a"), field(s.ByteType(), name="b")])),
    ("an interval", t.Duration(US), HOUR),
    ("a time", t.Time(US, 64), s.TimeType(0)),
    ("a time of seconds", t.Time(t.TimeUnit.SECOND, 32), s.TimeType(0)),
]  # fmt: skip


@pytest.mark.parametrize(("arrow", "type_"), [case[1:] for case in BELIEVED], ids=[case[0] for case in BELIEVED])
def test_a_note_is_believed_where_the_types_agree(arrow, type_):
    found = read(arrow, note(field(type_, {"comment": "mine"})))
    assert (type_, {"comment": "mine"}) == (
        found.dataType,
        {k: v for k, v in found.metadata.items() if k != "arrow.type"},
    )


VECTOR = '{"class":"org.apache.spark.ml.linalg.VectorUDT","pyClass":"%s","serializedClass":"gASVFgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOULg==","sqlType":%s,"type":"udt"}'


def of_type(json_):
    return '{"type":"struct","fields":[{"name":"c","nullable":true,"metadata":{"comment":"x"},"type":' + json_ + "}]}"


STALE = [
    ("another type", t.int64, note(field(LCASE, {"comment": "x"}))),
    ("no string any more", t.binary, note(field(LCASE))),
    ("another width", t.int32, note(field(s.LongType(), {"comment": "x"}))),
    ("another precision", t.Decimal(9, 2), note(field(s.DecimalType(10, 2), {"comment": "x"}))),
    ("another name", t.utf8, note(field(LCASE, name="C"))),
    ("one name twice", t.utf8, note(field(LCASE), field(s.StringType("UNICODE")))),
    ("no list any more", t.utf8, note(field(s.ArrayType(LCASE)))),
    ("another element", t.list_(t.int8), note(field(s.ArrayType(LCASE), {"comment": "x"}))),
    ("finer than its unit", t.Time(t.TimeUnit.SECOND, 32), note(field(s.TimeType(6)))),
    ("an interval of another time", t.Timestamp(US), note(field(HOUR))),
    ("a collation that is none", t.utf8, '{"type":"struct","fields":[{"name":"c","type":"string","metadata":{"__COLLATIONS":{"c":"x; DROP"}}}]}'),
    *((f"the collation {name}", t.utf8, json.dumps({"type": "struct", "fields": [{"name": "c", "type": "string", "metadata": {"__COLLATIONS": {"c": name}, "comment": "x"}}]}))
      for name in ("icu.NOPE_XX", "icu.en_USA_CI_CS", "icu.en_USA_AI_CI", "icu.RTRIM", "icu.null", "spark.null", "spark.UNICODE", "icu.UTF8_LCASE", "spark.UTF8_LCASE_CI", "icu.EN_usa", "icu.", "UNICODE")),
    ("a collation of another type", t.utf8, '{"type":"struct","fields":[{"name":"c","type":"string","metadata":{"__COLLATIONS":{"c":7}}}]}'),
    ("digits that no time has", t.Time(US, 64), of_type('"time(99)"')),
    ("an interval that is none", t.Duration(US), of_type('"interval second to day"')),
    ("a vector of other parts", t.struct([("type", t.int8)]), of_type(VECTOR % ("pyspark.ml.linalg.VectorUDT", '"string"'))),
    ("another user's type", t.utf8, of_type('{"type":"udt","class":"com.evil.Type","pyClass":"antigravity.Evil","sqlType":"string"}')),
    ("a type of Python", t.utf8, of_type('{"type":"udt","pyClass":"antigravity.Evil","serializedClass":"gASVFgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOULg==","sqlType":"string"}')),
    ("no JSON", t.utf8, "{"),
    ("no text", t.utf8, "\ud800"),
    ("too deep", t.utf8, '{"type":' * 100_000),
    ("too deep by a little", t.utf8, of_type('{"type":"array","elementType":' * 200 + '"string"' + "}" * 200)),
    ("too large", t.utf8, '{"fields":[%s1],"type":"struct"}' % ("{}," * 400_000)),
    ("a list", t.utf8, "[]"),
    ("a number", t.utf8, "7"),
    ("fields that are none", t.utf8, '{"type":"struct","fields":[7,null,[],{"name":7},{"name":"c"}]}'),
    ("no fields", t.utf8, '{"type":"struct","fields":{"c":"string"}}'),
    ("an array of nothing", t.list_(t.utf8), of_type('{"type":"array"}')),
    ("a map of nothing", t.map_(t.utf8, t.utf8), of_type('{"type":"map"}')),
]  # fmt: skip


@pytest.mark.parametrize(("arrow", "noted"), [case[1:] for case in STALE], ids=[case[0] for case in STALE])
def test_a_note_that_does_not_fit_changes_nothing(arrow, noted):
    plain = arrow_to_spark.spark_schema(Schema.of([t.field("c", arrow)]), ReadOptions())["c"]
    found = read(arrow, noted)
    assert (plain.dataType, plain.metadata) == (found.dataType, found.metadata)
    assert "antigravity" not in sys.modules


def test_a_collation_that_spark_lacks_is_said(caplog):
    read(t.utf8, note(field(s.StringType("NOPE_XX"))))
    assert ["field c: the file's note of Spark's schema names the collation 'icu.NOPE_XX', which this Spark does not have; the column is read as a plain string"] == caplog.messages  # fmt: skip


def test_one_field_of_a_note_may_be_stale_and_the_others_not():
    arrow = Schema.of([t.field("a", t.utf8), t.field("b", t.int8), t.field("n", t.struct([("x", t.utf8), ("y", t.int8)]))], {
        KEY: note(field(LCASE, name="a"), field(LCASE, name="b"), field(s.StructType([field(LCASE, name="x"), field(LCASE, name="y")]), name="n"))})  # fmt: skip
    found = arrow_to_spark.spark_schema(arrow, ReadOptions())
    assert [LCASE, s.ByteType()] == [found["a"].dataType, found["b"].dataType]
    assert [LCASE, s.ByteType()] == [x.dataType for x in found["n"].dataType.fields]


def test_two_notes_are_none():
    pairs = [(KEY, note(field(LCASE))), (KEY, note(field(s.StringType("UNICODE"))))]
    schema = Schema.of([t.field("c", t.utf8)], pairs)
    assert s.StringType() == arrow_to_spark.spark_schema(schema, ReadOptions())["c"].dataType


VECTOR_PARTS = t.struct(
    [("type", t.int8), ("size", t.int32), ("indices", t.list_(t.int32)), ("values", t.list_(t.float64))]
)


def test_a_vector_is_pysparks_whatever_class_the_note_names():
    from pyspark.ml.linalg import VectorUDT

    parts = VectorUDT.sqlType()
    found = read(VECTOR_PARTS, of_type(VECTOR % ("antigravity.Evil", parts.json())))
    assert VectorUDT is type(found.dataType)
    assert "antigravity" not in sys.modules
    assert isinstance(
        read(VECTOR_PARTS, note(field(VectorUDT())), ReadOptions(vectors=Vectors.BINARY)).dataType, s.StructType
    )


GIVEN = [
    ("noted", t.Time(US, 64), s.TimeType(6), ReadOptions(), s.TimeType(6)),
    ("an interval", t.Time(US, 64), s.TimeType(6), ReadOptions(times=Times.INTERVAL), s.DayTimeIntervalType()),
    ("a count", t.Time(US, 64), s.TimeType(6), ReadOptions(times=Times.LONG), s.LongType()),
    ("no note", t.Time(US, 64), s.LongType(), ReadOptions(), s.DayTimeIntervalType()),
    ("a geometry", t.field("c", t.binary, custom_metadata={"ARROW:extension:name": "geoarrow.wkb"}), s.GeometryType(0), ReadOptions(), s.GeometryType(0)),
    ("as its storage", t.field("c", t.binary, custom_metadata={"ARROW:extension:name": "geoarrow.wkb"}), s.GeometryType(0), ReadOptions(extension_types=ExtensionTypes.STORAGE), s.BinaryType()),
    ("of another CRS", t.field("c", t.binary, custom_metadata={"ARROW:extension:name": "geoarrow.wkb"}), s.GeometryType(4326), ReadOptions(), s.BinaryType()),
    ("no extension", t.binary, s.GeometryType(4326), ReadOptions(), s.BinaryType()),
]  # fmt: skip


@pytest.mark.parametrize("case", GIVEN, ids=[case[0] for case in GIVEN])
def test_an_option_that_is_given_decides(case):
    _, arrow, noted, options, expected = case
    assert expected == read(arrow, note(field(noted)), options).dataType


DECLARED = [
    ("char(5)", t.utf8, s.StringType(), True),
    ("varchar(5)", t.utf8, s.StringType(), True),
    ("array<char(3)>", t.list_(t.utf8), s.ArrayType(s.StringType()), True),
    ("map<char(3),varchar(2)>", t.map_(t.utf8, t.utf8), s.MapType(s.StringType(), s.StringType()), True),
    ("struct<x:char(3)>", t.struct([("x", t.utf8)]), s.StructType([field(s.StringType(), name="x")]), True),
    ("char(2000000000)", t.utf8, s.StringType(), False),  # Spark would pad each value to 2 GB
    ("char(100000)", t.utf8, s.StringType(), False),
    ("char(5)", t.int8, s.ByteType(), False),
    ("char(0)", t.utf8, s.StringType(), False),
    ("array<char(3)>", t.utf8, s.StringType(), False),
    ("struct<x:" * 1000 + "char(3)" + ">" * 1000, t.utf8, s.StringType(), False),
    ("string", t.utf8, s.StringType(), False),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "arrow", "type_", "expected"), DECLARED, ids=[case[0][:30] for case in DECLARED])
def test_a_char_is_believed_on_strings_and_to_a_length(declared, arrow, type_, expected):
    found = read(arrow, note(field(type_, {CHAR: declared}))).metadata
    assert ({CHAR: declared} if expected else {}) == found
    pair = t.field("c", arrow, custom_metadata={"SPARK::metadata::json": json.dumps({CHAR: declared})})
    of_spark = arrow_to_spark.spark_schema(Schema.of([pair]), ReadOptions())["c"].metadata
    assert expected == (CHAR in of_spark)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [("char(5)", True), ("varchar(5)", False), ("struct<a:varchar(2),b:CHAR(1)>", True), (None, False)],
)
def test_which_columns_are_padded(declared, expected):
    assert expected == declares_char(field(s.StringType(), {CHAR: declared} if declared else {}))


WHOLE = [
    (pa.array([3_600_000_000, None, -7_200_000_000], pa.duration("us")), HOUR, True),
    (pa.array([3_600_000_001], pa.duration("us")), HOUR, False),
    (pa.array([86_400_000_000], pa.duration("us")), s.DayTimeIntervalType(0, 0), True),
    (pa.array([3_600], pa.duration("s")), s.DayTimeIntervalType(0, 0), False),
    (pa.array([61], pa.duration("s")), s.DayTimeIntervalType(2, 3), True),
    (pa.array([1_000_000, None], pa.time64("us")), s.TimeType(0), True),
    (pa.array([1_000_001], pa.time64("us")), s.TimeType(0), False),
    (pa.array([1], pa.time32("s")), s.TimeType(6), True),
]  # fmt: skip


@pytest.mark.parametrize(("array", "type_", "fits"), WHOLE)
def test_a_value_between_those_of_the_type_is_an_error(array, type_, fits):
    """Otherwise Spark would show another value, and a stale note would lie."""
    if fits:
        assert array.null_count == converted(array, asked=field(type_)).null_count
    else:
        with pytest.raises(UnsupportedError, match=r"the type of this column is .*, and slot 0 has .*\.schema\("):
            converted(array, asked=field(type_))


@pytest.mark.parametrize(
    ("noted", "name"), [(field(LCASE), "string collate UTF8_LCASE"), (field(s.StringType(), {CHAR: "char(5)"}), "char")]
)
def test_the_command_line_compares_neither(noted, name):
    """Spark's filter would answer by the collation, or padded."""
    schema = Schema.of([t.field("a", t.int8), t.field("c", t.utf8)], {KEY: note(noted)})
    with pytest.raises(OptionError, match=name):
        MatchingRows.compile("c = 'ab'", schema)
    assert (0,) == MatchingRows.compile("a = 1", schema).positions


def test_ddl_has_the_noted_types():
    from pyspark.ml.linalg import VectorUDT

    of_storage = "STRUCT<`type`: TINYINT, `size`: INT, `indices`: ARRAY<INT>, `values`: ARRAY<DOUBLE>>"
    noted = s.StructType([field(LCASE, name="a"), field(HOUR, name="b"), field(VectorUDT(), name="v")])
    arrow = Schema.of(
        [t.field("a", t.utf8), t.field("b", t.Duration(US)), t.field("v", VECTOR_PARTS)], {KEY: noted.json()}
    )
    assert f"`a` STRING COLLATE UTF8_LCASE, `b` INTERVAL HOUR, `v` {of_storage}" == to_ddl(arrow)


FRESH = """
import sys
import pyarrow as pa
from pyspark.sql import types as s
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.spark.convert import compile_converter
from spark_arrow_ipc.spark.options.options import ReadOptions
from spark_arrow_ipc.spark import bridge
assert "pyarrow.compute" not in sys.modules
columns = {"h": pa.array([3_600_000_000], pa.duration("us")), "t": pa.array([1_000_000], pa.time64("us"))}
batch = bridge.batch_from_pyarrow(pa.record_batch(columns))
asked = s.StructType([s.StructField("h", s.DayTimeIntervalType(1, 1)), s.StructField("t", s.TimeType(0))])
(made,) = compile_converter(batch.schema, asked, ReadOptions()).convert(batch)
print(made.num_rows)
"""


@pytest.mark.slow
def test_a_process_that_has_not_imported_pyarrows_kernels_checks_values():
    """A task of Spark's without a predicate is such a process."""
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, timeout=120, check=False)
    assert (0, "1\n") == (done.returncode, done.stdout), done.stderr
