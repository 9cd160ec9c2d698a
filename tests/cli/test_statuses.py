"""Every command takes files, directories, patterns and stdin, and its exit status is what docs/cli.md says."""

import io
import json
import re
import shutil
from pathlib import Path

import pytest
from commit_jobs import save_files

from spark_arrow_ipc.cli import doctor
from spark_arrow_ipc.cli.main import COMMANDS, main

pa = pytest.importorskip("pyarrow")

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
WRITING = ("concat", "repair", "rewrite", "split", "convert")
ROWS = ("head", "tail", "sample")
READING = ("inspect", "validate", "cat", "count", "schema", *ROWS, *WRITING)


def content(*numbers, stream=False):
    table = pa.table({"a": numbers})
    sink = io.BytesIO()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A committed lake of two jobs, with all that a commit leaves beside data; and files."""
    tmp_path = tmp_path_factory.mktemp("data")
    save_files(tmp_path / "lake", [("k=1", content(1, 2)), ("k=2", content(3))])
    save_files(tmp_path / "lake", [("k=2", content(4, stream=True))])
    save_files(tmp_path / "plain", [("", content(1, 2, 3)), ("", content(4))])
    (tmp_path / "one.arrow").write_bytes(content(1, 2, 3, 4))
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.arrow").write_bytes(content(1, 2, 3, 4)[:-9])
    (tmp_path / "lost.arrow").write_bytes(b"no Arrow file at all")
    assert {"_SUCCESS", "_ipc_log"} < {path.name for path in (tmp_path / "lake").iterdir()}
    return tmp_path


@pytest.fixture
def data(written, monkeypatch):
    """The current directory is that of the data; what a test writes is `target` and `x.json`."""
    monkeypatch.chdir(written)
    yield written
    for path in (written / "target", written / "x.json"):
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)


def run(capsys, command, *arguments):
    target = ["target"] if command in WRITING else []
    size = ["--rows", "3"] if command == "split" else []
    status = main([command, *size, *arguments, *target])
    return status, *capsys.readouterr()


FOUR_ROWS = ["one.arrow", "plain", "plain/*.arrow", "lake", "lake/k=*", "lake/**/*.arrow", "-"]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("path", FOUR_ROWS)
@pytest.mark.parametrize("recursive", [[], ["-r"]], ids=["", "recursive"])
@pytest.mark.parametrize("command", READING)
def test_every_command_takes_every_kind_of_path(capsys, data, monkeypatch, command, path, recursive):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content(1, 2, 3, 4))))
    status, out, err = run(capsys, command, *recursive, path)
    assert (0, "") == (status, err)
    assert out
    if command in WRITING:
        status, out, _ = run(capsys, "count", "-r", "target")[:3]
        assert sum(int(line.split("\t")[0]) for line in out.splitlines() if not line.endswith("total")) == 4


@pytest.mark.parametrize("recursive", [[], ["-r"]], ids=["", "recursive"])
def test_rows_of_partitions_have_their_columns_everywhere(capsys, data, recursive):
    expected = [{"a": 1, "k": 1}, {"a": 2, "k": 1}, {"a": 3, "k": 2}, {"a": 4, "k": 2}]
    lines = run(capsys, "cat", "--format", "jsonl", *recursive, "lake")[1].splitlines()
    assert expected == sorted(map(json.loads, lines), key=lambda row: row["a"])
    run(capsys, "concat", *recursive, "lake")
    assert expected == sorted(pa.ipc.open_file("target").read_all().to_pylist(), key=lambda row: row["a"])
    described = run(capsys, "inspect", "--json", *recursive, "lake")[1].splitlines()
    assert ["1", "2", "2"] == [json.loads(line)["partition"][0]["value"] for line in described]
    assert 3 == run(capsys, "inspect", *recursive, "lake")[1].count("columns of the path: 1")


def test_validate_says_that_our_own_data_sets_are_good(capsys, data):
    status, out, _ = run(capsys, "validate", "lake", "plain")
    assert (0, 5, 5) == (status, len(out.splitlines()), out.count(": ok: "))


NOTHING = ["missing.arrow", "empty", "*.feather", "lost.arrow"]


@pytest.mark.parametrize("path", NOTHING)
@pytest.mark.parametrize("command", READING)
def test_where_there_is_nothing_to_read_the_status_is_1(capsys, data, command, path):
    status, out, err = run(capsys, command, path)
    assert 1 == status
    assert path.strip("*") in out + err
    assert not (data / "target").exists()


@pytest.mark.parametrize("command", ["inspect", "validate", "count"])
@pytest.mark.parametrize("bad", ["bad.arrow", "missing.arrow", "lost.arrow"])
def test_a_bad_path_makes_the_status_1_and_hides_no_other(capsys, data, command, bad):
    status, out, _ = run(capsys, command, bad, "one.arrow")
    assert 1 == status
    assert "one.arrow" in out


@pytest.mark.parametrize("command", [command for command in READING if command != "repair"])
def test_a_broken_file_is_named_and_nothing_is_written(capsys, data, command):
    status, out, err = run(capsys, command, "bad.arrow")
    assert 1 == status
    assert "bad.arrow" in (out + err).splitlines()[0]
    assert not (data / "target").exists()


STATUSES = [
    ("layout", ["one.arrow", "target"], 0),
    ("layout", ["-", "target"], 0),
    ("layout", ["bad.arrow", "target"], 1),
    ("layout", ["lake", "target"], 1),
    ("diff", ["one.arrow", "one.arrow"], 0),
    ("diff", ["one.arrow", "plain"], 0),
    ("diff", ["one.arrow", "-"], 0),
    ("diff", ["one.arrow", "plain/*.arrow"], 0),
    ("diff", ["one.arrow", "lake"], 1),
    ("diff", ["one.arrow", "bad.arrow"], 1),
    ("split", ["one.arrow", "target"], 2),
    ("inspect", ["--stats", "one.arrow", "bad.arrow"], 1),
    ("repair", ["bad.arrow", "target"], 0),
    ("repair", ["one.arrow", "target"], 0),
    ("repair", ["lost.arrow", "one.arrow", "target"], 1),
    ("concat", ["one.arrow", "bad.arrow", "target"], 1),
    ("concat", ["one.arrow", "lake", "target"], 1),
    ("cat", ["one.arrow", "bad.arrow"], 1),
    ("copy", ["lake", "target"], 0),
    ("copy", ["lake", "plain"], 1),
    ("copy", ["one.arrow", "target"], 1),
    ("copy", ["lake"], 2),
    ("fsck", ["lake"], 0),
    ("fsck", ["--deep", "plain"], 1),
    ("fsck", ["--back-to", "99", "lake"], 1),
    ("fsck", ["one.arrow"], 1),
    ("fsck", ["--back-to", "1", "--new-id", "lake"], 2),
    ("history", ["lake"], 0),
    ("history", ["empty"], 1),
    ("history", ["-n", "0", "lake"], 2),
    ("stream", ["lake"], 1),
    ("stream", ["one.arrow"], 1),
    ("stream", [], 2),
    ("vacuum", ["lake"], 0),
    ("vacuum", ["lost.arrow"], 1),
    ("cat", ["--limit", "many", "one.arrow"], 2),
    ("cat", [], 2),
    ("repair", ["one.arrow"], 2),
]


@pytest.mark.parametrize(
    ("command", "arguments", "expected"), STATUSES, ids=[f"{c[0]} {' '.join(c[1])}" for c in STATUSES]
)
def test_statuses(capsys, data, monkeypatch, command, arguments, expected):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content(1, 2, 3, 4))))
    try:
        status = main([command, *arguments])
    except SystemExit as ended:  # argparse
        status = ended.code
    assert expected == status
    capsys.readouterr()


@pytest.mark.parametrize(("ok", "expected"), [(True, 0), (False, 1)])
def test_the_doctor_answers_1_where_something_is_missing(capsys, monkeypatch, ok, expected):
    monkeypatch.setattr(doctor, "examine", lambda: (doctor.Finding("Java", "17", ok),))
    assert expected == main(["doctor"])
    capsys.readouterr()


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "JSON"])
def test_the_doctor_prints_no_control_character_of_a_path(capsys, monkeypatch, form):
    hostile = "\x1b[31m\x7f\x9b\u202e"
    monkeypatch.setattr(doctor, "examine", lambda: (doctor.Finding("Java", hostile, ok=False, remedy=hostile),))
    assert 1 == main(["doctor", *form])
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())


def test_the_page_has_a_row_for_every_command():
    statuses = PAGE[PAGE.index("## Exit statuses") :]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", statuses, re.MULTILINE)
    assert sorted(COMMANDS) == sorted(name for row in rows for name in re.findall(r"\w+", row))
