"""Commands at a terminal of 40 columns, at a pipe that is closed early, and over 10,000 files: status and first line."""

import os
import pty
import subprocess
import sys

import pytest

pa = pytest.importorskip("pyarrow")

TABLE = pa.table({"number": range(5000), "a column of a rather long name": ["some words " * 4] * 5000})


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "x.arrow"
    with pa.ipc.new_file(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=1000)
    return path


def arrowipc(*arguments):
    return [sys.executable, "-m", "spark_arrow_ipc.cli.main", *map(str, arguments)]


def at_a_terminal(command, columns):
    """Return the status and the lines of a command whose stdout and stderr are a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # Linux says so at the end
                break
            if not part:
                break
            parts.append(part)
    os.close(ours)
    return process.returncode, b"".join(parts).decode().splitlines()


NARROW = [
    ("head", ["-n", "2"], "  number  a column of a rather long name"),
    ("tail", ["-n", "2"], "  number  a column of a rather long name"),
    ("sample", ["-n", "2"], "  number  a column of a rather long name"),
    ("stats", [], "5,000 rows, 2 columns"),
]


@pytest.mark.parametrize(("command", "options", "first"), NARROW, ids=[c[0] for c in NARROW])
def test_tables_are_cut_at_the_edge_of_a_terminal(path, command, options, first):
    status, lines = at_a_terminal(arrowipc(command, *options, path), 40)
    assert (0, first) == (status, lines[0])
    assert max(map(len, lines)) <= 40
    assert any(line.endswith(">") for line in lines)


CLOSED = [
    ("cat", []), ("cat", ["--json"]), ("head", ["-n", "5000"]), ("tail", ["-n", "5000"]), ("sample", ["-n", "5000"]),
    ("schema", []), ("stats", []), ("inspect", []), ("validate", []), ("count", []),
]  # fmt: skip
OF_EVERY_RUN = [CLOSED[0], CLOSED[4]]


def ends_quietly(path, command, options):
    process = subprocess.Popen(
        arrowipc(command, *options, path), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    first = process.stdout.readline()
    process.stdout.close()
    with process.stderr as stderr:
        err = stderr.read()
    assert (b"", 0) == (err, process.wait(60))
    assert first


@pytest.mark.parametrize(("command", "options"), OF_EVERY_RUN, ids=str)
def test_a_pipe_that_is_closed_after_a_line_is_no_error(path, command, options):
    ends_quietly(path, command, options)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("command", "options"), [*CLOSED, ("convert", ["--to", "jsonl"])], ids=str)
def test_a_pipe_that_is_closed_is_no_error_of_any_command(path, command, options):
    if command == "convert":
        options = [*options, path]
        path = "-"
    ends_quietly(path, command, options)


MANY = [
    ("count", [], "1\t"), ("validate", [], ""), ("inspect", ["--json"], '{"path": '), ("schema", [], "{root}"),
    ("stats", [], "10,000 rows, 2 columns"), ("head", [], "  a  k"), ("tail", [], "     a  k"), ("sample", ["--seed", "1"], "   "),
    ("cat", ["--where", "a = 77"], "   a  k"), ("concat", ["{root}.1"], "{root}.1: 10,000 rows in 10,000 record batches"),
    ("rewrite", ["{root}.2", "--sort-by", "a", "--descending"], "{root}.2: 10,000 rows in 1 record batch"),
    ("split", ["{root}.3", "--rows", "3000"], "{root}.3: 10,000 rows in 4 files"),
    ("convert", ["{root}.4.parquet"], "{root}.4.parquet: 10,000 rows"),
]  # fmt: skip


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """10,000 files of a row, in ten partitions."""
    root = tmp_path_factory.mktemp("many") / "lake"
    for k in range(10):
        (root / f"k={k}").mkdir(parents=True)
    for i in range(10_000):
        with pa.ipc.new_file(str(root / f"k={i % 10}" / f"{i:05d}.arrow"), pa.schema([("a", pa.int64())])) as writer:
            writer.write_batch(pa.record_batch({"a": [i]}))
    return root


@pytest.mark.exhaustive
@pytest.mark.parametrize(("command", "options", "first"), MANY, ids=[c[0] for c in MANY])
def test_ten_thousand_files(many, command, options, first):
    command = arrowipc(command, many, *(option.format(root=many) for option in options))
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (0, "") == (answer.returncode, answer.stderr)
    assert answer.stdout.startswith(first.replace("{root}", str(many)))
