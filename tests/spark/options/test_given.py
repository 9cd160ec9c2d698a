"""Options that are wrong are errors that say what would be right."""

import pytest

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.options import (
    OPTIONS,
    READING,
    STREAMING,
    WRITING,
    parse_read,
    parse_stream,
    parse_write,
)

READ_ERRORS = {
    "near miss": ({"colums": "a"}, "there is no option colums; did you mean columns?"),
    "near miss of a stream's": ({"maxFilePerTrigger": "9"}, "there is no option maxFilePerTrigger; did you mean maxFilesPerTrigger?"),
    "far miss": ({"zzz": "true"}, "there is no option zzz for reading; 'python -m spark_arrow_ipc.spark.options' prints all of them"),
    "write option": ({"compression": "lz4"}, "the option compression is for writing, and here data is read; remove it (compression=lz4)"),
    "what Spark adds to a sink": ({"queryname": "q"}, "the option queryName is for writeStream, and here data is read; remove it"),
    "no size": ({"maxPartitionBytes": "12x"}, "the option maxPartitionBytes must be bytes, as a whole number or with a unit of k, m, g, t or p, and is '12x'; for example: 64m"),
    "no count": ({"minPartitionNum": "0"}, "must be a whole number of at least 1, and is '0'"),
    "no word": ({"times": "clock"}, "the option times must be one of noted, interval, time, long, and is 'clock'; for example: interval"),
    "no JSON": ({"paths": "/a"}, "must be a JSON array of paths"),
    "no strings": ({"paths": "[1]"}, "must be a JSON array of paths"),
    "empty path": ({"path": " "}, "must be a path"),
    "both": ({"path": "/a", "paths": '["/b"]'}, "exclude each other"),
    "headers and columns": ({"metadataOnly": "true", "columns": "a"}, "the option columns has no meaning"),
    "headers and a predicate": ({"metadataOnly": "true", "where": "a"}, "the option where has no meaning"),
    "no predicate": ({"where": " "}, "must be a predicate in Spark's SQL"),
    "no list": ({"columns": "a,,b"}, "the option columns must be column names separated by commas"),
    "filter": ({"filter": "a = 1"}, "there is no option filter for reading; the option where takes a predicate in Spark's SQL"),
    "predicate": ({"predicate": "a = 1"}, "there is no option predicate for reading; the option where takes"),
    "select": ({"select": "a"}, "there is no option select for reading; the option columns takes the names of the columns"),
    "limit": ({"limit": "5"}, "there is no option limit for reading; take the first rows of the DataFrame with limit(n)"),
    "schema": ({"schema": "a int"}, "there is no option schema for reading; give the types of columns to schema(...)"),
    "inferSchema": ({"inferSchema": "true"}, "there is no option inferSchema for reading; Arrow files have their schema"),
    "batch_size": ({"batch_size": "10"}, "there is no option batch_size for reading; a batch that Spark gets has"),
    "batchSize": ({"batchSize": "10"}, "there is no option batchSize for reading; a batch that Spark gets has"),
    "header": ({"header": "true"}, "there is no option header for reading; it is for text files"),
    "split-size": ({"split-size": "1"}, "there is no option split-size for reading; the option maxPartitionBytes"),
    "datetimeRebaseMode": ({"datetimeRebaseMode": "LEGACY"}, "there is no option datetimeRebaseMode for reading; Arrow files have one calendar"),
    "ignoreChanges": ({"ignoreChanges": "true"}, "there is no option ignoreChanges for reading; the option onOverwrite"),
    "startingTimestamp": ({"startingTimestamp": "2026-01-01"}, "there is no option startingTimestamp for reading; the option startingFrom"),
    "unfinishedAfter": ({"unfinishedAfter": "5m"}, "there is no option unfinishedAfter for reading; a stream of files waits"),
    "replaceWhere": ({"replaceWhere": "day = 1"}, "there is no option replaceWhere for reading; 'python -m"),
    "a list of Python's": ({"columns": "['id', 'a b']"}, """is "['id', 'a b']"; for example: ["id", "a b"]"""),
}  # fmt: skip


