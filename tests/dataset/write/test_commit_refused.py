"""A job that could not be brought to its end is refused while it can still fail whole."""

import errno
import os
import sys
import tempfile
import traceback
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, dataset, dying, finish, foreign, leftovers, ours, planned, save
from job_plans import plan_job

from spark_arrow_ipc.dataset.commit_log.log import read_pending
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError, OptionError
from spark_arrow_ipc.storage.local import LocalStorage

NOBODY, OTHER, GROUP = 65_534, 65_533, 65_532


@pytest.fixture
def shared(tmp_path):
    """Return a directory that every user can reach."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path)


def as_another_user(function, user=NOBODY, groups=(), umask=None):
    """Call a function in a child that is not root; what it raises fails the test."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            if not os.geteuid():
                os.setgroups(groups)
                os.setgid(user)
                os.setuid(user)
            if umask is not None:
                os.umask(umask)
            function()
            status = 0
        except BaseException:  # noqa: BLE001  # the child must end here
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(status)
    assert 0 == os.waitpid(pid, 0)[1]


@contextmanager
def failing_check(name, code):
    with mock.patch.object(LocalStorage, name, side_effect=OSError(code, os.strerror(code), "k=1")):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("mode", [APPEND, OVERWRITE, DYNAMIC], ids=lambda mode: mode.value)
@pytest.mark.parametrize("code", [errno.EXDEV, errno.EACCES, errno.ENAMETOOLONG], ids=errno.errorcode.get)
def test_files_that_cannot_be_renamed_are_not_committed(tmp_path, mode, code):
    save(tmp_path, APPEND, "k=1:old")
    plan, outputs = planned(tmp_path, mode, "k=1:new")
    with failing_check("check_publish", code), pytest.raises(CommitError, match=r"'k=1'; nothing is published"):
        finish(plan, outputs)
    assert ["k=1:old"] == ours(tmp_path) == foreign(tmp_path)
    assert abort(plan.staging)
    assert [] == leftovers(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [OVERWRITE, DYNAMIC], ids=lambda mode: mode.value)
def test_files_that_cannot_be_removed_are_not_replaced(tmp_path, mode):
    save(tmp_path, APPEND, "k=1:old")
    plan, outputs = planned(tmp_path, mode, "k=1:new")
    with failing_check("check_delete", errno.EPERM), pytest.raises(CommitError, match=r"'k=1'; nothing is published"):
        finish(plan, outputs)
    if mode is OVERWRITE:
        with failing_check("check_delete", errno.EPERM), pytest.raises(PermissionError, match="k=1"):
            plan_job(str(tmp_path), mode)
    assert ["k=1:old"] == ours(tmp_path)
    assert save(tmp_path, APPEND, "k=1:new").published


@pytest.mark.slow
def test_a_dynamic_overwrite_minds_only_the_partitions_that_it_replaces(tmp_path):
    save(tmp_path, APPEND, "k=1:old", "k=2:old")
    real = LocalStorage.check_delete

    def check_delete(storage, paths):
        if any("k=1" in path for path in paths):
            raise PermissionError(errno.EPERM, "immutable", "k=1")
        real(storage, paths)

    with mock.patch.object(LocalStorage, "check_delete", check_delete):
        assert save(tmp_path, DYNAMIC, "k=2:new").published
        with pytest.raises(CommitError, match="immutable"):
            save(tmp_path, DYNAMIC, "k=1:new")


@pytest.mark.slow
def test_a_path_that_no_reader_can_open_is_not_committed(tmp_path):
    root = tmp_path
    while len(str(root)) < 3_800:
        root /= "d" * min(200, 3_900 - len(str(root)))
    save(root, APPEND, "old")
    plan, outputs = planned(root, APPEND, f"k={'v' * 200}:new")
    with pytest.raises(CommitError, match=r"the name is too long for this file system.*nothing is published"):
        finish(plan, outputs)
    assert ["old"] == ours(root)


def test_a_success_file_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    (tmp_path / "_SUCCESS" / "mine").mkdir(parents=True)
    for text in "ab":
        assert save(tmp_path, APPEND, text).published
    assert "_SUCCESS could not be written" in caplog.text
    assert ["a", "b"] == ours(tmp_path) == foreign(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [APPEND, OVERWRITE], ids=lambda mode: mode.value)
def test_a_directory_that_this_user_may_not_write_to_is_refused_when_planning(shared, mode):
    data = shared / "data"
    save(data, APPEND, "old")
    data.chmod(0o555)

    def refused():
        with pytest.raises(PermissionError, match="data"):
            plan_job(str(data), mode)

    as_another_user(refused)
    assert ["old"] == ours(data)


