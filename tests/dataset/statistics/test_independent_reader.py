"""The reader of statistics in examples/, which has nothing of this package, prints what this package reads."""

import base64
import io
import json
import subprocess
import sys
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from statistics_cases import write_described

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.statistics import Statistics
from spark_arrow_ipc.dataset.statistics.collect import StatisticsCollector
from spark_arrow_ipc.dataset.statistics.format import FINGERPRINT_KEY, KEY, array_of
from spark_arrow_ipc.dataset.statistics.read import StatisticsWarning, file_statistics

pa = pytest.importorskip("pyarrow")

READER = Path(__file__).parents[3] / "examples" / "read_statistics.py"
PAGE = READER.parents[1] / "docs" / "statistics.md"
TEMPORAL = (t.Date, t.Time, t.Timestamp, t.Duration)


def read_by_example(path):
    """Run the example in a process that finds nothing of this package."""
    program = [sys.executable, "-P", str(READER), str(path)]
    return subprocess.run(program, capture_output=True, text=True, cwd="/")


def lines_of(path):
    """Return the lines that the example must print, from the statistics that this package reads."""
    with ipc.open(str(path)) as reader:
        statistics = file_statistics(reader)
    lines = []
    for names, column in statistics.columns.items():
        ends = [
            raws if isinstance(column.type, TEMPORAL) else array_of(raws, column.type).to_pylist()
            for raws in (column.least, column.greatest)
        ]
        exact = zip(column.least_exact, column.greatest_exact, strict=True)
        rows = zip(statistics.row_counts, column.null_counts, column.nan_counts, *ends, map(list, exact), strict=True)
        lines += [json.dumps([i, names, *row], default=str) for i, row in enumerate(rows)]
    return lines


def test_it_is_short_and_imports_nothing_of_this_package():
    lines = READER.read_text().splitlines()
    assert len(lines) <= 60
    assert {"base64", "flatbuffers.table", "json", "pyarrow", "struct", "sys", "xxhash"} == {
        line.split()[1] for line in lines if line.startswith(("import ", "from "))
    }


NAN = float("nan")
COLUMNS = [
    ("int", t.int16, [3, -4, None, 7]),
    ("uint", t.uint64, [2**64 - 1, 0, None, 1]),
    ("bool", t.bool_, [True, False, None, True]),
    ("float", t.float64, [1.5, NAN, None, -0.0]),
    ("nan", t.float32, [NAN, NAN, None, NAN]),
    ("nulls", t.int64, [None] * 4),
    ("decimal", t.Decimal(38, 2, 128), [Decimal("1.25"), Decimal(-7), None, Decimal(10**30)]),
    ("date", t.date32, [date(2025, 1, 1), date(1969, 12, 31), None, date(9999, 12, 31)]),
    ("at", t.Timestamp(t.TimeUnit.MICROSECOND, "UTC"), [datetime(2025, 1, 1), datetime(1960, 1, 1), None, None]),
    ("for", t.Duration(t.TimeUnit.SECOND), [timedelta(1), timedelta(-2), None, timedelta(0)]),
    ("text", t.utf8, ["a" * 70, "\ud7ff" * 30, None, "b"]),
    ("last", t.large_utf8, ["a", "\U0010ffff" * 20, None, "b"]),
    ("view", t.utf8_view, ["a" * 64, "é" * 40, None, "b"]),
    ("bytes", t.binary, [b"\xff" * 70, b"", None, b"\x00" * 65]),
    ("wide", t.FixedSizeBinary(70), [b"b" * 70, b"a" * 70, None, b"c" * 70]),
    ("dictionary", t.dictionary(t.int8, t.utf8), ["x", "y", None, "x"]),
    ("list", t.list_(t.int8), [[1], [], None, [2]]),
    ("struct", t.struct([("x", t.int8), ("deep", t.struct([("y", t.utf8)]))]), [{"x": 1, "deep": {"y": "é"}}, {"x": 2, "deep": None}, None, {"x": None, "deep": {"y": "z" * 65}}]),
]  # fmt: skip


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_it_prints_what_this_package_reads(tmp_path, compression):
    schema = Schema.of([t.field(name, type_) for name, type_, _ in COLUMNS])
    rows = [{name: values[i] for name, _, values in COLUMNS} for i in range(4)]
    batches = [RecordBatch.from_pylist(part, schema) for part in (rows, rows[2:3], [], rows[1:])]
    path = tmp_path / "file.arrow"
    with path.open("wb") as sink:
        write_described(sink, batches, schema, compression=compression)
    answer = read_by_example(path)
    assert (lines_of(path), "") == (answer.stdout.splitlines(), answer.stderr)
    printed = {(i, *names): row for i, names, *row in map(json.loads, answer.stdout.splitlines())}
    assert len(printed) == 4 * 18, "all but the list, and two of the struct"
    assert printed[0, "text"] == [4, 1, None, "a" * 64, "\ud7ff" * 20 + "\ue000", [False, False]]
    assert printed[0, "last"] == [4, 1, None, "a", None, [True, False]]
    assert printed[0, "nan"] == [4, 1, 3, None, None, [False, False]]
    assert printed[0, "struct", "deep", "y"] == [4, 2, None, "z" * 64, "é", [False, True]]


@pytest.mark.slow
def one_column(sink, **options):
    schema = Schema.of([t.field("a", t.int32)])
    write_described(sink, [RecordBatch.from_pylist([{"a": 1}], schema)], schema, **options)


def copied_by_pyarrow(path):
    """The same schema, other rows, and the footer's metadata, as programs copy them."""
    sink = io.BytesIO()
    one_column(sink)
    reader = pa.ipc.open_file(sink.getvalue())
    with pa.ipc.new_file(str(path), reader.schema, metadata=reader.metadata) as writer:
        writer.write_batch(pa.record_batch({"a": pa.array([7], pa.int32())}))


def with_another_header(path):
    sink = io.BytesIO()
    one_column(sink)
    data = bytearray(sink.getvalue())
    with ipc.open(bytes(data)) as reader:
        block = reader.blocks[0]
    data[block.byte_offset + block.metadata_nbytes - 1] ^= 1
    path.write_bytes(data)


def with_bounds_of_another_type(path):
    """The bounds are of the type int8, and the column is of int32."""
    small = Schema.of([t.field("a", t.int8)])

    def narrowed(pair):
        collector = StatisticsCollector(small, Statistics.ALL)
        collector.add(RecordBatch.from_pylist([{"a": 1}], small))
        return collector.pair(fingerprint=fingerprint_of(pair))

    with path.open("wb") as sink:
        one_column(sink, change=narrowed)


def fingerprint_of(pair):
    with ipc.open_stream(base64.b64decode(pair[1])) as reader:
        return dict(reader.schema.custom_metadata)[FINGERPRINT_KEY]


REFUSED = [
    (copied_by_pyarrow, "nothing proves"),
    (with_another_header, "nothing proves"),
    (with_bounds_of_another_type, "break a rule"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED, ids=[make.__name__ for make, _ in REFUSED])
def test_it_refuses_what_this_package_refuses(tmp_path, make, words):
    path = tmp_path / "file.arrow"
    make(path)
    with ipc.open(str(path)) as reader:
        assert KEY in dict(reader.custom_metadata)
        with pytest.warns(StatisticsWarning):
            assert file_statistics(reader) is None
    answer = read_by_example(path)
    assert answer.returncode != 0
    assert words in answer.stderr
    assert answer.stdout == ""
