"""A disk is full: what dead jobs have staged can be removed all the same, and what cannot be done says what to do."""

import errno
import io
import logging
import os
from pathlib import Path

import pytest
from commit_jobs import APPEND, OVERWRITE, dying
from memory_storage import MemoryStorage
from places import Place

from spark_arrow_ipc.dataset.commit_log.dataset_directory import STAGED_SUFFIX
from spark_arrow_ipc.dataset.commit_log.log import newest_record, read_head
from spark_arrow_ipc.dataset.write import staged_file as staging
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.job_plan import make_staging
from spark_arrow_ipc.dataset.write.staged_file import Staging, keep_room
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.local import LocalStorage

PAGE = 4096


class Disk(LocalStorage):
    """A local directory with so many pages and names; a file and a directory take one page at least."""

    top, pages, names, number = "", 1 << 40, 1 << 40, errno.ENOSPC

    def inside(self, directory):
        return type(self)(directory)

    def create(self, path):
        self.check(1)
        super().create(path).close()
        return io.BufferedWriter(_File(self, path))

    def make_directory(self, directory):
        if self.status(directory) is None:
            self.check(1)
        super().make_directory(directory)

    def check(self, pages, names=1):
        """Raise if there are not so many pages and names left."""
        sizes = [path.lstat().st_size if path.is_file() else 0 for path in Path(self.top).rglob("*")]
        used = sum(max(1, -(-size // PAGE)) for size in sizes)
        if used + pages > self.pages or len(sizes) + names > self.names:
            raise OSError(self.number, os.strerror(self.number), self.top)

    def __reduce__(self):
        return type(self), () if self.root is None else (self.root,)


class _File(io.FileIO):
    def __init__(self, disk, path):
        super().__init__(path, "ab")
        self.disk, self.path = disk, path

    def write(self, data):
        self.disk.check(-(-len(data) // PAGE), 0)
        return super().write(data)


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name, value in {"top": str(tmp_path), "pages": 1 << 40, "names": 1 << 40, "number": errno.ENOSPC}.items():
        monkeypatch.setattr(Disk, name, value)
    return Place(Disk(), str(tmp_path / "lake"))


def filled(place, plan, limit="pages"):
    """Stage files until there is no page, or no name, left."""
    setattr(Disk, limit, len(list(Path(Disk.top).rglob("*"))) + (60 if limit == "pages" else 5))
    with pytest.raises(OSError, match=r"No space left|quota"):
        for number in range(1000):
            place.staged(plan, number, "x" * PAGE)
    with pytest.raises(OSError, match=r"No space left|quota"):
        place.storage.put(plan.staging.path("0" * 32 + STAGED_SUFFIX), b"x")


def filled_by_others(place):
    """Let files that are not ours take the last page."""
    Path(place.root, "_other").mkdir()
    Disk.pages = len(list(Path(Disk.top).rglob("*"))) + 60
    with pytest.raises(OSError, match=r"No space left"):
        for number in range(1000):
            place.storage.put(f"{place.root}/_other/{number}", bytes(PAGE))


ENDS = {
    "abort": lambda place, jobid: abort(Staging(place.dataset, jobid)),
    "vacuum": lambda place, jobid: jobid in vacuum(place.root, older_than_seconds=0, storage=place.storage).withdrawn,
    "give up": lambda place, jobid: give_up(place.root, jobid, storage=place.storage).jobid == jobid,
}

HISTORIES = {
    "nothing": lambda place: place.storage.make_directory(place.root),
    "a job": lambda place: place.save(APPEND, "a"),
    "jobs with long tokens": lambda place: [place.save(APPEND, "a", commit_token=f"{i}" * 1000) for i in range(8)],
    "kept records": lambda place: place.save(APPEND, "a", commit_retention=60),
    "a dataset of others": lambda place: place.put("part-0.arrow", "a"),
}


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("limit", ["pages", "names"])
@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("end", ENDS)
def test_what_a_dead_job_staged_is_removed(place, end, history, limit):
    HISTORIES[history](place)
    before = place.plain()
    plan, _ = place.planned(APPEND, "x")
    filled(place, plan, limit)
    assert ENDS[end](place, plan.staging.jobid)
    assert [] == place.leftovers()
    assert before == place.plain() == place.ours()
    place.save(APPEND, "next")
    assert sorted([*before, "next"]) == place.plain()


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get)
@pytest.mark.parametrize("limit", ["pages", "names"])
def test_a_job_that_finds_no_room_does_not_begin(place, limit, number, monkeypatch):
    monkeypatch.setattr(Disk, "number", number)
    place.save(APPEND, "a")
    plan, _ = place.planned(APPEND, "x")
    filled(place, plan, limit)
    before = place.names()
    words = (
        "free some space there.*write again, or run 'arrowipc vacuum .*/lake', which removes what dead jobs have staged"
    )
    with pytest.raises(OSError, match=words) as caught:
        place.save(OVERWRITE, "n")
    assert (Disk.number, True) == (caught.value.errno, caught.value.filename.startswith(Disk.top))
    assert before == place.names()


@pytest.mark.slow
def test_a_job_whose_record_finds_no_room_is_aborted(place):
    place.save(APPEND, "a")
    plan, outputs = place.planned(OVERWRITE, "n")
    filled(place, plan)
    with pytest.raises(CommitError, match=r"free some space there.*and write again: .*nothing is published"):
        commit(plan, outputs, write_empty=None)
    assert abort(plan.staging)
    assert (["a"], []) == (place.plain(), place.leftovers())


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("point", ["C3.linked", "C4.directories", "C4.renamed", "C4.synced", "C6.success"])
@pytest.mark.parametrize("mode", [APPEND, OVERWRITE])
def test_a_job_that_is_committed_is_put_in_place(place, mode, point):
    place.save(APPEND, "a")
    plan, outputs = place.planned(mode, *(f"k={i}:b" for i in range(4)))
    with dying(point):
        commit(plan, outputs, write_empty=None)
    filled_by_others(place)
    assert ["k=0:b", "k=1:b", "k=2:b", "k=3:b", *(["a"] if mode is APPEND else [])] == sorted(
        place.ours(), key=len, reverse=True
    )
    vacuum(place.root, older_than_seconds=0, storage=place.storage)
    assert read_head(place.dataset).done
    assert place.ours() == [text for text in place.plain() if not text.startswith("_other")]
    assert plan.staging.jobid in newest_record(place.dataset)[1].jobs
    assert not Path(place.dataset.all_staging).exists()


@pytest.mark.slow
def test_a_mark_without_room_for_a_copy_is_a_mark(place, monkeypatch):
    monkeypatch.setattr(staging, "_LEAST_NBYTES", 3)
    plan, outputs = place.planned(APPEND, *("b" * 200))
    with dying("C4.synced"):
        commit(plan, outputs, write_empty=None)
    filled_by_others(place)
    vacuum(place.root, older_than_seconds=0, storage=place.storage)
    record = place.record
    assert record.first_bytes == place.storage.read(place.dataset.done_mark(1), 1 << 20)
    assert (True, ["b"] * 200) == (read_head(place.dataset).done, place.ours())
    Disk.pages = 1 << 40
    place.save(APPEND, "c")
    assert [*["b"] * 200, "c"] == place.ours()


@pytest.mark.slow
def test_a_pending_job_is_given_up(place):
    place.save(APPEND, "a")
    plan, outputs = place.planned(OVERWRITE, "n")
    with dying("C3.linked"):
        commit(plan, outputs, write_empty=None)
    filled(place, plan)
    assert plan.staging.jobid == give_up(place.root, plan.staging.jobid, storage=place.storage).jobid
    assert (["a"], []) == (place.plain(), place.leftovers())


@pytest.mark.slow
def test_without_room_that_is_kept_the_error_says_what_to_do(place, caplog):
    place.save(APPEND, "a")
    plan, outputs = place.planned(APPEND, "x")
    place.storage.delete_tree(place.dataset.room(plan.staging.jobid))
    filled(place, plan)
    before = place.names()
    for end in ("vacuum", "give up"):
        with pytest.raises(OSError, match=r"free some space there.*and run 'arrowipc vacuum .*/lake'") as caught:
            ENDS[end](place, plan.staging.jobid)
        assert caught.value.filename.startswith(Disk.top)
    with caplog.at_level(logging.WARNING):
        assert not abort(plan.staging)
    assert "free some space there" in caplog.text
    assert before == place.names()
    Disk.pages = 1 << 40
    commit(plan, outputs, write_empty=None)
    assert ["a", "x"] == place.plain()


@pytest.mark.slow
def test_a_paused_job_whose_room_was_taken_is_withdrawn_whole_or_not_at_all(place):
    place.save(APPEND, "a")
    plan, outputs = place.planned(APPEND, "x")
    filled(place, plan)
    assert ENDS["vacuum"](place, plan.staging.jobid)
    with pytest.raises(CommitError, match=r"withdrawn"):
        commit(plan, outputs, write_empty=None)
    assert (["a"], []) == (place.plain(), place.leftovers())


@pytest.mark.slow
def test_vacuum_without_room_removes_what_needs_no_record(place):
    """Staged files of a job that is withdrawn already, though nobody has kept any room."""
    place.save(APPEND, "a")
    first, _ = place.planned(APPEND, "x")
    second, _ = place.planned(APPEND, "y")
    with dying("C6.pruned"):
        abort(first.staging)
    for plan in (first, second):
        place.storage.delete_tree(place.dataset.room(plan.staging.jobid))
    filled(place, first)
    vacuum(place.root, older_than_seconds=0, storage=place.storage)
    assert (["a"], []) == (place.plain(), place.leftovers())


def test_tasks_of_a_stream_keep_room_once(place):
    staging = Staging(place.dataset, "f" * 32)
    make_staging(staging)
    before = place.names()
    assert 3 == len([name for name in before if ".room/" in name])
    make_staging(staging)
    assert before == place.names()
    assert 1 == len(vacuum(place.root, older_than_seconds=0, storage=place.storage).withdrawn)
    assert [] == place.leftovers()


@pytest.mark.slow
def test_room_whose_job_has_ended_is_removed_by_vacuum(place):
    place.save(APPEND, "a")
    plan, _ = place.planned(APPEND, "x")
    place.storage.delete_tree(plan.staging.directory)
    assert (plan.staging.jobid,) == vacuum(place.root, older_than_seconds=0, storage=place.storage).withdrawn
    assert [] == place.leftovers()


def test_storages_that_are_no_disk_keep_none():
    storage = MemoryStorage()
    place = Place(storage, "memory:/lake")
    keep_room(Staging(place.dataset, "f" * 32))
    assert [] == place.names()
