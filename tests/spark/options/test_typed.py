"""`spark_arrow_ipc.options`: Python values become the strings of options, and mistakes are named, at run time and by mypy."""

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path, PurePosixPath
from typing import get_type_hints

import pyarrow as pa
import pytest

from spark_arrow_ipc import options
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.declare import Use
from spark_arrow_ipc.spark.options.options import OPTIONS, READING, STREAMING, WRITING, of_compactions
from spark_arrow_ipc.spark.options.values import Nanoseconds

ROOT = Path(__file__).parents[3]
OPTIONS_PACKAGE = ROOT / "spark_arrow_ipc" / "spark" / "options"
HELPER = [str(OPTIONS_PACKAGE / name) for name in ("typed.py", "keywords.py")]
CALLED = [
    str(OPTIONS_PACKAGE.parent / name)
    for name in ("functions/aggregate.py", "functions/map_in_arrow.py", "rewrite/compact.py", "rewrite/rewrite.py")
]  # fmt: skip
EAST = timezone(timedelta(hours=5, minutes=30))


def names(side):
    return {option.name.removesuffix(".*") for option in side}


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        ("ReadKeywords", names(READING)),
        ("ReadStreamKeywords", names([option for option in (*READING, *STREAMING) if option.applies & Use.STREAMS])),
        ("WriteKeywords", names(WRITING)),
        ("WriteStreamKeywords", names([option for option in WRITING if Use.QUERY in option.applies])),
        ("CountKeywords", names(READING) - {"path", "paths", "where"}),
        ("FunctionKeywords", names(READING) - {"path", "paths"}),
        ("RewriteKeywords", names([*READING, *WRITING]) - {"path", "paths"}),
        ("CompactKeywords", names(of_compactions())),
    ],
)
def test_each_side_has_its_options(cls, expected):
    assert expected == set(get_type_hints(getattr(options, cls)))


