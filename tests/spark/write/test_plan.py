"""The plan of a write: columns by options, and errors before any task runs."""

import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ColumnNotFoundError, OptionError, UnsupportedError
from spark_arrow_ipc.spark.options.options import parse_write
from spark_arrow_ipc.spark.write.plan import plan_write

SCHEMA = s.StructType(
    [
        s.StructField("word", s.StringType()),
        s.StructField("number", s.IntegerType()),
        s.StructField("at", s.TimestampType()),
        s.StructField("parts", s.StructType([s.StructField("a", s.IntegerType())])),
    ]
)


def plan(**options):
    return plan_write(SCHEMA, parse_write(options))


def test_columns_are_written_as_their_usual_types_by_default():
    columns = plan().columns
    assert columns.usual is columns.schema
    assert (t.utf8, t.int32, t.Timestamp(t.TimeUnit.MICROSECOND, "UTC")) == tuple(
        f.type for f in columns.schema.fields[:3]
    )
    assert () == columns.sampled


def test_dictionary_columns_by_name_and_position():
    columns = plan(dictionaryColumns="word, #1").columns
    encoded = [field.name for field in columns.schema.fields if isinstance(field.type, t.Dictionary)]
    assert ["word", "number"] == encoded


def test_auto_samples_strings_that_are_no_partition_columns():
    assert (0,) == plan(dictionaryColumns="auto").columns.sampled
    assert () == plan(dictionaryColumns="auto", partitionBy="word").columns.sampled


def test_partition_columns_are_positions():
    assert plan().partition is None
    assert (1, 0) == plan(partitionBy="number, word").partition.positions


NAMED = {
    "partitionBy": "nunber",
    "dictionaryColumns": "nunber",
    "statistics": "nunber",
    "tensorColumns": "nunber:3",
    "fixedSizeLists": "nunber:3",
}


@pytest.mark.parametrize("option", NAMED)
def test_the_error_for_an_absent_column_names_the_option_and_what_was_meant(option):
    with pytest.raises(ColumnNotFoundError) as caught:
        plan(**{option: NAMED[option]})
    assert f"the option {option}: there is no column 'nunber'; did you mean 'number'?" == str(caught.value)


ERRORS = {
    "a column that does not exist": ({"partitionBy": "other"}, ColumnNotFoundError, "other"),
    "a field of a struct": ({"dictionaryColumns": "parts.a"}, OptionError, "whole columns in dictionaryColumns"),
    "a position that does not exist": ({"partitionBy": "#4"}, OptionError, "positions below 4 in partitionBy"),
    "a struct as a dictionary": ({"dictionaryColumns": "parts"}, OptionError, "parts of struct"),
    "a partition column as a dictionary": (
        {"partitionBy": "word", "dictionaryColumns": "word"}, OptionError, "columns that stay in the files",
    ),
    "a struct as a partition column": ({"partitionBy": "parts"}, UnsupportedError, "parts"),
    "a level that does not exist": ({"compression": "zstd", "compressionLevel": "999"}, OptionError, "compressionLevel"),
    "statistics of a column that does not exist": ({"statistics": "other"}, ColumnNotFoundError, "other"),
    "statistics of a stream": ({"ipcFormat": "stream", "statistics": "number"}, OptionError, "cannot hold statistics"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_an_option_that_does_not_fit_the_columns_is_an_error(case):
    options, error, message = ERRORS[case]
    with pytest.raises(error, match=message):
        plan(**options)
