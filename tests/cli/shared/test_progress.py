"""The line of progress: when it is drawn, what it says, and that it is erased before all else."""

import io
import sys

import pytest

from spark_arrow_ipc.cli.shared import terminal as module
from spark_arrow_ipc.cli.shared.terminal import Progress, advance, count_files, show_progress

ERASE = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self):
        return True


STEPS = [
    ("nothing in the first two seconds", [(0, 1, 5), (1.9, 0, 5)], ""),
    ("after them", [(0, 1, 5), (2.1, 0, 5)], f"{ERASE}1 file, 10 rows, 2 s"),
    ("five times a second", [(3, 0, 1), (3.1, 0, 1), (3.3, 1, 1)], f"{ERASE}1 row, 3 s{ERASE}1 file, 3 rows, 3 s"),
    ("many", [(3600, 1234, 5_000_000)], f"{ERASE}1,234 files, 5,000,000 rows, 3,600 s"),
]


@pytest.mark.parametrize(("steps", "expected"), [c[1:] for c in STEPS], ids=[c[0] for c in STEPS])
def test_the_line(steps, expected):
    now = 0.0
    terminal = Terminal()
    progress = Progress(terminal, lambda: now)
    for now, files, rows in steps:  # noqa: B007 - the clock reads it
        progress.add(files=files, rows=rows)
    assert expected == terminal.getvalue()
    progress.erase()
    progress.erase()
    assert expected + (ERASE if expected else "") == terminal.getvalue()


def test_a_narrow_terminal_gets_a_cut_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "12")
    terminal = Terminal()
    clock = iter([0, 5])
    Progress(terminal, lambda: next(clock)).add(files=1, rows=123456)
    assert f"{ERASE}1 file, 123" == terminal.getvalue()


def test_what_is_printed_erases_the_line(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(module, "_AFTER_SECONDS", 0)
    monkeypatch.setattr(module, "_EVERY_SECONDS", 0)
    with show_progress():
        assert ["a"] == list(count_files(["a"]))
        print("a row")
        advance(2)
        print("a warning", file=sys.stderr)
    first, second = f"{ERASE}1 file, 0 s{ERASE}a row\n", f"{ERASE}1 file, 2 rows, 0 s{ERASE}a warning\n"
    assert first + second == terminal.getvalue()
    assert (terminal, terminal) == (sys.stdout, sys.stderr)


def test_without_a_terminal_there_is_none(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "_AFTER_SECONDS", 0)
    with show_progress():
        advance(1)
    assert "" == stream.getvalue()
