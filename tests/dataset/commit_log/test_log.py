"""The chain of records: its head, and the pending job."""

from pathlib import Path
from unittest import mock

import pytest
from commit_jobs import APPEND, OVERWRITE, dataset, dying, ours, save

from spark_arrow_ipc.dataset.commit_log.log import Head, read_head, read_pending, read_state
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.local import LocalStorage

HEADS = [
    ("no directory", None, Head()),
    ("an empty one", [], Head()),
    ("done", ["1.json", "1.done"], Head(1, done=True)),
    ("pending", ["1.json", "1.done", "2.json"], Head(2, done=False)),
    ("a mark without its record", ["1.json", "1.done", "2.done"], Head(1, done=True)),
    ("a mark without any record", ["9.done"], Head()),
    ("a claim without its record", ["1.json", "2.claim"], Head(1, done=False)),
    ("a number that no chain reaches", ["1.json", "99999999999999999999.json"], Head(1, done=False)),
    ("a hole in the past", ["2.json", "4.json", "4.done", "5.json", "5.done"], Head(5, done=True)),
    ("other names", ["1.json", "1.done", "x.staged", "7.txt"], Head(1, done=True)),
]


@pytest.mark.parametrize(("names", "expected"), [case[1:] for case in HEADS], ids=[case[0] for case in HEADS])
def test_head(tmp_path, names, expected):
    if names is not None:
        (tmp_path / "_ipc_commits").mkdir()
    for name in names or ():
        number, _, ending = name.partition(".")
        (tmp_path / "_ipc_commits" / f"{number.rjust(20, '0')}.{ending}").touch()
    assert expected == read_head(dataset(tmp_path))


def test_a_mark_that_is_listed_before_its_record_counts(tmp_path):
    """Both names appeared while the directory was listed."""
    save(tmp_path, APPEND, "a")
    save(tmp_path, APPEND, "b")
    real = LocalStorage.list

    def without_record(storage, directory):
        return (status for status in real(storage, directory) if not status.path.endswith("2.json"))

    with mock.patch.object(LocalStorage, "list", without_record):
        assert Head(2, done=True) == read_head(dataset(tmp_path))


def test_a_directory_without_records_costs_one_call(tmp_path):
    with mock.patch.object(LocalStorage, "list", autospec=True, side_effect=LocalStorage.list) as listing:
        assert read_pending(dataset(tmp_path)) is None
        assert read_state(dataset(tmp_path)).pending is None
    assert 2 == listing.call_count


def test_a_pending_record_says_where_its_files_lie(tmp_path):
    save(tmp_path, APPEND, "old")
    with dying("C4.renamed"):
        save(tmp_path, OVERWRITE, "k=1:a", "b")
    state = read_state(dataset(tmp_path))
    pending = read_pending(dataset(tmp_path))
    assert (Head(2, done=False), pending) == (state.head, state.pending)
    files = [pending.file(add) for add in pending.record.adds]
    assert [True, False] == [Path(file.path).exists() for file in files]
    assert [False, True] == [Path(file.staged).exists() for file in files]
    assert [1, 1] == [file.nbytes for file in files]
    assert Path(files[0].path).stat().st_mtime_ns == files[0].mtime_ns
    assert Path(files[1].staged).stat().st_mtime_ns == files[1].mtime_ns
    assert {*map(str, tmp_path.glob("part-*"))} == set(pending.removed())


def test_a_damaged_pending_record_is_named_with_what_to_do(tmp_path):
    save(tmp_path, APPEND, "old")
    with dying("C3.linked"):
        save(tmp_path, APPEND, "new")
    path = Path(dataset(tmp_path).record(2))
    path.write_bytes(path.read_bytes()[:-10])
    for read in (ours, lambda root: save(root, APPEND, "next"), lambda root: read_pending(dataset(root))):
        with pytest.raises(CommitError, match=r"2\.json.*CRC-32.*nothing is done by it.*Restore it"):
            read(tmp_path)
    path.unlink()
    save(tmp_path, APPEND, "next")
    assert ["next", "old"] == ours(tmp_path)
