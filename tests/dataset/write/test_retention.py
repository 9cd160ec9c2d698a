"""Removed files of a table with a retention: a reader that planned before finds them, others do not, and they go in time."""

import os

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, REWRITE, dying, foreign, leftovers, newest_entry, ours, save, table

from spark_arrow_ipc.dataset.listing.data_file import retained_paths
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.vacuum import vacuum

pytestmark = pytest.mark.usefixtures("publishing")


def plan(path):
    return list_tree([str(path)]).all_files()


def read(files):
    """Return what a read that was planned earlier finds in its files."""
    texts = []
    for file in files:
        source = file.open()
        texts.append(bytes(source.read_at(0, source.nbytes)).decode())
        source.close()
    return sorted(texts)


def age(path, seconds=3600):
    """Make all log entries older."""
    for entry in path.glob("_ipc_log/*/*.json"):
        then = entry.stat().st_mtime - seconds
        os.utime(entry, (then, then))


def retained(path):
    return sorted(found.name for found in (path / "_ipc_replaced").glob("*"))


@pytest.mark.parametrize("mode", [OVERWRITE, DYNAMIC], ids=lambda mode: mode.value)
def test_a_read_that_was_planned_before_finds_removed_files(tmp_path, mode):
    save(tmp_path, APPEND, "k=1:a", "k=a b:b", retention=60)
    planned = plan(tmp_path)
    for text in ("A", "B"):  # the table's log has the retention
        save(tmp_path, mode, f"k=1:{text}", f"k=a b:{text}")
    assert ["a", "b"] == read(planned)
    assert ["k=1:B", "k=a b:B"] == foreign(tmp_path) == ours(tmp_path)
    assert [f"{2:020d}", f"{3:020d}"] == retained(tmp_path)
    age(tmp_path)
    vacuum(table(tmp_path), older_than=0)
    assert ([], []) == (leftovers(tmp_path), retained(tmp_path))
    with pytest.raises(FileNotFoundError):
        read(planned)


@pytest.mark.parametrize(
    ("options", "mode", "stay"),
    [
        ({}, OVERWRITE, False),
        ({}, DYNAMIC, False),
        ({}, REWRITE, True),
        ({"retention": 0}, REWRITE, False),
        ({"retention": 60}, OVERWRITE, True),
    ],
)
def test_the_retention_of_the_table_or_of_the_job_counts_and_a_rewrite_retains_by_itself(tmp_path, options, mode, stay):
    save(tmp_path, APPEND, "k=1:a")
    planned = plan(tmp_path)
    save(tmp_path, mode, "k=1:b", **options)
    assert stay == newest_entry(tmp_path).retain == bool(retained(tmp_path))
    if stay:
        assert ["a"] == read(planned)
    else:
        with pytest.raises(FileNotFoundError):
            read(planned)


def test_a_retention_of_nothing_ends_that_of_the_table(tmp_path):
    save(tmp_path, APPEND, "a", retention=60)
    save(tmp_path, OVERWRITE, "b", retention=0)
    save(tmp_path, OVERWRITE, "c")
    assert [] == retained(tmp_path)


def test_other_readers_do_not_see_removed_files(tmp_path):
    """Nor does a pattern of all directories, as other readers have it."""
    save(tmp_path, APPEND, "a")
    save(tmp_path, OVERWRITE, "b", retention=60)
    assert 1 == len(list(tmp_path.glob("_ipc_replaced/*/*.staged")))
    assert 1 == len(list(tmp_path.glob("**/*.arrow")))
    assert 1 == len(list_tree([f"{tmp_path}/**/*"]).all_files())


@pytest.mark.parametrize("point", ["committed.put", "collected.removed", "collected.files", "collected.mark"])
def test_a_job_that_dies_retains_them_too(tmp_path, point):
    save(tmp_path, APPEND, "a", "b")
    planned = plan(tmp_path)
    with dying(point):
        save(tmp_path, OVERWRITE, "c", retention=60)
    assert ["a", "b"] == read(planned)
    vacuum(table(tmp_path), older_than=0)
    assert ["a", "b"] == read(planned)
    assert ["c"] == foreign(tmp_path) == ours(tmp_path)


def test_vacuum_deletes_them_when_their_time_is_over_and_reports_them(tmp_path):
    save(tmp_path, APPEND, "abc")
    save(tmp_path, OVERWRITE, "b", retention=60)
    assert "retained files" not in vacuum(table(tmp_path), older_than=0).deleted
    age(tmp_path)
    for dry_run in (True, False):
        report = vacuum(table(tmp_path), older_than=0, dry_run=dry_run)
        assert (1, 3) == report.deleted["retained files"]
        assert dry_run == bool(retained(tmp_path))
    assert "retained files" not in vacuum(table(tmp_path), older_than=0).deleted


def test_a_file_of_another_program_is_found_only_as_it_was(tmp_path):
    """A name that is not managed may be of several removed files."""
    (tmp_path / "x.arrow").write_text("a")
    first = plan(tmp_path)
    save(tmp_path, OVERWRITE, "1", retention=60)
    assert ["a"] == read(first)
    (tmp_path / "x.arrow").write_text("b")
    second = [file for file in plan(tmp_path) if file.path.endswith("x.arrow")]
    save(tmp_path, OVERWRITE, "2")
    assert (["a"], ["b"]) == (read(first), read(second))
    age(tmp_path)
    for number in retained(tmp_path):
        if number.endswith("1"):
            (tmp_path / "_ipc_replaced" / number / "x.arrow.staged").unlink()
    assert ["b"] == read(second)
    with pytest.raises(FileNotFoundError):
        read(first)


def test_only_the_table_of_a_file_is_looked_at(tmp_path):
    """A program that may write into a directory above the table gives no reader another file."""
    data = tmp_path / "d"
    save(data, APPEND, "k=1:a")
    planned = plan(data)
    save(data, OVERWRITE, "k=1:b")
    planted = tmp_path / "_ipc_replaced" / f"{9:020d}" / f"{planned[0].path.removeprefix(f'{tmp_path}/')}.staged"
    planted.parent.mkdir(parents=True)
    planted.write_text("x")
    assert [] == list(retained_paths(LOCAL, planned[0]))
    with pytest.raises(FileNotFoundError):
        read(planned)


@pytest.mark.disk
def test_a_link_in_the_place_of_the_retained_files_stops_the_job_before_it_is_committed(tmp_path):
    data = tmp_path / "d"
    save(data, APPEND, "a", retention=60)
    (tmp_path / "elsewhere").mkdir()
    (data / "_ipc_replaced").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CommitError, match=r"_ipc_replaced: expected a directory, found a link"):
        save(data, OVERWRITE, "b")
    assert ["a"] == foreign(data)
    assert [] == list((tmp_path / "elsewhere").iterdir())


def test_names_that_are_not_ours_are_never_deleted(tmp_path):
    save(tmp_path, APPEND, "a", retention=60)
    save(tmp_path, OVERWRITE, "b")
    for name in ("notes", f"{2:020d}-x", "2", f"{99:020d}"):
        (tmp_path / "_ipc_replaced" / name).mkdir()
    age(tmp_path)
    vacuum(table(tmp_path), older_than=0)
    assert sorted(["notes", f"{2:020d}-x", "2", f"{99:020d}"]) == retained(tmp_path)
