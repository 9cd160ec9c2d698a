"""Commands at a terminal of 40 columns, and at a pipe that is closed early: status and first line."""

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
    ("inspect", ["--stats"], "5,000 rows, 2 columns"),
]


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("command", "options", "first"), NARROW, ids=[c[0] for c in NARROW])
def test_tables_are_cut_at_the_edge_of_a_terminal(path, command, options, first):
    status, lines = at_a_terminal(arrowipc(command, *options, path), 40)
    assert (0, first) == (status, lines[0])
    assert max(map(len, lines)) <= 40
    assert any(line.endswith(">") for line in lines)


CLOSED = [
    ("cat", []), ("cat", ["--json"]), ("head", ["-n", "5000"]), ("tail", ["-n", "5000"]), ("sample", ["-n", "5000"]),
    ("schema", []), ("inspect", ["--stats"]), ("inspect", []), ("validate", []), ("count", []),
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


@pytest.mark.slow
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
