"""The files that a read lists are those of one state of a table, whatever jobs commit while directories are listed."""

import shutil
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, dying
from copying_storage import CopyingStorage
from memory_storage import MemoryStorage
from places import Place

from spark_arrow_ipc.dataset.listing import table_view
from spark_arrow_ipc.dataset.listing.directory import read_directory
from spark_arrow_ipc.dataset.listing.table_view import Progress, TableView
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, NoFilesError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.storage.storage import Traits
from spark_arrow_ipc.table import state as table_state
from spark_arrow_ipc.table.log import create_table, read_state, write_checkpoint
from spark_arrow_ipc.table.names import data_file_name
from spark_arrow_ipc.table.vacuum import vacuum


class WaitingStorage(MemoryStorage):
    """Calls wait for a network, so that several are made at once."""

    @property
    def traits(self):
        return Traits(directories=False, renames=self.renames, waits=True)


STORAGES = {"disk": lambda: LOCAL, "copies": CopyingStorage, "memory": MemoryStorage, "waits": WaitingStorage}


@pytest.fixture(params=STORAGES)
def lake(request, tmp_path):
    storage = STORAGES[request.param]()
    return Place(storage, "memory:/lake" if isinstance(storage, MemoryStorage) else str(tmp_path / "lake"))


@pytest.fixture
def disk(tmp_path):
    return Place(LOCAL, str(tmp_path / "lake"))


def read(place, *paths, recursive=True):
    """Return the texts of the files that a read lists, each behind its directory."""
    tree = list_tree(
        [f"{place.root}/{path}".rstrip("/") for path in paths or [""]], recursive=recursive, storage=place.storage
    )
    files = tree.files(nested=recursive)
    return sorted(
        f"{parent(f.path).removeprefix(place.root).strip('/')}:{place.read(f.path)}".lstrip(":") for f in files
    )


@contextmanager
def between(place, *actions):
    """Do something before the storage lists the first directory of a read, before it lists the second, and so on."""
    left = iter(actions)
    listed = []

    def list_one(storage, path):
        listed.append(path)
        next(left, lambda: None)()
        return read_directory(storage, path)

    # Calls that wait come from several threads: here one after the other.
    def each(call, arguments, **_):
        for argument in arguments:
            call(argument)

    with mock.patch.object(table_view, "read_directory", list_one), mock.patch.object(table_view, "each", each):
        yield listed


# ---- jobs that commit while directories are listed


def withdraw(place):
    plan, _ = place.planned(APPEND, "k=1:x", "k=3:x")
    abort(plan)


def die(place, point, mode, *texts):
    with dying(point):
        place.save(mode, *texts)


# (What happens, and what a reader sees that lists meanwhile.)
MEANWHILE = {
    "an append": (lambda lake: lake.save(APPEND, "k=1:b"), ["k=1:a", "k=1:b", "k=2:a"]),
    "an append of a new partition": (lambda lake: lake.save(APPEND, "k=3/j=1:b"), ["k=1:a", "k=2:a", "k=3/j=1:b"]),
    "several": (lambda lake: [lake.save(APPEND, f"k={i}:b") for i in range(4)], ["k=0:b", "k=1:a", "k=1:b", "k=2:a", "k=2:b", "k=3:b"]),
    "an overwrite": (lambda lake: lake.save(OVERWRITE, "k=2:b"), ["k=2:b"]),
    "an overwrite, then an append": (lambda lake: (lake.save(OVERWRITE, "k=2:b"), lake.save(APPEND, "k=1:c")), ["k=1:c", "k=2:b"]),
    "what was added is replaced": (lambda lake: (lake.save(APPEND, "k=1:b"), lake.save(DYNAMIC, "k=1:c")), ["k=1:c", "k=2:a"]),
    "an overwrite that is not collected": (lambda lake: die(lake, "committed.put", OVERWRITE, "k=2:b", "k=3:b"), ["k=2:b", "k=3:b"]),
    "a job that dies before its entry": (lambda lake: die(lake, "named.all", APPEND, "k=1:x", "k=3:x"), ["k=1:a", "k=2:a"]),
    "a job that is withdrawn": (withdraw, ["k=1:a", "k=2:a"]),
    "a vacuum": (lambda lake: vacuum(lake.table, older_than=-1e9), ["k=1:a", "k=2:a"]),
}  # fmt: skip


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("before", ["a sound table", "a dead job", "what is not collected"])
@pytest.mark.parametrize("moment", [0, 1, 2], ids=["root", "first partition", "second partition"])
@pytest.mark.parametrize("case", MEANWHILE)
def test_what_is_committed_meanwhile_is_applied_to_what_was_listed(lake, case, moment, before):
    """Each directory is listed once, whatever commits."""
    meanwhile, expected = MEANWHILE[case]
    lake.save(APPEND, "k=1:a")
    if before == "a dead job":
        die(lake, "named.all", APPEND, "k=1:y", "k=4:y")
        lake.save(APPEND, "k=2:a")
    elif before == "what is not collected":
        lake.save(APPEND, "k=2:y")
        die(lake, "committed.put", DYNAMIC, "k=2:a")
    else:
        lake.save(APPEND, "k=2:a")
    with between(lake, *[lambda: None] * moment, lambda: meanwhile(lake)) as listed:
        assert expected == read(lake)
    assert len(set(listed)) == len(listed) >= 3
    assert expected == read(lake)


