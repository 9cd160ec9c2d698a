"""A listed file: small when it is pickled, and opened at its path or its staged path."""

import pickle

import pytest

from spark_arrow_ipc.dataset.listing.data_file import DataFile, open_at_current_path

FILES = [
    ("plain", DataFile("/d/a.arrow", 1, 2)),
    ("partitioned", DataFile("/d/k=1/a.arrow", 1, 2, (1, "x"))),
    ("staged", DataFile("/d/a.arrow", 1, 2, (), "/d/_ipc_stage/j/a.staged")),
    ("of a version", DataFile("/d/a.arrow", 1, 2, version="etag")),
    ("staged and partitioned", DataFile("/d/k=1/a.arrow", 1, 2, (None,), "/d/_ipc_stage/j/a.staged")),
]


@pytest.mark.parametrize("file", [case[1] for case in FILES], ids=[case[0] for case in FILES])
def test_a_file_is_pickled_without_its_defaults(file):
    pickled = pickle.dumps(file)
    assert file == pickle.loads(pickled)
    assert (b"_ipc_stage" in pickled) == (file.staged is not None)


OPENED = [
    # paths that exist, one at each attempt; the path that is opened, or None
    ("at its path", False, ["final"], "final"),
    ("gone", False, [""], None),
    ("staged file that is renamed", True, ["final"], "final"),
    ("staged file", True, ["staged", "staged"], "staged"),
    ("renamed between two attempts", True, ["staged", "final", "final"], "final"),
    ("staged file that is gone", True, ["", "", ""], None),
]


@pytest.mark.parametrize(("staged", "states", "expected"), [case[1:] for case in OPENED], ids=[c[0] for c in OPENED])
def test_a_file_is_opened_where_it_is(staged, states, expected):
    left = iter(states)

    def open_at(path):
        if path != next(left):
            raise FileNotFoundError(path)
        return path

    file = DataFile("final", 1, 2, (), "staged" if staged else None)
    if expected is None:
        with pytest.raises(FileNotFoundError):
            open_at_current_path(file, open_at)
    else:
        assert expected == open_at_current_path(file, open_at)
    assert [] == list(left)


def test_a_file_is_read_through_its_storage(tmp_path):
    (tmp_path / "a.staged").write_bytes(b"123")
    source = DataFile(str(tmp_path / "a.arrow"), 3, 0, (), str(tmp_path / "a.staged")).open()
    assert b"123" == bytes(source.read_at(0, 3))
    source.close()


def test_the_place_of_a_file_is_where_it_is_now(tmp_path):
    final, staged = tmp_path / "a.arrow", tmp_path / "a.staged"
    file = DataFile(str(final), 1, 2, (), str(staged))
    assert str(final) == DataFile(str(final), 1, 2).current_path()
    with pytest.raises(FileNotFoundError):
        file.current_path()
    staged.write_bytes(b"1")
    assert str(staged) == file.current_path()
    staged.rename(final)
    assert str(final) == file.current_path()