# function, arguments, strings
VALUES = {
    "nothing": (options.read, {}, {}),
    "a predicate and columns": (
        options.read,
        {"where": "year = 2024", "columns": ["id", "a.b", "`x,y`", "#3"]},
        {"where": "year = 2024", "columns": '["id", "a.b", "`x,y`", "#3"]'},
    ),
    "columns as Spark takes them": (options.read, {"columns": "id, name"}, {"columns": "id, name"}),
    "a tuple of columns": (options.write, {"partitionBy": ("day",)}, {"partitionBy": '["day"]'}),
    "flags": (options.read, {"mergeSchema": True, "verifyChecksums": False}, {"mergeSchema": "true", "verifyChecksums": "false"}),
    "sizes": (options.read, {"maxPartitionBytes": 1 << 20, "maxBatchBytes": "64m"}, {"maxPartitionBytes": "1048576", "maxBatchBytes": "64m"}),
    "counts": (options.write, {"recordBatchRows": 7, "compressionLevel": -3}, {"recordBatchRows": "7", "compressionLevel": "-3"}),
    "a word": (options.write, {"compression": "zstd"}, {"compression": "zstd"}),
    "a word of an enum": (options.read, {"nanoseconds": Nanoseconds.LONG}, {"nanoseconds": "long"}),
    "a word where columns may stand": (options.write, {"statistics": "all"}, {"statistics": "all"}),
    "columns where a word may stand": (options.write, {"dictionaryColumns": ["auto"]}, {"dictionaryColumns": '["auto"]'}),
    "seconds": (options.write, {"retention": 60}, {"retention": "60"}),
    "durations": (options.write, {"retention": timedelta(minutes=10)}, {"retention": "600s"}),
    "a pause": (options.read_stream, {"pollInterval": timedelta(milliseconds=200)}, {"pollInterval": "200ms"}),
    "a time": (options.read, {"modifiedAfter": datetime(2026, 6, 1, 13)}, {"modifiedAfter": "2026-06-01T13:00:00"}),
    "a time with a zone": (options.read, {"modifiedBefore": datetime(2026, 6, 1, 13, tzinfo=EAST)}, {"modifiedBefore": "2026-06-01T07:30:00+00:00"}),
    "paths": (options.read, {"paths": [PurePosixPath("/a"), "/b"]}, {"paths": '["/a", "/b"]'}),
    "a path": (options.read, {"basePath": PurePosixPath("/a")}, {"basePath": "/a"}),
    "tensors": (options.write, {"tensorColumns": {"image": (224, 224, 3), "t": [None, 768]}}, {"tensorColumns": "image:224x224x3, t:?x768"}),
    "lengths": (options.write, {"fixedSizeLists": {"embedding": 768, "b": 3}}, {"fixedSizeLists": "embedding:768, b:3"}),
    "metadata": (options.write, {"metadata": {"owner": "me", "a.b": "c"}}, {"metadata.owner": "me", "metadata.a.b": "c"}),
    "storage": (options.read, {"storage": {"region": "eu"}}, {"storage.region": "eu"}),
    "a key of storage": (options.read, {"storage.region": "eu"}, {"storage.region": "eu"}),
    "a token without a path": (options.read, {"token": "s3cret"}, {"token": "s3cret"}),
    "a time with its zone": (
        options.read_stream,
        {"startingFrom": datetime(2026, 6, 1, 13, tzinfo=UTC)},
        {"startingFrom": "2026-06-01T13:00:00+00:00"},
    ),
    "a record of commits": (options.read_stream, {"startingFrom": 17}, {"startingFrom": "17"}),
    "a stream's file": (options.write_stream, {"ipcFormat": "stream"}, {"ipcFormat": "stream"}),
    "names in any case": (options.read, {"MERGESCHEMA": True}, {"MERGESCHEMA": "true"}),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_values_become_strings(case):
    function, given, expected = VALUES[case]
    assert expected == function(**given)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_takes_its_example(option):
    """Nothing but its value is at fault then."""
    side = next(side for side in (READING, STREAMING, WRITING) if option in side)
    function = {id(READING): options.read, id(STREAMING): options.read_stream, id(WRITING): options.write}[id(side)]
    keyword = option.name.removesuffix(".*")
    value = {"key": option.example} if option.name.endswith(".*") else option.example
    assert set(function(**{keyword: value})) == {f"{keyword}.key" if option.name.endswith(".*") else keyword}


# function, arguments, message
MISTAKES = {
    "misspelt": (options.read, {"wehre": "a = 1"}, "there is no option wehre; did you mean where?"),
    "unknown": (options.write, {"bucketBy": 8}, "there is no option bucketBy for writing"),
    "of the other side": (options.read, {"compression": "zstd"}, "the option compression is for writing"),
    "an option of earlier releases": (options.write, {"keepReplaced": 60}, "no option keepReplaced for writing; the option retention"),
    "of streams": (options.read, {"tail": True}, "the option tail is for reading streams"),
    "a wrong word": (options.write, {"compression": "zst"}, "compression must be one of lz4, zstd, none, and is 'zst'"),
    "a number as a flag": (options.read, {"mergeSchema": 1}, "mergeSchema takes bool, and was given 1 of type int; as a string: true"),
    "a flag as a number": (options.read, {"minPartitionNum": True}, "minPartitionNum takes int, and was given True of type bool"),
    "None": (options.read, {"where": None}, "where takes str, and was given None of type NoneType"),
    "a fraction": (options.write, {"maxFileBytes": 1e6}, r"takes int \| str, and was given 1000000.0 of type float"),
    "too small": (options.write, {"recordBatchRows": 0}, "recordBatchRows must be a whole number of at least 1, and is '0'"),
    "a set of columns": (options.read, {"columns": {"a"}}, "columns takes .* and was given {'a'} of type set"),
    "columns by number": (options.read, {"columns": [1]}, "columns takes"),
    "no column": (options.read, {"columns": []}, "columns must be column names"),
    "half a second": (options.write, {"retention": timedelta(seconds=0.5)}, "retention takes"),
    "a duration before now": (options.write, {"retention": timedelta(seconds=-5)}, "retention must be a number of seconds"),
    "a negative number of seconds": (options.write, {"retention": -5}, "retention must be a number of seconds"),
    "a date": (options.read, {"modifiedAfter": datetime(2026, 6, 1, tzinfo=UTC).date()}, "modifiedAfter takes"),
    "a path of bytes": (options.read, {"path": b"/a"}, "path takes"),
    "a shape of words": (options.write, {"tensorColumns": {"a": ["x"]}}, "tensorColumns takes"),
    "a shape that is a number": (options.write, {"tensorColumns": {"a": 3}}, "tensorColumns takes"),
    "columns without shapes": (options.write, {"tensorColumns": ["a"]}, "tensorColumns takes"),
    "lengths that are words": (options.write, {"fixedSizeLists": {"a": "x"}}, "fixedSizeLists takes"),
    "columns without lengths": (options.write, {"fixedSizeLists": ["a"]}, "fixedSizeLists takes"),
    "storage without keys": (options.read, {"storage": "eu"}, "storage.* takes"),
    "metadata that is no string": (options.write, {"metadata": {"a": 1}}, "metadata.* takes"),
    "what excludes each other": (options.read, {"metadataOnly": True, "where": "a = 1"}, "metadataOnly=true reads no rows"),
    "of batches": (options.read_stream, {"metadataOnly": True}, "metadataOnly=true is for batch reads"),
    "of jobs": (options.write_stream, {"commitToken": "a"}, "commitToken is for single jobs"),
    "half of a character": (options.read, {"where": "\ud800"}, "is not Unicode"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_errors(case):
    function, given, message = MISTAKES[case]
    with pytest.raises(OptionError, match=message):
        function(**given)


@pytest.mark.parametrize("given", [{"token": 12345}, {"storage": {"secret": 12345}}, {"storage": 12345}])
def test_no_error_shows_a_secret(given):
    with pytest.raises(OptionError) as raised:
        options.read(**given)
    assert "12345" not in str(raised.value)


def test_spark_takes_them(spark, tmp_path):
    path = str(tmp_path / "x")
    frame = spark.createDataFrame(pa.table({"id": [1, 2, 3], "day": ["a", "b", "b"]}))
    written = options.write(compression="zstd", partitionBy=["day"], metadata={"owner": "me"}, commitToken="1")
    for _ in range(2):
        frame.write.format("arrowipc").mode("append").options(**written).save(path)
    read = spark.read.format("arrowipc").options(**options.read(where="day = 'b'", columns=["id"], mergeSchema=True))
    assert [2, 3] == sorted(row["id"] for row in read.load(path).collect())


@pytest.mark.slow
def test_they_cost_nobody_who_does_not_use_them():
    """Neither the planners nor the workers of Spark import them; and they import no Spark."""
    script = (
        "import sys, spark_arrow_ipc.spark.read.reader, spark_arrow_ipc.spark.write.writer, spark_arrow_ipc.spark.datasource\n"
        "print(*(name for name in sys.modules if name.endswith(('options.typed', 'options.keywords'))))"
    )
    alone = "import sys; sys.modules['pyspark'] = sys.modules['pyarrow'] = None; from spark_arrow_ipc import options; print(options.read())"
    for program, expected in [(script, "\n"), (alone, "{}\n")]:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
        assert (expected, 0) == (done.stdout, done.returncode), done.stderr


# A line of a program, and what a type checker says of it; None for nothing.
PROGRAM = [
    ('options.read(where="a = 1", columns=["id"], mergeSchema=True, maxPartitionBytes=1 << 20)', None),
    ('options.read(columns="id, name", basePath=Path("x"), modifiedAfter=datetime(2026, 6, 1))', None),
    ('options.write(compression="zstd", partitionBy=("day",), retention=timedelta(minutes=10))', None),
    ('options.write(statistics=["id"], dictionaryColumns="auto", tensorColumns={"a": (2, None)})', None),
    ('options.read_stream(maxFilesPerTrigger=7, startingFrom=17, where="a = 1", cleanSource="delete")', None),
    ('options.write_stream(compression="lz4", metadata={"owner": "me"})', None),
    ('options.read(wehre="a = 1")', 'Unexpected keyword argument "wehre"'),
    ('options.read(compression="zstd")', 'Unexpected keyword argument "compression"'),
    ('options.write(compression="zst")', "Literal['zst']"),
    ('options.write(statistics="everything")', "Literal['everything']"),
    ("options.read(mergeSchema=1)", 'expected "bool"'),
    ('options.read(columns={"id"})', 'expected "str | Sequence[str]"'),
    ('options.read_stream(startingFrom="newest")', "Literal['newest']"),
    ("options.read_stream(metadataOnly=True)", 'Unexpected keyword argument "metadataOnly"'),
    ('options.write_stream(commitToken="a")', 'Unexpected keyword argument "commitToken"'),
]  # fmt: skip


# The same, of functions that read or rewrite.
FUNCTIONS = [
    ('count(spark, "p", "a = 1", pathGlobFilter="*.arrow", storage={"region": "eu"})', None),
    ('aggregate(spark, "p", aggregates={"n": "count(*)"}, where="a = 1", mergeSchema=True)', None),
    ('map_in_arrow(spark, ["p"], kept, "a int", columns=["a"], vectors="binary")', None),
    ('rewrite(spark, "p", Path("q"), mode="overwrite", where="a = 1", compression="zstd", partitionBy=["a"])', None),
    ('compact(spark, "p", sort_by="a", retention=timedelta(hours=2), modifiedBefore=datetime(2026, 6, 1))', None),
    ('count(spark, "p", patGlobFilter="*.arrow")', 'Unexpected keyword argument "patGlobFilter"'),
    ('aggregate(spark, "p", aggregates={}, compression="zstd")', 'Unexpected keyword argument "compression"'),
    ('map_in_arrow(spark, ["p"], kept, "a int", wehre="a = 1")', 'Unexpected keyword argument "wehre"'),
    ('map_in_arrow(spark, ["p"], kept, "a int", vectors="bytes")', "Literal['bytes']"),
    ('rewrite(spark, "p", "q", sortBy="a")', 'Unexpected keyword argument "sortBy"'),
    ('compact(spark, "p", where="a = 1")', 'Unexpected keyword argument "where"'),
]  # fmt: skip

SESSION = """
from typing import Any
from spark_arrow_ipc.spark.functions.aggregate import aggregate
from spark_arrow_ipc.spark.functions.aggregate import count
from spark_arrow_ipc.spark.functions.map_in_arrow import map_in_arrow
from spark_arrow_ipc.spark.rewrite.compact import compact
from spark_arrow_ipc.spark.rewrite.rewrite import rewrite
spark: Any
kept: Any
""".strip()


# What a program imports, and arguments of mypy: the helper alone, or all that the package's name stands for.
CHECKS = [
    pytest.param("from spark_arrow_ipc.spark.options import typed as options", ["--follow-imports=skip", *HELPER], PROGRAM, id="alone"),
    pytest.param("from spark_arrow_ipc import options", [], PROGRAM, marks=pytest.mark.nightly, id="package"),
    pytest.param(SESSION, ["--follow-imports=skip", *HELPER, *CALLED], FUNCTIONS, id="functions"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("imported", "arguments", "program"), CHECKS)
def test_mypy_tells_the_same_mistakes(tmp_path, imported, arguments, program):
    """In its strict mode, as in a program of a user's."""
    pytest.importorskip("mypy")
    head = ["from datetime import datetime, timedelta", "from pathlib import Path", *imported.split("\n")]
    (tmp_path / "user.py").write_text("\n".join([*head, *(line for line, _ in program)]) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}"]
    done = subprocess.run(
        [*command, *arguments, "user.py"],
        capture_output=True, text=True, cwd=tmp_path, env={"MYPYPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    errors = re.findall(r"^user.py:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    told = {int(number): text for number, text in errors}
    for number, (line, expected) in enumerate(program, len(head) + 1):
        assert (expected or "") in told.pop(number, "nothing" if expected else ""), (line, done.stdout)
    assert {} == told
