"""Listings corrected by pending commit records, and repeated when a head moves."""

import os
import pickle
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest import mock

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, dataset, dying, foreign, ours, planned, save
from listed_files import list_files

from spark_arrow_ipc.dataset.commit_log import log
from spark_arrow_ipc.dataset.commit_log.dataset_directory import RemovedFile, StagedFile
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.dataset.listing import committed_view, directory
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.roll_forward import finish
from spark_arrow_ipc.errors import ConcurrentWriteError, FileChangedError


def fill(root, *names):
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())


def listed(root, *paths, **options):
    return [os.path.relpath(file.path, root) for file in list_files([str(root / path) for path in paths], **options)]


PENDING_JOB = "0" * 32


def commit(root, adds, removes=(), *, done=False, staged=()):
    """Leave a dataset as a job does that ended in the middle of publishing; `staged` files have not their name yet."""
    stage = root / "_ipc_stage" / PENDING_JOB
    fill(root, "_ipc_commits/", f"_ipc_stage/{PENDING_JOB}/")
    files = []
    for i, final in enumerate(adds):
        fill(stage, f"{i}.staged")
        files.append(StagedFile(f"{i}.staged", final, (stage / f"{i}.staged").stat().st_size, 1, 0))
        if final not in staged:
            (root / final).parent.mkdir(parents=True, exist_ok=True)
            (stage / f"{i}.staged").rename(root / final)
    record = Record(1, PENDING_JOB, "append", tuple(files), tuple(map(RemovedFile, removes)), jobs=(PENDING_JOB,))
    (root / "_ipc_commits" / f"{1:020d}.json").write_bytes(record.to_bytes())
    if done:
        fill(root, f"_ipc_commits/{1:020d}.done")


ADDS = ["new.arrow", "k=2/new.arrow", "k=3/j=1/new.arrow"]


OLD = ["old.arrow", "k=2/old.arrow", "k=2/gone.arrow"]


@pytest.mark.parametrize("staged", [ADDS, ADDS[1:], ADDS[2:], []], ids=["none renamed", "one", "two", "all"])
@pytest.mark.parametrize("removed_already", [False, True], ids=["before the removal", "after it"])
def test_pending_job_is_seen_as_if_it_were_done(tmp_path, staged, removed_already):
    """Protocol step R: the answer is the same at every point of the roll-forward."""
    root = tmp_path / "data"
    fill(root, *OLD)
    commit(root, ADDS, ["k=2/gone.arrow"], staged=staged)
    if removed_already:
        (root / "k=2/gone.arrow").unlink()
    everything = ["k=2/new.arrow", "k=2/old.arrow", "k=3/j=1/new.arrow", "new.arrow", "old.arrow"]
    assert everything == sorted(listed(root, "", recursive=True))
    assert everything[:2] == listed(root, "k=2")
    assert ["k=3/j=1/new.arrow"] == listed(root, "k=3/j=1")
    assert ["k=3/j=1/new.arrow"] == listed(root, "k=3/j=1/new.arrow")
    assert ["k=2/new.arrow", "k=3/j=1/new.arrow", "new.arrow"] == sorted(listed(root, "**/new.arrow"))
    assert everything[:2] == listed(root, "k=[2]/*")
    assert everything == sorted(os.path.relpath(f.path, root) for f in list_files([str(tmp_path)], recursive=True))
    for file in list_files([str(root)], recursive=True):
        found = Path(file.path if file.staged is None else file.staged)
        assert (file.nbytes, file.mtime_ns) == (found.stat().st_size, found.stat().st_mtime_ns)
        assert (os.path.relpath(file.path, root) in staged) == (file.staged is not None)
        assert file == pickle.loads(pickle.dumps(file))


def test_listing_is_repeated_when_a_job_commits_meanwhile(tmp_path, monkeypatch):
    root = tmp_path / "data"
    fill(root, "k=1/a.arrow", "k=2/gone.arrow", "_ipc_commits/")
    real = os.scandir

    def scandir(path):
        entries = real(path)
        if str(path).endswith("k=2"):  # k=1 is listed already, without what the job adds to it
            monkeypatch.setattr(os, "scandir", real)
            commit(root, ["k=1/b.arrow", "k=2/b.arrow"], ["k=2/gone.arrow"], done=True)
            (root / "k=2/gone.arrow").unlink()
        return entries

    monkeypatch.setattr(os, "scandir", scandir)
    assert ["k=1/a.arrow", "k=1/b.arrow", "k=2/b.arrow"] == listed(root, "", recursive=True)


@contextmanager
def doing(action, times=1):
    """Do something after each of the first times that a directory's names were read."""
    real, left = os.scandir, iter(range(times))

    def scandir(path):
        names = list(real(path))
        if "part-" in str(names) and next(left, None) is not None:
            action()
        return nullcontext(iter(names))

    with mock.patch.object(os, "scandir", scandir):
        yield


@pytest.mark.parametrize("first", [False, True], ids=["later job", "first job"])
def test_a_job_that_commits_while_the_directory_is_listed_makes_the_reader_list_again(tmp_path, first):
    if first:
        (tmp_path / "part-a.arrow").write_text("a")
    else:
        save(tmp_path, APPEND, "a")
    with doing(lambda: save(tmp_path, OVERWRITE, "b")):
        assert ["b"] == ours(tmp_path)


