"""Older versions of a table: the files after an entry, or an error that says which version can be read."""

from datetime import UTC, datetime

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, dying
from copying_storage import CopyingStorage
from memory_storage import MemoryStorage
from places import Place

from spark_arrow_ipc.dataset.listing.data_file import time_text
from spark_arrow_ipc.dataset.listing.table_version import Version
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.errors import NoFilesError, OptionError, UnsupportedError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import parent, relative
from spark_arrow_ipc.table.history import read_history
from spark_arrow_ipc.table.log import create_table, write_checkpoint
from spark_arrow_ipc.table.vacuum import vacuum

STORAGES = {"disk": lambda: LOCAL, "copies": CopyingStorage, "memory": MemoryStorage}
DAY = 86_400


@pytest.fixture(params=STORAGES)
def lake(request, tmp_path):
    storage = STORAGES[request.param]()
    return Place(storage, "memory:/lake" if isinstance(storage, MemoryStorage) else str(tmp_path / "lake"))


def listed(lake, number=None, *, time_ns=None, path=""):
    tree = list_tree([f"{lake.root}{path}"], storage=lake.storage, version=Version(number, time_ns))
    return tree, tree.files(nested=True)


def read(lake, number=None, **options):
    """Return the texts of the files of a version, each behind its partition."""
    texts = []
    for file in listed(lake, number, **options)[1]:
        source = file.open(lake.storage)
        texts.append(
            f"{parent(relative(file.path, lake.root))}:{bytes(source.read_at(0, source.nbytes)).decode()}".lstrip(":")
        )
        source.close()
    return sorted(texts)


@pytest.fixture
def history(lake):
    """A table of five versions, and what a reader saw right after each."""
    lake.save(APPEND, "k=1:a", "k=2:a", retention=DAY)
    seen = {1: lake.ours()}
    for number, job in enumerate([(APPEND, "k=1:b"), (DYNAMIC, "k=1:c"), (OVERWRITE, "k=3:d"), (APPEND, "k=1:e")], 2):
        lake.save(*job)
        seen[number] = lake.ours()
    return seen


def test_each_version_is_what_readers_saw_then(lake, history):
    assert 5 == len({tuple(rows) for rows in history.values()})
    assert history == {number: read(lake, number) for number in history}
    vacuum(lake.table, older_than=-1e9)
    assert history == {number: read(lake, number) for number in history}, "what is retained stays"


def test_a_version_has_the_columns_of_its_time(lake, history):
    tree, files = listed(lake, 3)
    assert {lake.root: 3} == {root: state.number for root, state in tree.states.items()}
    assert {file.path for file in files} == {lake.table.path(path) for path in tree.states[lake.root].files.paths}


def test_a_version_at_a_time_is_the_newest_until_then(lake, history):
    times = {change.number: change.time * 1_000_000 for change in read_history(lake.table).changes}
    for number, time_ns in times.items():
        newest = max(n for n, at in times.items() if at <= time_ns)
        assert history[newest] == read(lake, time_ns=time_ns), number
    assert history[5] == read(lake, time_ns=2**62)
    with pytest.raises(
        NoFilesError,
        match="no log entry of this table that is retained is as old as timestampAsOf; the oldest is entry 1, of "
        + time_text(min(times.values())),
    ):
        read(lake, time_ns=min(times.values()) - 1)


def test_removed_files_that_are_not_collected_are_read_where_they_are(lake):
    lake.save(APPEND, "k=1:a")
    with dying("committed.put"):
        lake.save(OVERWRITE, "k=1:b")
    assert (["k=1:a"], ["k=1:b"]) == (read(lake, 1), read(lake, 2))
    lake.save(APPEND, "k=1:c")
    with pytest.raises(NoFilesError, match="version 1 of this table can no longer be read"):
        read(lake, 1)


def test_a_plan_reads_files_that_are_retained_meanwhile(lake):
    lake.save(APPEND, "k=1:a", retention=DAY)
    lake.save(APPEND, "k=1:b")
    (file,) = listed(lake, 1)[1]
    lake.save(OVERWRITE, "k=1:c")
    source = file.open(lake.storage)
    assert b"a" == bytes(source.read_at(0, source.nbytes))
    source.close()


# (What happens after version 2 of three, and the oldest version that is there then.)
def overwrite(lake):
    lake.save(OVERWRITE, "k=1:x")


