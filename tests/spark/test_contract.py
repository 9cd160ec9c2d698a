"""What Spark does with a Python data source, on which this package relies; each is a fact of the installed release.

When one of these fails with a newer Spark, a decision of this package can be thought over.
"""

import importlib
import inspect
import json
import pkgutil
import sys

import arrow_files
import contract_sources
import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.pandas.types import to_arrow_schema

import spark_arrow_ipc.spark
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.spark.convert.conversion import EXPECTED, pyarrow_schema
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))


@pytest.fixture(scope="module")
def sources(spark):
    """The session with the sources of `contract_sources`."""
    spark.sparkContext.addPyFile(contract_sources.__file__)
    for source in contract_sources.ALL:
        spark.dataSource.register(source)
    return spark


@pytest.fixture
def pushdown(sources):
    sources.conf.set(PUSHDOWN, "true")
    yield sources
    sources.conf.unset(PUSHDOWN)


def load(spark, name, *path, **options):
    return spark.read.format(name).options(**options).load(*path)


OPTIONS = {
    "a path": (["/a"], {"path": "/a"}),
    "a list of one": ([["/a"]], {"path": "/a"}),
    "a list": ([["/a", "/b"]], {"paths": '["/a","/b"]'}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_paths_arrive_as_options(sources, name):
    """A list as JSON, and all names of options in lower case."""
    path, expected = OPTIONS[name]
    (row,) = load(sources, "echo", *path, maxPartitionBytes="1m").collect()
    assert json.loads(row.options) == expected | {"maxpartitionbytes": "1m"}


def test_no_partitions_become_one_partition_of_none(sources):
    """So `read` has to yield nothing for it."""
    given = "InputPartition(value=None)" if SPARK >= (4, 2) else "None"
    assert [row.partition for row in load(sources, "empty").collect()] == [given]


MISMATCHES = {
    "type": (4, 2),
    "nullability": (4, 2),
    "name": (4, 1),
}
"""What the first batch has other than the schema -> the release that finds it."""


@pytest.mark.parametrize("how", [how for how, since in MISMATCHES.items() if since <= SPARK])
def test_the_first_batch_is_compared_with_the_schema(sources, how):
    """To the last nullability: a field that is not nullable is no nullable one."""
    with pytest.raises(PySparkException, match="DATA_SOURCE_RETURN_SCHEMA_MISMATCH"):
        load(sources, "mismatched", how=how).collect()


def test_before_4_2_the_nullability_of_the_first_batch_is_not_compared(sources):
    """Why no batch of ours relies on Spark's own check."""
    if MISMATCHES["nullability"] <= SPARK:
        pytest.skip("this release compares it")
    load(sources, "mismatched", how="nullability").collect()


def test_a_reader_that_takes_filters_is_refused_by_default(sources):
    """Why a class that merely defines `pushFilters` would be unusable."""
    with pytest.raises(PySparkException, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        load(sources, "leaking").where("a = 3").count()


def test_filters_of_one_query_leak_into_the_next(pushdown):
    """Wrong answers of Spark 4.1 to 4.3, and why no class of ours defines `pushFilters` (ADR 0002)."""
    frame = load(pushdown, "leaking")
    counts = (frame.where("a = 3").count(), frame.count())
    mended = f"Spark {pyspark.__version__} does not leak pushed filters any more: think docs/adr/0002 over"
    assert counts == (1, 1), mended


def test_before_spark_4_2_the_error_says_what_is_needed(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "spark_arrow_ipc.spark.read.stream_reader", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    with pytest.raises(UnsupportedError, match=r"needs Spark 4\.2 or later"):
        ArrowIpcDataSource({"path": str(tmp_path)}).streamReader(None).initialOffset()


def test_no_class_of_ours_takes_filters():
    """With push-down on, answers would be wrong; with push-down off, every query would fail."""
    package = spark_arrow_ipc.spark
    names = [m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    assert len(names) > 10
    if SPARK < (4, 2):
        names.remove(f"{package.__name__}.read.stream_reader")  # its base classes are not there
        names.remove(f"{package.__name__}.rewrite.ingest")  # nor its own
    classes = {c for name in names for _, c in inspect.getmembers(importlib.import_module(name), inspect.isclass)}
    ours = {c for c in classes if c.__module__.startswith(package.__name__)}
    assert len(ours) > 10
    assert [c for c in ours if {"pushFilters", "pushLimit"} & vars(c).keys()] == []


def test_a_reader_is_told_no_limit():
    """It comes with the release after 4.3, off by default; a reader that takes it fails there until it is turned on."""
    told = f"Spark {pyspark.__version__} tells readers a limit: think docs/adr/0002 over"
    assert not hasattr(DataSourceReader, "pushLimit"), told


def test_answers_are_right_with_push_down_switched_on(pushdown, tmp_path):
    """Ours leaves filters to Spark, whatever the conf says."""
    path = arrow_files.write(tmp_path / "a.arrow", pa.table({"a": pa.array(range(10), pa.int32())}))
    frame = load(pushdown, "arrowipc", path)
    assert (frame.where("a = 3").count(), frame.count()) == (1, 10)


def test_a_data_frame_plans_its_files_once(spark, tmp_path):
    """New files are seen by the next load only."""
    table = pa.table({"a": [1]})
    arrow_files.write(tmp_path / "d" / "1.arrow", table)
    frame = load(spark, "arrowipc", str(tmp_path / "d"))
    assert frame.count() == 1
    arrow_files.write(tmp_path / "d" / "2.arrow", table)
    assert (frame.count(), load(spark, "arrowipc", str(tmp_path / "d")).count()) == (1, 2)


# One example or more of each class of EXPECTED.
TYPES = [
    s.NullType(), s.BooleanType(), s.ByteType(), s.ShortType(), s.IntegerType(), s.LongType(), s.FloatType(),
    s.DoubleType(), s.DecimalType(38, 0), s.DecimalType(5, 5), s.StringType(), s.StringType("UTF8_LCASE"),
    s.BinaryType(), s.DateType(), s.TimeType(0), s.TimeType(6), s.TimestampType(), s.TimestampNTZType(),
    s.DayTimeIntervalType(), s.DayTimeIntervalType(0, 1), s.VariantType(), s.GeometryType(4326), s.GeometryType("ANY"), s.GeographyType(4326),
    s.ArrayType(s.LongType(), containsNull=True), s.ArrayType(s.LongType(), containsNull=False),
    s.ArrayType(s.ArrayType(s.TimestampType(), containsNull=False)),
    s.MapType(s.StringType(), s.LongType(), valueContainsNull=True),
    s.MapType(s.LongType(), s.ArrayType(s.StringType()), valueContainsNull=False),
    s.StructType([]),
    s.StructType([s.StructField("x", s.DateType(), nullable=False), s.StructField("y", s.VariantType())]),
    s.StructType([s.StructField("x", s.LongType(), metadata={"ARROW:extension:name": "n", "list": [{"k": 1}]})]),
]  # fmt: skip


def pysparks(schema):
    """Return PySpark's own Arrow schema; 4.1 has no parameter for the zone and gives UTC by itself."""
    zone = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def pysparks_has_metadata():
    """Return whether PySpark's own Arrow schema has the metadata of fields; that of 4.1 has not."""
    noted = s.StructType([s.StructField("c", s.LongType(), metadata={"k": 1})])
    return pysparks(noted).field("c").metadata is not None


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("spark_type", TYPES, ids=lambda spark_type: spark_type.simpleString())
def test_the_arrow_schema_that_we_expect_is_pysparks(spark_type, nullable):
    """Spark checks the first batch against it, and no later one."""
    nullable = nullable or isinstance(spark_type, s.NullType)
    schema = s.StructType(
        [s.StructField("c", spark_type, nullable, {"arrow.type": "uint8"}), s.StructField("d", spark_type)]
    )
    assert pyarrow_schema(schema).equals(pysparks(schema), check_metadata=pysparks_has_metadata())


def test_every_type_that_we_expect_is_compared():
    assert {type(spark_type) for spark_type in TYPES} == set(EXPECTED)


REFUSED = [s.YearMonthIntervalType(), s.CalendarIntervalType(), s.CharType(3), s.VarcharType(3)]


@pytest.mark.parametrize("spark_type", REFUSED, ids=lambda spark_type: spark_type.simpleString())
def test_types_that_pyspark_does_not_take_through_arrow(spark_type):
    """Why intervals of months are numbers here."""
    assert type(spark_type) not in EXPECTED
    with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_TYPE"):
        pysparks(s.StructType([s.StructField("c", spark_type)]))