def test_a_reader_may_start_at_any_passage_of_a_commit(lake):
    """It sees the old or the new rows, and the new ones from the entry on."""
    lake.save(APPEND, "k=1:a", "k=2:b")
    lake.put("k=2/their.arrow", "t")
    passages = []
    with mock.patch("spark_arrow_ipc.storage.failpoint.hit", lambda name: passages.append((name, read(lake)))):
        lake.save(OVERWRITE, "k=2:c", "k=3:d", "e")
    names, views = [name for name, _ in passages], [rows for _, rows in passages]
    old, new = ["k=1:a", "k=2:b", "k=2:t"], ["e", "k=2:c", "k=3:d"]
    put = views.index(new)
    assert names.index("committed.asked") < put <= names.index("committed.put") < len(names) - 2
    assert [old] * put + [new] * (len(views) - put) == views
    assert ["e", "k=2:c", "k=3:d"] == lake.plain()


def test_readers_do_not_starve_beside_many_appends(lake):
    """Jobs commit before each listing of a directory, more than a table can have in a second."""
    lake.save(APPEND, "k=1:a")
    texts = iter("bcdefghijklm")
    with between(lake, *[lambda: [lake.save(APPEND, f"k=1:{next(texts)}") for _ in range(3)]] * 4) as listed:
        rows = read(lake)
    # The root and its partition are listed once each, so that two of the four groups are committed.
    assert (2, [f"k=1:{text}" for text in "abcdefg"]) == (len(listed), rows)


def make_anew(lake):
    lake.storage.delete_tree(lake.root)
    lake.save(APPEND, "a")


NEVER_RESTS = {
    "a table that is made anew": make_anew,
    "more jobs than its state remembers": lambda lake: [lake.save(APPEND, "b") for _ in range(4)],
}


@pytest.mark.parametrize("case", NEVER_RESTS)
def test_a_table_that_never_rests_is_an_error(lake, case, monkeypatch):
    monkeypatch.setattr(table_state, "REMEMBERED", 2)
    lake.save(APPEND, "a")
    with (
        between(lake, *[lambda: NEVER_RESTS[case](lake)] * 5),
        pytest.raises(ConcurrentWriteError, match="each of 5 listings"),
    ):
        read(lake)
    with between(lake, *[lambda: NEVER_RESTS[case](lake)] * 4):
        assert "a" in read(lake)


def test_entries_that_are_pruned_meanwhile_are_read_from_a_checkpoint(lake):
    lake.save(APPEND, "k=1:a")

    def go_on():
        for text in "bc":
            lake.save(APPEND, f"k=1:{text}")
        write_checkpoint(lake.table, lake.state)
        lake.storage.delete_all([lake.table.entry(lake.state.table, number) for number in (1, 2)])

    with between(lake, lambda: None, go_on):
        assert ["k=1:a", "k=1:b", "k=1:c"] == read(lake)


# ---- files that the log counts and that are not there


def remove(lake, path):
    lake.storage.delete(path)


DAMAGES = {
    "missing": (remove, "is missing"),
    "longer": (lambda lake, path: lake.storage.put(path, b"ab"), "is of 2 bytes"),
    "shorter": (lambda lake, path: lake.storage.put(path, b""), "is of 0 bytes"),
}


@pytest.mark.parametrize("paths", ["", "k=2", "k=2/*", "k=*", "**/*.arrow"])
@pytest.mark.parametrize("case", DAMAGES)
def test_a_managed_file_that_is_missing_or_another_is_an_error(lake, case, paths):
    damage, says = DAMAGES[case]
    for text in ("k=1:a", "k=2:a", "k=3:a"):
        lake.save(APPEND, text)
    (path,) = (path for path in lake.state.files.paths if path.startswith("k=2"))
    damage(lake, lake.table.path(path))
    with pytest.raises(CommitError, match=rf"entry 2 of the log added this file of 1 bytes, and it {says}") as caught:
        read(lake, paths)
    assert lake.table.path(path) == caught.value.path
    assert f"arrowipc fsck {lake.root}" in str(caught.value)
    assert ["k=1:a"] == read(lake, "k=1"), "other directories are read"