def test_a_pending_job_that_ends_while_the_directory_is_listed_changes_nothing(tmp_path):
    save(tmp_path, APPEND, "a")
    with dying("C4.renamed"):
        save(tmp_path, OVERWRITE, "b", "c")
    with doing(lambda: finish(dataset(tmp_path))):
        assert ["b", "c"] == ours(tmp_path)


MEANWHILE = {
    "an append": (lambda path: save(path, APPEND, "k=1:b"), ["k=1:a", "k=1:b", "k=2:a"]),
    "an append of a new partition": (lambda path: save(path, APPEND, "k=3/j=1:b"), ["k=1:a", "k=2:a", "k=3/j=1:b"]),
    "several": (lambda path: [save(path, APPEND, f"k={i}:b") for i in range(9)], ["k=0:b", "k=1:a", "k=1:b", "k=2:a", "k=2:b", *(f"k={i}:b" for i in range(3, 9))]),
    "an overwrite": (lambda path: save(path, OVERWRITE, "k=2:b"), ["k=2:b"]),
    "an overwrite, then an append": (lambda path: (save(path, OVERWRITE, "k=2:b"), save(path, APPEND, "k=1:c")), ["k=1:c", "k=2:b"]),
    "what was added is replaced": (lambda path: (save(path, APPEND, "k=1:b"), save(path, DYNAMIC, "k=1:c")), ["k=1:c", "k=2:a"]),
    "an overwrite that stops half-way": (lambda path: stopping(path, OVERWRITE, "k=2:b", "k=3:b"), ["k=2:b", "k=3:b"]),
    "a withdrawal": (lambda path: abort(planned(path, APPEND, "x")[0].staging), ["k=1:a", "k=2:a"]),
}  # fmt: skip


def stopping(path, *job):
    finish(dataset(path))
    with dying("C4.renamed"):
        save(path, *job)


@pytest.fixture
def keeps_records(monkeypatch):
    """Keep the records of the last hour: on a busy machine a minute may pass between two jobs of a test."""
    monkeypatch.setattr(log, "_KEPT_NS", 3600 * 10**9)


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("pending", [False, True], ids=["", "while another was pending"])
@pytest.mark.parametrize("moment", [1, 2, 3], ids=["root", "first partition", "second partition"])
@pytest.mark.parametrize("case", MEANWHILE)
@pytest.mark.usefixtures("keeps_records")
def test_what_is_committed_meanwhile_is_applied_to_what_was_listed(tmp_path, case, moment, pending):
    """The directories are listed once, whoever commits; every moment of a job is met by `moment` and a half-done one."""
    meanwhile, expected = MEANWHILE[case]
    save(tmp_path, APPEND, "k=1:a")
    (stopping if pending else save)(tmp_path, APPEND, "k=2:a")
    listed = []
    real = directory.read_directory

    def look(storage, path):
        listed.append(path)
        if len(listed) == moment:
            meanwhile(tmp_path)
        return real(storage, path)

    with mock.patch.object(committed_view, "read_directory", look):
        assert expected == ours(tmp_path)
    assert len(set(listed)) == len(listed)


@pytest.mark.usefixtures("keeps_records")
def test_readers_do_not_starve_beside_many_appends(tmp_path):
    """25 commits a second, of which some come during each listing."""
    save(tmp_path, APPEND, "a")
    with doing(lambda: [save(tmp_path, APPEND, "b") for _ in range(3)], 100):
        assert ["a", "b", "b", "b"] == ours(tmp_path)


def test_a_directory_that_never_rests_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "_KEPT_NBYTES", 0)  # all records but two are deleted
    save(tmp_path, APPEND, "a")
    many = doing(lambda: [save(tmp_path, APPEND, "b") for _ in range(3)], 100)
    with many, pytest.raises(ConcurrentWriteError):
        ours(tmp_path)


def test_a_committed_file_of_another_size_is_an_error(tmp_path):
    with dying("C3.linked"):
        save(tmp_path, APPEND, "abc")
    next((tmp_path / "_ipc_stage").glob("*[0-9a-f]/*.staged")).write_text("abcd")
    with pytest.raises(FileChangedError, match="3 bytes, found 4"):
        ours(tmp_path)


def test_a_reader_may_start_at_any_passage_of_a_commit(tmp_path):
    """A reader between two steps sees the old or the new data, the new from the link on."""
    save(tmp_path, APPEND, "k=1:a", "k=2:b")
    seen = []

    def hit(name):
        seen.append((name, ours(tmp_path)))

    with mock.patch("spark_arrow_ipc.storage.failpoint.hit", hit):
        save(tmp_path, OVERWRITE, "k=2:c", "k=3:d", "e")
    linked = [name for name, _ in seen].index("C3.linked")
    assert {("k=1:a", "k=2:b")} == {tuple(view) for _, view in seen[:linked]}
    assert {("e", "k=2:c", "k=3:d")} == {tuple(view) for _, view in seen[linked:]}
    assert ["e", "k=2:c", "k=3:d"] == foreign(tmp_path)