def append(lake):
    lake.save(APPEND, "k=1:x")


def rewrite_and_append(lake):
    lake.save(DYNAMIC, "k=2:x")
    lake.save(APPEND, "k=1:y")


def prune(lake):
    """Let the entries 1 and 2 be gone, with a checkpoint after them."""
    append(lake)
    write_checkpoint(lake.table, lake.state)
    lake.storage.delete_all([lake.table.entry(lake.state.table, number) for number in (1, 2, 3)])
    append(lake)


GONE = {
    "an overwrite": (overwrite, 2, "was removed and is not retained", 3),
    "an overwrite, and appends": (lambda lake: (overwrite(lake), append(lake), append(lake)), 1, "is not retained", 3),
    "one partition": (rewrite_and_append, 2, "k=2/part-.* was removed and is not retained", 1),
    "entries": (prune, 2, "its log entry is no longer retained", 3),
}


@pytest.mark.parametrize("case", GONE)
def test_a_version_that_is_gone_is_refused_with_the_oldest_that_is_there(lake, case):
    act, number, why, oldest = GONE[case]
    lake.save(APPEND, "k=1:a")
    lake.save(APPEND, "k=2:b")
    act(lake)
    says = f"version {number} of this table can no longer be read: .*{why}.*; the oldest version that can be read is {oldest}. The option retention"
    with pytest.raises(NoFilesError, match=says):
        read(lake, number)
    assert read(lake, oldest)
    assert lake.ours() == read(lake, lake.state.number)


def test_versions_that_need_no_removed_file_stay_readable(lake):
    lake.save(APPEND, "k=1:a")
    lake.save(APPEND, "k=2:b")
    lake.save(DYNAMIC, "k=2:c")
    assert ["k=1:a"] == read(lake, 1), "only partition 2 was replaced"
    with pytest.raises(NoFilesError, match="the oldest version that can be read is 1"):
        read(lake, 2)


def test_a_table_with_files_of_other_programs_has_no_older_versions(lake):
    lake.save(APPEND, "a")
    lake.save(APPEND, "b")
    lake.put("their.arrow", "t")
    with pytest.raises(UnsupportedError, match=r"1 files of other programs, such as their\.arrow, are in no log entry"):
        read(lake, 1)
    lake.storage.delete(f"{lake.root}/their.arrow")
    assert ["a"] == read(lake, 1)


REFUSED = {
    "a later version": ("", 3, NoFilesError, "expected an entry 3 in the log of this table, found entries up to 2"),
    "a partition": ("/k=1", 1, NoFilesError, "this directory has no log: give the directory of a table"),
    "a pattern": ("/k=*", 1, OptionError, "read one table: give its directory as the only path"),
    "nothing": ("/absent", 1, NoFilesError, "expected the directory of a table, found nothing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_versions_is_refused(lake, case):
    path, number, error, says = REFUSED[case]
    lake.save(APPEND, "k=1:a")
    lake.save(APPEND, "k=1:b")
    with pytest.raises(error, match=says):
        read(lake, number, path=path)


def test_several_paths_are_refused(lake):
    lake.save(APPEND, "a")
    with pytest.raises(OptionError, match="unite the reads of several tables"):
        list_tree([lake.root, lake.root], storage=lake.storage, version=Version(1))


def test_a_table_of_no_entry_has_no_versions(lake):
    lake.put("their.arrow", "t")
    create_table(lake.table)
    lake.storage.delete(f"{lake.root}/their.arrow")
    with pytest.raises(NoFilesError, match="expected an entry 1 in the log of this table, found entries up to 0"):
        read(lake, 1)
    with pytest.raises(NoFilesError, match="no log entry of this table"):
        read(lake, time_ns=int(datetime.now(UTC).timestamp()) * 10**9)


def test_a_link_to_a_table_has_its_versions(tmp_path):
    lake = Place(LOCAL, str(tmp_path / "lake"))
    lake.save(APPEND, "k=1:a")
    lake.save(APPEND, "k=1:b")
    (tmp_path / "link").symlink_to(lake.root)
    files = list_tree([str(tmp_path / "link")], storage=LOCAL, version=Version(1)).files(nested=True)
    assert ["a"] == [lake.read(file.path) for file in files]
