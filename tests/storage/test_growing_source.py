"""A growing file is read up to the length that was seen, and a file that did anything else is an error."""

import os

import pytest

from spark_arrow_ipc.errors import FileChangedError
from spark_arrow_ipc.storage.byte_source import MARK_NBYTES, GrowingSource, mark_before


def test_the_length_is_that_of_the_last_look(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    source = GrowingSource.open(str(path))
    with path.open("ab") as file:
        file.write(b"def")
    assert (b"abc", 3) == (bytes(source.read_up_to(0, 9)), source.nbytes)
    assert source.grow(3)
    assert (b"abcdef", 6) == (bytes(source.read_up_to(0, 9)), source.nbytes)
    assert not source.grow(6)
    source.close()


@pytest.mark.slow
def test_the_mark_is_of_the_last_bytes(tmp_path):
    path = tmp_path / "x"
    marks = []
    for first in (b"a", b"b"):
        path.write_bytes(first + bytes(MARK_NBYTES))
        source = GrowingSource.open(str(path))
        marks.append((mark_before(source, MARK_NBYTES), mark_before(source, 1 + MARK_NBYTES)))
        source.close()
    assert marks[0][0] != marks[1][0]
    assert marks[0][1] == marks[1][1]


CHANGES = {
    "shorter than was read": (lambda path: os.truncate(path, 1), "cut to 1 bytes"),
    "shorter than was seen": (lambda path: os.truncate(path, 3), "cut to 3 bytes"),
    "other bytes, and longer": (lambda path: path.write_bytes(b"xxxxxxx"), "bytes before byte 2"),
    "gone": (lambda path: path.unlink(), "removed"),
    "a new file": (lambda path: (path.unlink(), path.with_name("y").touch(), path.write_bytes(b"abcdefg")), "another"),
}


@pytest.mark.parametrize(("change", "words"), CHANGES.values(), ids=CHANGES)
def test_what_is_no_growth_is_an_error(tmp_path, change, words):
    path = tmp_path / "x"
    path.write_bytes(b"abcd")
    source = GrowingSource.open(str(path))
    assert not source.grow(2)
    change(path)
    with pytest.raises(FileChangedError, match=words):
        source.grow(2)
    source.close()