@pytest.mark.parametrize("case", READ_ERRORS)
def test_a_wrong_option_of_a_read_is_an_error_that_says_what_is_right(case):
    given, expected = READ_ERRORS[case]
    with pytest.raises(OptionError) as caught:
        parse_read(given)
    assert expected in str(caught.value)


WRITE_ERRORS = {
    "near miss": ({"compresion": "lz4"}, "there is no option compresion; did you mean compression?"),
    "durability": ({"durability": "none"}, "there is no option durability for writing; every step of a write survives"),
    "read option": ({"times": "long"}, "the option times is for reading, and here data is written"),
    "no number": ({"compressionLevel": "fast"}, "must be a whole number, and is 'fast'; for example: 9"),
    "partitions of no columns": (
        {"partitionBy": "all"},
        "the option partitionBy must be column names separated by commas",
    ),
    "batch_size": (
        {"batch_size": "10"},
        "there is no option batch_size for writing; the option recordBatchRows bounds a record batch",
    ),
    "recordBatchBytes": (
        {"recordBatchBytes": "1m"},
        "there is no option recordBatchBytes for writing; the option recordBatchRows bounds",
    ),
    "keepReplaced": (
        {"keepReplaced": "1h"},
        "there is no option keepReplaced for writing; the option retention says for how long a table retains",
    ),
    "commitRetention": (
        {"commitRetention": "7d"},
        "there is no option commitRetention for writing; the option retention says",
    ),
    "commit_retention": (
        {"commit_retention": "7d"},
        "there is no option commit_retention for writing; the option retention",
    ),
    "a negative retention": (
        {"retention": "-1"},
        "the option retention must be a number of seconds, or one with a unit of s, m, h or d, and is '-1'",
    ),
    "a retention of a word": ({"retention": "for ever"}, "the option retention must be a number of seconds"),
    "codec": ({"codec": "zstd"}, "there is no option codec for writing; the option compression names the codec"),
    "replaceWhere": (
        {"replaceWhere": "day = 1"},
        "there is no option replaceWhere for writing; partitionOverwriteMode=dynamic with mode overwrite replaces the partitions of the rows that are written",
    ),
    "overwriteSchema": (
        {"overwriteSchema": "true"},
        "there is no option overwriteSchema for writing; mode overwrite takes the columns",
    ),
    "mergeSchema": ({"mergeSchema": "true"}, "there is no option mergeSchema for writing; the option schemaCheck says"),
    "merge-schema": (
        {"merge-schema": "true"},
        "there is no option merge-schema for writing; the option schemaCheck says",
    ),
    "dataChange": (
        {"dataChange": "false"},
        "there is no option dataChange for writing; compact(spark, path) joins small files",
    ),
    "optimizeWrite": (
        {"optimizeWrite": "true"},
        "there is no option optimizeWrite for writing; repartition the DataFrame",
    ),
    "txnAppId": ({"txnAppId": "etl"}, "there is no option txnAppId for writing; the option commitToken"),
    "target-file-size-bytes": (
        {"target-file-size-bytes": "1"},
        "there is no option target-file-size-bytes for writing; the option maxFileBytes",
    ),
    "parquet.block.size": (
        {"parquet.block.size": "1"},
        "there is no option parquet.block.size for writing; the option maxFileBytes",
    ),
    "compression-codec": (
        {"compression-codec": "zstd"},
        "there is no option compression-codec for writing; the option compression names",
    ),
    "zOrderBy": (
        {"zOrderBy": "a"},
        "there is no option zOrderBy for writing; sort the DataFrame with sortWithinPartitions",
    ),
    "userMetadata": ({"userMetadata": "a"}, "there is no option userMetadata for writing; the options metadata.*"),
    "a pair without a key": ({"metadata.": "1"}, "there is no option metadata."),
    "contradiction": ({"compression": "none", "compressionLevel": "1"}, "no meaning with compression=none"),
}


