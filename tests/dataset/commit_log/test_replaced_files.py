"""Replaced files that live on: where they lie, and how long."""

import time
from pathlib import Path

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, dataset, dying, foreign, leftovers, ours, save
from job_plans import plan_job

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.dataset.commit_log import dataset_directory as replaced_files
from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    expired,
    kept_directory,
    kept_path,
    kept_places,
    kept_version,
)
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write import WriteMode, old_files
from spark_arrow_ipc.dataset.write.staged_file import SinkOptions
from spark_arrow_ipc.dataset.write.task import write_task
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.local import LOCAL


def opened(files):
    """Return what a read that was planned earlier finds in its files."""
    texts = []
    for file in files:
        source = file.open()
        texts.append(bytes(source.read_at(0, source.nbytes)).decode())
        source.close()
    return sorted(texts)


@pytest.fixture
def later(monkeypatch):
    """Make the clock of commits and vacuum run ahead by an hour."""
    real = time.time
    return lambda: monkeypatch.setattr(time, "time", lambda: real() + 3600)


@pytest.mark.parametrize("mode", [OVERWRITE, DYNAMIC], ids=lambda mode: mode.value)
def test_a_read_that_was_planned_before_finds_replaced_files(tmp_path, later, mode):
    save(tmp_path, APPEND, "k=1:a", "k=a b:b")
    planned = list_tree([str(tmp_path)]).all_files()
    save(tmp_path, mode, "k=1:A", "k=a b:B", keep_replaced=60)
    save(tmp_path, mode, "k=1:AA", "k=a b:BB", keep_replaced=60)
    assert ["a", "b"] == opened(planned)
    assert ["k=1:AA", "k=a b:BB"] == foreign(tmp_path) == ours(tmp_path)
    later()
    save(tmp_path, APPEND, "k=1:c")
    assert [] == leftovers(tmp_path)
    assert not (tmp_path / "_ipc_replaced").exists()
    with pytest.raises(FileNotFoundError):
        opened(planned)


def test_nothing_is_kept_without_the_option(tmp_path):
    save(tmp_path, APPEND, "a")
    planned = list_tree([str(tmp_path)]).all_files()
    save(tmp_path, OVERWRITE, "b")
    assert not (tmp_path / "_ipc_replaced").exists()
    with pytest.raises(FileNotFoundError):
        opened(planned)


def test_other_readers_do_not_see_replaced_files(tmp_path):
    """Nor does a pattern of all directories, as other readers have it."""
    save(tmp_path, APPEND, "a")
    save(tmp_path, OVERWRITE, "b", keep_replaced=60)
    assert 1 == len(list(tmp_path.glob("_ipc_replaced/*/*.staged")))
    assert 1 == len(list(tmp_path.glob("**/*.arrow")))
    assert 1 == len(list_tree([f"{tmp_path}/**/*"]).all_files())


@pytest.mark.parametrize("point", ["C5.unlinked", "C5.synced", "C6.success", "C6.pruned"])
def test_a_commit_that_dies_keeps_them_too(tmp_path, point):
    save(tmp_path, APPEND, "a", "b")
    planned = list_tree([str(tmp_path)]).all_files()
    with dying(point):
        save(tmp_path, OVERWRITE, "c", keep_replaced=60)
    assert ["a", "b"] == opened(planned)
    vacuum(tmp_path, older_than_seconds=0)
    assert ["a", "b"] == opened(planned)
    assert ["c"] == foreign(tmp_path) == ours(tmp_path)


def test_vacuum_removes_them_when_their_time_is_over_and_reports_them(tmp_path, later):
    save(tmp_path, APPEND, "abc")
    save(tmp_path, OVERWRITE, "b", keep_replaced=60)
    assert (0, ()) == ((report := vacuum(tmp_path)).nbytes, report.files)
    later()
    for dry_run in (True, False):
        report = vacuum(tmp_path, dry_run=dry_run)
        assert (3, 1) == (report.nbytes, len(report.files))
        assert dry_run == (tmp_path / "_ipc_replaced").exists()
    assert 0 == vacuum(tmp_path).nbytes


def test_what_is_late_is_deleted_and_not_kept(tmp_path, monkeypatch):
    """The directory of the replaced files is gone when a late process would move one there."""
    save(tmp_path, APPEND, "a")
    monkeypatch.setattr(old_files, "kept_path", lambda *_: str(tmp_path / "gone" / "already"))
    save(tmp_path, OVERWRITE, "b", keep_replaced=60)
    assert ["b"] == foreign(tmp_path)


def test_only_the_dataset_of_a_file_is_looked_at(tmp_path):
    """Whoever may write into a directory above the dataset gives no reader another file."""
    name = kept_path("", "d/k=1/x.arrow")
    for above in ("_ipc_replaced", "d/k=1/_ipc_replaced"):
        (tmp_path / above / f"{9:020d}-{'a' * 32}").mkdir(parents=True)
        (tmp_path / above / f"{9:020d}-{'a' * 32}" / name).write_text("x")
    assert [] == list(kept_places(LOCAL, str(tmp_path / "d/k=1/x.arrow")))
    (tmp_path / "elsewhere" / f"{9:020d}-{'a' * 32}").mkdir(parents=True)
    (tmp_path / "d/_ipc_replaced").symlink_to(tmp_path / "elsewhere")
    places = list(kept_places(LOCAL, str(tmp_path / "d/k=1/x.arrow")))
    assert [] == [place for place in places if Path(place).exists()]


def test_a_link_in_the_place_of_the_replaced_files_stops_the_job_before_it_is_committed(tmp_path):
    save(tmp_path / "d", APPEND, "a")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "d" / "_ipc_replaced").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CommitError, match="_ipc_replaced"):
        save(tmp_path / "d", OVERWRITE, "b", keep_replaced=60)
    assert ["a"] == foreign(tmp_path / "d")
    assert [] == list((tmp_path / "elsewhere").iterdir())


def test_names_that_are_not_ours_are_never_deleted(tmp_path):
    ours_ = kept_directory(dataset(tmp_path), 5, "a" * 32)
    for name in (Path(ours_).name, "notes", f"{5:020d}-x", f"{99:020d}-{'a' * 32}"):
        (tmp_path / replaced_files.REPLACED_DIRECTORY / name).mkdir(parents=True)
    assert [] == expired(dataset(tmp_path), 4)
    assert [ours_] == expired(dataset(tmp_path), 5)


def test_a_kept_copy_of_another_programs_file_is_named_by_its_version(tmp_path):
    assert kept_version("/d/0.arrow", "etag") == "etag"
    assert len({kept_path("/k", "0.arrow", version) for version in ("", "a", "b")}) == 3
    batch = RecordBatch.from_pydict({"a": [1]}, Schema.of([types.field("a", types.int64)]))
    plan = plan_job(str(tmp_path / "d"), WriteMode.APPEND)
    for number, kind in ((3, "file"), (123_456, "stream")):
        options = SinkOptions(ipc.WriteOptions(format=kind))
        written = write_task(plan.staging, [batch], batch.schema, partition_id=number, directory="k=1", options=options)
        assert kept_version(f"/d/{written.files[0].final}", "etag") == "", "our names are each of one file"
    for other in ("part-00000.arrow", f"part-00000-{'a' * 32}.arrow.bak", f"part-{'a' * 32}/0.arrow"):
        assert kept_version(f"/d/{other}", "etag") == "etag"
