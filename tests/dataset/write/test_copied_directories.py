"""A directory is copied, or its times change, while a commit is not in place yet: nothing comes back, nothing is doubled."""

import os
import shutil

import pytest
from commit_jobs import APPEND, OVERWRITE, REWRITE, dying, finish, foreign, interrupted, leftovers, ours, planned, save
from copying_storage import CopyingStorage, local_paths_are_copied

from spark_arrow_ipc.dataset.commit_log import record as record_module
from spark_arrow_ipc.dataset.write import record_chain as append_module
from spark_arrow_ipc.dataset.write import roll_forward as withdraw_module
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError

pytestmark = pytest.mark.usefixtures("publishing")


def data_files(path):
    return [found for found in path.rglob("part-*") if found.is_file()]


def touched(path):
    for found in data_files(path):
        os.utime(found)
    return path


def cut(path):
    """A file system that keeps times to the millisecond."""
    for found in data_files(path):
        time = found.stat().st_mtime_ns // 10**6 * 10**6
        os.utime(found, ns=(time, time))
    return path


def copied(path):
    """Do as ``cp -r``: the names and the bytes, and new times."""
    return shutil.copytree(path, path.with_name("copy"), copy_function=shutil.copyfile)


def synced(path):
    """Do as ``rsync -r --times`` or tar: whole seconds."""
    new = copied(path)
    for found in data_files(new):
        time = (path / found.relative_to(new)).stat().st_mtime_ns // 10**9
        os.utime(found, (time, time))
    return new


CHANGES = {change.__name__: change for change in (touched, cut, copied, synced)}
RECOVERIES = {
    "append": (lambda data, _: save(data, APPEND, "next"), ["new", "next"]),
    "vacuum": (lambda data, _: vacuum(data, older_than_seconds=0), ["new"]),
    "give up": (lambda data, jobid: give_up(data, jobid, older_than_seconds=0), ["old 1", "old 2"]),
}


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.disk
@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mode", [OVERWRITE, REWRITE])
@pytest.mark.parametrize("point", ["C3.linked", "C4.renamed", "C4.synced"])
def test_files_of_ours_are_known_by_their_names_and_sizes(tmp_path, point, mode, change, recovery):
    data = tmp_path / "data"
    save(data, APPEND, "old 1", "old 2")
    plan, outputs = planned(data, mode, "new")
    with dying(point):
        finish(plan, outputs)
    data = CHANGES[change](data)
    assert ["new"] == ours(data)
    recover, expected = RECOVERIES[recovery]
    recover(data, plan.staging.jobid)
    assert expected == ours(data) == foreign(data)
    assert [] == leftovers(data)


@pytest.mark.slow
@pytest.mark.disk
def test_a_file_of_another_size_under_a_name_of_ours_stays(tmp_path, caplog):
    """No writer of this package makes it: what it holds is not what the job replaced."""
    save(tmp_path, APPEND, "old")
    with dying("C4.renamed"):
        save(tmp_path, OVERWRITE, "new")
    (old,) = [found for found in data_files(tmp_path) if found.read_text() == "old"]
    old.write_text("something else")
    save(tmp_path, APPEND, "next")
    assert ["new", "next", "something else"] == foreign(tmp_path)
    assert "was replaced since the commit that removes it" in caplog.text


@pytest.fixture
def short_memory(monkeypatch):
    """Let records remember two jobs, not a thousand."""
    for module in (record_module, append_module, withdraw_module):
        monkeypatch.setattr(module, "REMEMBERED", 2)


PAUSES = {
    "before its record": ("C3.checked", CommitError, []),
    "after its record": ("C3.linked", None, ["mine"]),
}


@pytest.mark.slow
@pytest.mark.disk
@pytest.mark.parametrize("name", PAUSES)
def test_a_pause_that_is_longer_than_the_memory_of_the_chain(tmp_path, short_memory, name):
    """The files tell that it is published; without them nobody can know, and nothing else is said."""
    point, error, mine = PAUSES[name]
    plan, outputs = planned(tmp_path, APPEND, "mine")

    def others():
        for i in range(4):
            save(tmp_path, APPEND, f"other {i}")

    with interrupted(point, others):
        if error is None:
            finish(plan, outputs)
        else:
            with pytest.raises(error, match=r"stood still while others made .* is unknown\. Look for its rows"):
                finish(plan, outputs)
    assert sorted([*mine, *(f"other {i}" for i in range(4))]) == ours(tmp_path) == foreign(tmp_path)


@pytest.mark.slow
@pytest.mark.disk
def test_a_job_that_is_forgotten_and_withdrawn_is_not_said_to_be_given_up(tmp_path, short_memory):
    """Others put it in place; who withdraws it later does not know that it was committed."""
    with local_paths_are_copied(CopyingStorage()):  # on a disk, its staging directory is gone, and it is not withdrawn
        plan, outputs = planned(tmp_path, APPEND, "mine")

        def others():
            for i in range(4):
                save(tmp_path, APPEND, f"other {i}")
            abort(plan.staging)

        with (
            interrupted("C4.directories", others),
            pytest.raises(CommitError, match=r"stood still while others made .* is unknown\. Look for its rows"),
        ):
            finish(plan, outputs)
        assert ["mine", *(f"other {i}" for i in range(4))] == ours(tmp_path)


@pytest.mark.slow
@pytest.mark.disk
def test_files_that_another_job_replaced_meanwhile_do_not_tell(tmp_path, short_memory):
    plan, outputs = planned(tmp_path, APPEND, "mine")

    def others():
        for i in range(4):
            save(tmp_path, OVERWRITE, f"other {i}")

    with interrupted("C3.linked", others), pytest.raises(CommitError, match="is unknown"):
        finish(plan, outputs)
    assert ["other 3"] == ours(tmp_path) == foreign(tmp_path)