@pytest.mark.parametrize("case", WRITE_ERRORS)
def test_a_wrong_option_of_a_write_is_an_error_that_says_what_is_right(case):
    given, expected = WRITE_ERRORS[case]
    with pytest.raises(OptionError) as caught:
        parse_write(given)
    assert expected in str(caught.value)


FREE = ("path", "basePath", "token", "commitToken", "sourceLog", "where", "metadata.*", "storage.*")
"""Options that take every string that is not blank; a predicate is parsed where the columns are known."""


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
@pytest.mark.parametrize("parse", [parse_read, parse_write, parse_stream])
def test_every_option_with_a_bad_value_names_itself_the_value_and_what_is_right(option, parse):
    side = {parse_read: READING, parse_write: WRITING}.get(parse, READING)
    is_of_side = side.option(option.name) is not None or (parse is parse_stream and STREAMING.option(option.name))
    name = option.name.replace("*", "key")
    for bad in (" ",) if option.name in FREE else (" ", "["):
        with pytest.raises(OptionError) as caught:
            parse({name: bad})
        words = str(caught.value)
        assert option.name in words
        assert option.is_secret or not is_of_side or repr(bad) in words
        assert not is_of_side or (option.expected in words and option.example in words)


def test_no_limit_of_rows_is_zero_as_in_spark():
    assert parse_write({"maxRecordsPerFile": "0"}).max_records_per_file is None
    assert parse_write({"maxRecordsPerFile": "7"}).max_records_per_file == 7


HOSTILE = {
    "brackets in brackets": "[" * 100_000,
    "brackets in a list": '["a", ' + "[" * 100_000,
    "objects in objects": '{"a":' * 100_000,
    "more digits than Python parses": "9" * 5_000,
    "a position of such": "#" + "9" * 5_000,
    "a number that no long holds": "9223372036854775808",
    "a size that no long holds": "8192p",
    "half a character pair": "a\ud800",
    "half of it from JSON": '["\\ud800"]',
    "fields of fields": "a." * 100_000 + "a",
    "megabytes": "x" * 5_000_000,
}


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize(("side", "parse"), [(READING, parse_read), (WRITING, parse_write)])
def test_no_value_is_more_than_an_option_error_of_some_lines(side, parse, case):
    for option in side:
        try:
            parse({option.name.replace("*", "key"): HOSTILE[case]})
        except OptionError as error:
            assert len(str(error)) < 1_000  # noqa: PT017 - most options take some of the values


def test_a_name_that_is_not_unicode_is_an_error():
    with pytest.raises(OptionError, match=r"the name of the option .* has the lone surrogate '.ud800' at character 1"):
        parse_read({"a\ud800": "b"})


NUMBERS = [("maxBatchBytes", "9223372036854775807", 2**63 - 1), ("maxBatchBytes", "8191p", 8191 << 50)]


@pytest.mark.parametrize(("name", "string", "value"), NUMBERS)
def test_numbers_are_those_of_a_java_long(name, string, value):
    assert value == parse_read({name: string}).max_batch_bytes


KEYS = [
    ("columns", READING, "columns"),
    ("COLUMNS", READING, "columns"),
    ("compression", READING, None),
    ("metadata.owner", WRITING, "metadata.*"),
    ("Metadata.a.b", WRITING, "metadata.*"),
    ("metadata.", WRITING, None),
    ("metadata", WRITING, None),
]


@pytest.mark.parametrize(("key", "side", "name"), KEYS, ids=[case[0] for case in KEYS])
def test_the_option_of_a_key(key, side, name):
    option = side.option(key)
    assert name == (option and option.name)


def test_the_table_has_the_options_of_both_sides_once():
    names = [option.name for option in OPTIONS]
    assert ["path", "paths", "columns"] == names[:3]
    assert len(names) == len(set(names))
    assert {option.name for option in (*READING, *STREAMING, *WRITING)} == set(names)
