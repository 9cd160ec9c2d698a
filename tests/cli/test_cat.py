"""``arrowipc cat`` prints the rows that pyarrow wrote."""

import base64
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pytest

from spark_arrow_ipc.cli.main import main

pa = pytest.importorskip("pyarrow")


def write(path, table, kind="file", step=2):
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with make(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=step)
    return str(path)


def printed(capsys, *arguments):
    status = main(["cat", *arguments])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


@pytest.fixture
def path(tmp_path):
    return write(
        tmp_path / "x.arrow", pa.table({"a": [1, 22, None, 4, 5], "name": ["Zoë", "b\x1b[31m", "", None, "x" * 99]})
    )


def test_a_table_stands_in_columns(capsys, path):
    status, lines, err = printed(capsys, path)
    assert (0, "") == (status, err)
    assert ["   a  name", "   1  Zoë", "  22  b\\x1b[31m", "", "   4"] == lines[:5]
    assert "x" * 60 + "... (39 characters more)" in lines[5]


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize(("limit", "rows"), [(0, 0), (1, 1), (2, 2), (3, 3), (99, 5)])
def test_rows_are_limited_over_batches_and_files(capsys, tmp_path, kind, limit, rows):
    (tmp_path / "d").mkdir()
    for name, first in [("1", 0), ("2", 3)]:
        write(tmp_path / "d" / name, pa.table({"a": range(first, first + (3 if first == 0 else 2))}), kind)
    _, lines, _ = printed(capsys, "--format", "jsonl", "--limit", str(limit), str(tmp_path / "d"))
    assert [{"a": i} for i in range(rows)] == [json.loads(line) for line in lines]


def test_columns_are_chosen_by_name_and_position(capsys, path):
    _, lines, _ = printed(capsys, "--format", "jsonl", "--columns", "name,#0", "--limit", "1", path)
    assert ['{"name": "Zoë", "a": 1}'] == lines
    status, _, err = printed(capsys, "--columns", "other", path)
    assert 1 == status
    assert f"{path}: " in err
    assert "other" in err


VALUES = [
    ("integer", pa.array([2**60]), 2**60),
    ("not a number", pa.array([float("nan")]), "NaN"),
    ("infinite", pa.array([float("-inf")]), "-Infinity"),
    ("decimal", pa.array([Decimal("1.50")]), "1.50"),
    ("binary", pa.array([b"\xff\0"]), base64.b64encode(b"\xff\0").decode()),
    ("date", pa.array([dt.date(1969, 7, 20)]), "1969-07-20"),
    ("time", pa.array([dt.time(1, 2, 3)]), "01:02:03"),
    ("instant", pa.array([dt.datetime(2026, 1, 2, tzinfo=dt.UTC)]), "2026-01-02T00:00:00+00:00"),
    ("duration", pa.array([dt.timedelta(days=1, seconds=2)]), "1 day, 0:00:02"),
    ("nested", pa.array([{"a": [b"x"], "b": None}]), {"a": ["eA=="], "b": None}),
    ("map", pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float64())), [["k", 1.5]]),
    ("months", pa.array([pa.MonthDayNano([1, 2, 3])]), [1, 2, 3]),
]


@pytest.mark.parametrize(("array", "expected"), [c[1:] for c in VALUES], ids=[c[0] for c in VALUES])
def test_each_value_is_json(capsys, tmp_path, array, expected):
    path = write(tmp_path / "x", pa.table({"v": array}))
    _, (line,), _ = printed(capsys, "--format", "jsonl", path)
    assert {"v": expected} == json.loads(line)


@pytest.mark.parametrize(
    ("type_", "texts"),
    [
        (pa.timestamp("ns"), ["1970-01-01 00:00:00.000000001", "1970-01-01 00:00:00.000001000"]),
        (pa.time64("ns"), ["00:00:00.000000001", "00:00:00.000001000"]),
        (pa.duration("ns"), ["0:00:00.000000001", "0:00:00.000001000"]),
    ],
    ids=str,
)
def test_nanoseconds_are_text_with_nine_digits_in_every_row(capsys, tmp_path, type_, texts):
    """A column in which whole microseconds were text and all else bare integers."""
    path = write(
        tmp_path / "x", pa.table({"v": pa.array([1, 1000], type_), "list": pa.array([[1], [1000]], pa.list_(type_))})
    )
    _, lines, _ = printed(capsys, path)
    assert [f"  {text}  ['{text}']" for text in texts] == lines[1:]
    _, lines, _ = printed(capsys, "--format", "jsonl", path)
    iso = [text.replace(" ", "T") for text in texts]
    assert [{"v": text, "list": [text]} for text in iso] == [json.loads(line) for line in lines]


HOSTILE = "\x1b[31m\x7f\x9b31m\u202e\u2066\n"


@pytest.mark.parametrize("form", ["table", "jsonl"])
def test_no_control_character_of_a_file_is_printed(capsys, tmp_path, form):
    """A terminal obeys U+009B as it does ESC [, and U+202E turns the text after it around."""
    path = write(tmp_path / "x", pa.table({HOSTILE: [HOSTILE], "nested": [[{HOSTILE: HOSTILE}]]}))
    status, lines, _ = printed(capsys, "--format", form, path)
    assert 0 == status
    assert all(line.isprintable() for line in lines)
    assert {"table": 2, "jsonl": 1}[form] == len(lines)
    status, _, err = printed(capsys, "--columns", HOSTILE + "x", path)
    assert 1 == status
    assert err.removesuffix("\n").isprintable()


def test_names_that_occur_twice_keep_both_values(capsys, tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "a_1"])
    _, (line,), _ = printed(capsys, "--format", "jsonl", write(tmp_path / "x", table))
    assert [1, 2, 3] == list(json.loads(line).values())


def test_a_file_without_rows_shows_its_columns(capsys, tmp_path):
    path = write(tmp_path / "x", pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())}))
    assert (0, ["  a  b"], "") == printed(capsys, path)


def test_rows_before_a_broken_batch_are_printed(capsys, path):
    data = bytearray(Path(path).read_bytes())
    data[data.rindex(b"x" * 99)] = 0xFF
    Path(path).write_bytes(data)
    status, lines, err = printed(capsys, "--format", "jsonl", path)
    assert (1, 4) == (status, len(lines))
    assert "record batch 2, field name: expected UTF-8" in err


def test_a_row_of_too_many_values_is_an_error_after_the_rows_before_it(capsys, tmp_path, monkeypatch):
    """A list over a run of billions was a MemoryError, though only five rows were asked for."""
    for budget in ("_ROW_NBYTES", "_TOGETHER_NBYTES"):
        monkeypatch.setattr(f"spark_arrow_ipc.cli.shared.rows.{budget}", 10_000)
    path = write(tmp_path / "x.arrow", pa.table({"a": [[1], list(range(1000)), [2]]}), step=3)
    status, lines, err = printed(capsys, path)
    assert (1, ["  a", "  [1]"]) == (status, lines)
    assert "record batch 0, field a: row 1 takes" in err
