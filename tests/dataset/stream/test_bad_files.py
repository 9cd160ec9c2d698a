"""Which errors make a file bad, and the notes of bad files."""

import json

import pytest

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.bad_files import BadFile, BadFileNotes, BadFiles
from spark_arrow_ipc.errors import (
    ColumnNotFoundError,
    FileChangedError,
    InvalidFramingError,
    LimitError,
    NoTableError,
    NotArrowError,
    OptionError,
    SchemaMismatchError,
    StreamOffsetError,
)
from spark_arrow_ipc.storage.local import LOCAL

FILE = DataFile("/in/a.arrow", 10, 7)

OF_THE_FILE = [NotArrowError, InvalidFramingError, NoTableError, LimitError, SchemaMismatchError, ColumnNotFoundError]
OF_SOMETHING_ELSE = [OSError, FileNotFoundError, FileChangedError, OptionError, ZeroDivisionError]


def raising(error):
    def check(_file, root):
        raise error(f"what is wrong below {root}")

    return BadFiles("skip", check)


@pytest.mark.parametrize("error", OF_THE_FILE)
def test_a_file_is_bad_by_what_is_wrong_with_it(error):
    assert "what is wrong below /in" == raising(error).why(FILE, "/in")


@pytest.mark.parametrize("error", OF_SOMETHING_ELSE)
def test_no_file_is_bad_because_a_storage_fails(error):
    with pytest.raises(error):
        raising(error).why(FILE, "/in")


def test_a_file_that_can_be_read_is_not_bad():
    assert BadFiles("skip", lambda *_: None).why(FILE, "/in") is None


def test_each_file_has_one_note_the_newest(tmp_path):
    notes = BadFileNotes(LOCAL, str(tmp_path / "bad"))
    assert [] == list(notes.read())
    odd = "/in/\udcff \n.arrow"
    for bad in (BadFile("/a", 1, 2, "x"), BadFile(odd, 5, -6, "y\n"), BadFile("/a", 3, 4, "z")):
        notes.write(bad)
    assert {BadFile("/a", 3, 4, "z"), BadFile(odd, 5, -6, "y\n")} == set(notes.read())
    assert 2 == len(list((tmp_path / "bad").iterdir()))


def test_a_long_reason_is_cut_so_that_the_note_can_be_read(tmp_path):
    notes = BadFileNotes(LOCAL, str(tmp_path))
    BadFiles("quarantine", lambda *_: None, notes).note(FILE, "é" * 1_000_000)
    assert [BadFile("/in/a.arrow", 10, 7, "é" * 2_000)] == list(notes.read())


SOUND = {"v": 1, "path": "/a", "bytes": 1, "time": 2, "reason": "x"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 10_000,
        json.dumps(SOUND | {"v": 2}).encode(),
        json.dumps(SOUND | {"bytes": True}).encode(),
        json.dumps(SOUND | {"path": None}).encode(),
        json.dumps(SOUND | {"more": 1}).encode(),
        json.dumps({"v": 1}).encode(),
    ],
)
def test_a_note_is_not_trusted(tmp_path, data):
    (tmp_path / "0.json").write_bytes(data)
    with pytest.raises(StreamOffsetError, match=r"0\.json"):
        list(BadFileNotes(LOCAL, str(tmp_path)).read())


def test_a_note_of_any_size_is_not_read(tmp_path):
    (tmp_path / "0.json").write_bytes(json.dumps(SOUND | {"reason": "x" * 70_000}).encode())
    with pytest.raises(LimitError):
        list(BadFileNotes(LOCAL, str(tmp_path)).read())