def test_a_partition_that_was_removed_by_hand_is_an_error(disk):
    disk.save(APPEND, "k=1:a", "k=2:a")
    shutil.rmtree(f"{disk.root}/k=2")
    for paths in ("", "k=2", "k=*", "*/*"):
        with pytest.raises(CommitError, match="entry 1 of the log added this file of 1 bytes, and it is missing"):
            read(disk, paths)


def test_a_file_that_an_overwrite_removes_while_it_is_looked_for_is_no_error(lake):
    lake.save(APPEND, "k=1:a")
    # The reader has the old state; the overwrite removes the file before its directory is listed.
    with between(lake, lambda: lake.save(OVERWRITE, "k=1:b")):
        assert ["k=1:b"] == read(lake, "k=1/*.arrow")


# ---- directories that become tables, tables in tables, and what is no table


@pytest.mark.parametrize(("path", "moment"), [("", 0), ("", 1), ("k=1", 0)])
@pytest.mark.parametrize("mode", [APPEND, OVERWRITE])
def test_a_directory_that_becomes_a_table_while_it_is_listed(lake, mode, path, moment):
    lake.put("k=1/their.arrow", "t")
    with between(lake, *[lambda: None] * moment, lambda: lake.save(mode, "k=1:a", "k=2:a")):
        rows = read(lake, path)
    after = {APPEND: ["k=1:a", "k=1:t", "k=2:a"], OVERWRITE: ["k=1:a", "k=2:a"]}[mode]
    assert [row for row in after if row.startswith(path)] == rows == read(lake, path)


def test_a_table_of_no_entry_is_what_is_listed(lake):
    lake.put("k=1/their.arrow", "t")
    create_table(lake.table)
    assert ["k=1:t"] == read(lake)


NESTED = ["k=1/j=1:a", "k=1/j=2:b", "k=2/j=1:c"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", NESTED),
        ("k=1", NESTED[:2]),
        ("k=1/j=2", NESTED[1:2]),
        ("k=*/j=1", [NESTED[0], NESTED[2]]),
        ("k=2/**", NESTED[2:]),
        ("**/*.arrow", NESTED),
    ],
)
def test_paths_in_a_table_of_nested_partitions(lake, path, expected):
    lake.save(APPEND, *(row.replace(":", ":old ") for row in NESTED), "k=9/j=9:gone")
    die(lake, "committed.put", OVERWRITE, *NESTED)
    die(lake, "named.all", APPEND, *(f"{row}x" for row in NESTED))
    assert expected == read(lake, path)


def test_a_partition_that_no_longer_counts_is_not_there(lake):
    lake.save(APPEND, "k=1:a", "k=2:a")
    lake.save(OVERWRITE, "k=1:b")
    assert ["k=1:b"] == read(lake)
    with pytest.raises(NoFilesError):
        read(lake, "k=2")


def test_several_tables_are_read_at_once(lake):
    one, two = Place(lake.storage, f"{lake.root}/one"), Place(lake.storage, f"{lake.root}/two")
    one.save(APPEND, "a")
    two.save(APPEND, "b")
    for paths in (["one", "two"], ["*"], [""]):
        with between(lake, lambda: one.save(OVERWRITE, "c"), lambda: two.save(OVERWRITE, "d")):
            assert ["one:c", "two:d"] == read(lake, *paths)
        one.save(OVERWRITE, "a")
        two.save(OVERWRITE, "b")


# ---- files of other programs


OTHERS = {
    "a name of another form": "their.arrow",
    "in a partition": "k=1/their.arrow",
    "in a new partition": "k=7/their.arrow",
    "of another table": data_file_name(0, "ffffffff", "0" * 32),
}


@pytest.mark.parametrize("case", OTHERS)
def test_files_of_other_programs_count_until_they_are_removed(lake, case):
    lake.save(APPEND, "k=1:a")
    name = OTHERS[case]
    row = f"{parent(name)}:t".lstrip(":")
    lake.put(name, "t")
    assert sorted(["k=1:a", row]) == read(lake)
    die(lake, "committed.put", OVERWRITE, "k=1:b")
    assert lake.storage.status(lake.table.path(name)) is not None
    assert ["k=1:b"] == read(lake), "what an entry removed is hidden as long as it is there"
    lake.put(name, "other")
    assert sorted(["k=1:b", row.replace(":t", ":other") if ":" in row else "other"]) == read(lake)


