"""The soak, for two seconds. Long: python tests/faults/soak.py --seconds 1800."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import soak


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(("2",), id="renames", marks=pytest.mark.slow),
        pytest.param(("12", "--kills", "--copies"), id="copies and kills", marks=pytest.mark.nightly),
    ],
)
def test_writers_readers_and_a_vacuum_at_once(tmp_path, how):
    answer = subprocess.run(
        [sys.executable, str(HERE / "soak.py"), "--seconds", *how, "--folder", str(tmp_path)],
        capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
    )  # fmt: skip
    assert 0 == answer.returncode, answer.stderr
    counts = json.loads(answer.stdout)
    assert 0 == counts["violations"]
    assert counts["entries"] >= 4
    assert counts["writer: append outcome committed"] > 0
    assert counts["reader: listings"] > 0
    assert [] == list(tmp_path.iterdir())


def test_the_errors_of_readers_are_those_of_the_documented_table():
    page = (HERE.parents[1] / "docs" / "writing.md").read_text()
    table = page.partition("Jobs of this package can cause only")[2].partition("Other programs can cause")[0]
    named = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(error.__name__ for error in soak.READER_ERRORS) == sorted(named)


NOTES = [
    ("a listing of another state", {"digest": 5, "numbers": [1, 2], "files": 3}, "is of no entry from 1 to 2"),
    ("a doubled row", {"read": "rows", "rows": 9, "doubled": 1, "expected": 9}, "1 of 9 rows twice"),
    ("a lost row", {"read": "rows", "rows": 9, "doubled": 0, "expected": 10}, "9 rows of 10"),
    ("a job that is lost", {"outcome": "committed", "token": "b"}, "is in the log 0 times"),
    ("a refused job that counts", {"outcome": "nothing", "token": "a"}, "is in the log 1 times"),
    ("another error", {"violation": "Traceback: FileNotFoundError"}, "FileNotFoundError"),
]


@pytest.mark.parametrize(("note", "text"), [case[1:] for case in NOTES], ids=[case[0] for case in NOTES])
def test_what_is_wrong_is_told(note, text):
    digests, tokens = {0: 0, 1: 1, 2: 2}, soak.Counter({"a": 1})
    (words,) = soak.wrong(note, digests, tokens)
    assert text in words


def test_what_is_right_is_not():
    digests, tokens = {0: 0, 1: 1}, soak.Counter({"a": 1})
    notes = [
        {"outcome": "committed", "token": "a"},
        {"outcome": "nothing", "token": "b"},
        {"outcome": "unknown", "token": "a"},
        {"digest": 1, "numbers": [0, 1], "files": 3},
        {"read": "rows", "rows": 9, "doubled": 0, "expected": 9},
    ]
    assert [] == [words for note in notes for words in soak.wrong(note, digests, tokens)]