@pytest.mark.slow
def test_an_overwrite_of_a_partition_that_this_user_may_not_write_to_is_refused_when_planning(shared):
    data = shared / "data"
    save(data, APPEND, "k=1:old")
    for path in (data, data / "_ipc_commits"):
        path.chmod(0o777)
    (data / "k=1").chmod(0o555)

    def refused():
        with pytest.raises(PermissionError, match="k=1"):
            plan_job(str(data), OVERWRITE)
        plan, outputs = planned(data, APPEND, "k=1:new")
        with pytest.raises(CommitError, match=r"k=1'; nothing is published"):
            finish(plan, outputs)
        assert abort(plan.staging)

    as_another_user(refused)
    assert ["k=1:old"] == ours(data)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can work as two users")
@pytest.mark.parametrize("mode", [0o777, 0o1777], ids=oct)
def test_two_users_write_to_a_directory_that_both_may_write_to(shared, mode):
    """The first one's umask is 022; what it makes inside takes the mode of the directory."""
    data = shared / "data"
    data.mkdir()
    data.chmod(mode)
    before = os.umask(0o022)
    try:
        save(data, APPEND, "k=1:a")
        as_another_user(lambda: save(data, APPEND, "k=1:b", "k=2:c"))
        save(data, APPEND, "k=2:d")
        as_another_user(lambda: save(data, APPEND, "k=1:e"))
        if mode == 0o777:
            as_another_user(lambda: save(data, OVERWRITE, "k=3:f"))
    finally:
        os.umask(before)
    expected = ["k=3:f"] if mode == 0o777 else ["k=1:a", "k=1:b", "k=1:e", "k=2:c", "k=2:d"]
    assert expected == ours(data) == foreign(data)
    assert [] == leftovers(data)


def finish_job(data):
    assert vacuum(data).finished


def take_back(data):
    assert 0 <= len(give_up(data, read_pending(dataset(data)).record.jobid, older_than_seconds=0).files)


def withdraw_dead(data):
    assert vacuum(data, older_than_seconds=0).withdrawn


def die(data, point):
    with dying(point):
        save(data, OVERWRITE, "k=1:x", "k=3:y")


WORKS = {
    "read": (ours, None), "append": (lambda data: save(data, APPEND, "k=1:c"), None),
    "overwrite": (lambda data: save(data, OVERWRITE, "k=1:c"), None),
    "withdraw": (withdraw_dead, lambda data: planned(data, APPEND, "k=1:dead")),
    "give up": (take_back, lambda data: die(data, "C4.renamed")),
} | {
    f"finish at {point}": (finish_job, lambda data, point=point: die(data, point))
    for point in ("C3.synced", "C4.renamed", "C5.unlinked")
}  # fmt: skip
"""What the second user does, and in what state the first one leaves the dataset."""

DIRECTORIES = {"everybody's": 0o777, "the group's": 0o770, "the group's, and so is what is in it": 0o2770}


def first_user(data, mode, umask, leaves):
    data.mkdir()
    os.chown(data, NOBODY, GROUP)
    data.chmod(mode)

    def seed():
        save(data, APPEND, "k=1:a")
        save(data, APPEND, "k=2:b")
        if leaves is not None:
            leaves(data)

    as_another_user(seed, NOBODY, [GROUP], umask)


@pytest.mark.slow
@pytest.mark.one_in(8)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can work as two users")
@pytest.mark.parametrize(("does", "leaves"), WORKS.values(), ids=WORKS)
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077], ids=oct)
@pytest.mark.parametrize("mode", DIRECTORIES.values(), ids=DIRECTORIES)
def test_a_user_works_on_what_another_one_with_any_umask_left(shared, mode, umask, does, leaves):
    """Their group is their second one. The umask decides who reads data files, and nothing else."""
    data = shared / "data"
    first_user(data, mode, umask, leaves)
    may_read = umask == 0o022 or (umask == 0o027 and mode == 0o2770)

    def second_user():
        if may_read or does is not ours:
            does(data)
        else:
            with pytest.raises(PermissionError, match=r"part-0.*\.arrow"):
                does(data)

    as_another_user(second_user, OTHER, [GROUP], 0o022)


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can work as two users")
@pytest.mark.parametrize(("does", "leaves"), list(WORKS.values())[1:], ids=list(WORKS)[1:])
def test_a_user_who_may_not_write_changes_nothing(shared, does, leaves):
    data = shared / "data"
    first_user(data, 0o755, 0o022, leaves)
    before = sorted(data.rglob("*"))

    def second_user():
        with pytest.raises((PermissionError, CommitError), match=r"may not make and remove files there.*data"):
            does(data)

    as_another_user(second_user, OTHER, [GROUP], 0o022)
    assert before == sorted(data.rglob("*"))


def test_a_dangling_link_as_target_is_named(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OptionError, match=r"link: the path is a link that leads nowhere; make what it names"):
        plan_job(str(tmp_path / "link"), APPEND)
    assert ["link"] == [path.name for path in tmp_path.iterdir()]