def test_files_of_this_table_of_a_job_that_the_log_does_not_know_do_not_count(lake):
    lake.save(APPEND, "k=1:a")
    lake.put(f"k=1/{data_file_name(0, lake.state.table, '0' * 32)}", "x")
    assert ["k=1:a"] == read(lake)


@pytest.mark.parametrize("moment", [0, 1])
def test_removed_files_of_other_programs_do_not_come_back_while_they_are_listed(lake, moment):
    """The removal is closed before the second reading of the log, and the listing has the file still."""
    lake.save(APPEND, "k=1:a")
    lake.put("k=1/their.arrow", "t")

    def overwrite():
        lake.save(OVERWRITE, "k=1:b")
        vacuum(lake.table, older_than=-1e9)

    with between(lake, *[lambda: None] * moment, overwrite):
        assert ["k=1:b"] == read(lake)


def test_a_removed_file_that_is_listed_and_then_deleted_is_hidden(lake):
    lake.save(APPEND, "k=1:a")
    lake.put("k=1/their.arrow", "t")
    view = TableView(lake.storage)
    listing = view.listing(f"{lake.root}/k=1")
    assert 2 == len(listing.files)
    lake.save(OVERWRITE, "k=1:b")
    vacuum(lake.table, older_than=-1e9)
    assert not lake.state.tombstones
    assert Progress.MOVED is view.catch_up()
    assert ["b"] == [lake.read(file.path) for file in view.listing(f"{lake.root}/k=1").files]
    assert Progress.SAME is view.catch_up()
    assert {lake.root: lake.state.number} == {root: state.number for root, state in view.states.items()}


# ---- links


def test_a_link_to_a_table_is_the_table(disk, tmp_path):
    disk.save(APPEND, "k=1:old", "k=2:old")
    die(disk, "committed.put", OVERWRITE, "k=1:a", "k=2:a")
    (tmp_path / "all").mkdir()
    (tmp_path / "all/link").symlink_to(disk.root)
    (tmp_path / "partition").symlink_to(f"{disk.root}/k=2")
    expected = {
        "all/link": ["a", "a"],
        "all/link/k=1": ["a"],
        "all": ["a", "a"],
        "partition": ["a"],
        "all/*/k=*": ["a", "a"],
    }
    for path, texts in expected.items():
        for actions in ((), (lambda: None, lambda: die(disk, "committed.put", OVERWRITE, "k=1:a", "k=2:a"))):
            with between(disk, *actions):
                tree = list_tree([str(tmp_path / path)], recursive=True, storage=LOCAL)
            assert texts == [Path(file.path).read_text() for file in tree.files(nested=True)]


def test_a_link_in_a_table_leads_to_files_of_others(disk, tmp_path):
    disk.save(APPEND, "k=1:a")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x.arrow").write_text("x")
    Path(disk.root, "k=2").symlink_to(tmp_path / "elsewhere")
    Path(disk.root, "k=1/link.arrow").symlink_to(tmp_path / "elsewhere/x.arrow")
    files = list_tree([disk.root], recursive=True).files(nested=True)
    assert ["a", "x", "x"] == sorted(Path(file.path).read_text() for file in files)


def test_a_managed_file_that_became_a_link_is_an_error(disk, tmp_path):
    disk.save(APPEND, "a")
    (path,) = disk.state.files.paths
    Path(disk.root, path).rename(tmp_path / "moved")
    (tmp_path / "moved").write_text("longer")
    Path(disk.root, path).symlink_to(tmp_path / "moved")
    with pytest.raises(CommitError, match="entry 1 of the log"):
        read(disk)


# ---- cost


def test_what_a_read_of_a_table_costs(lake):
    """The state is read twice, each directory is listed once, and files that are listed are not looked at."""
    lake.save(APPEND, *(f"k={i}:a" for i in range(5)))
    lake.save(APPEND, *(f"k={i}:b" for i in range(5)))
    with (
        between(lake) as listed,
        mock.patch.object(table_view, "read_state", wraps=read_state) as states,
        mock.patch.object(table_view, "read_newer", wraps=table_view.read_newer) as newer,
        mock.patch.object(table_view._Table, "_find_file") as find_file,
    ):
        assert 10 == len(read(lake))
    assert 6 == len(listed)
    assert (1, 0) == (newer.call_count, find_file.call_count)
    # On a disk the log's directory is looked for before its id is read.
    assert states.call_count <= (2 if lake.storage.traits.directories else 30)
