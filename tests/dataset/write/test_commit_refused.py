"""A job that could not be brought to its end is refused while nothing of it is published."""

import errno
import io
import os
import sys
import tempfile
import traceback
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, dying, finish, foreign, leftovers, ours, planned, save, table
from job_plans import plan_job
from places import Place

from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.errors import CommitError, OptionError
from spark_arrow_ipc.storage.local import LocalStorage
from spark_arrow_ipc.table.names import STAGED_SUFFIX
from spark_arrow_ipc.table.vacuum import vacuum

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
    assert abort(plan)
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
def test_a_log_that_this_user_may_not_write_to_is_refused_when_planning(shared):
    data = shared / "data"
    save(data, APPEND, "old")
    for path in (data, data / "_ipc_log"):
        path.chmod(0o777)

    def refused():
        with pytest.raises(PermissionError, match="_ipc_log"):
            plan_job(str(data), APPEND)

    as_another_user(refused)
    assert (["old"], []) == (ours(data), leftovers(data))


@pytest.mark.slow
def test_an_overwrite_of_a_partition_that_this_user_may_not_write_to_is_refused_when_planning(shared):
    data = shared / "data"
    save(data, APPEND, "k=1:old")
    for path in (data, data / "_ipc_log", *(data / "_ipc_log").glob("*/")):
        path.chmod(0o777)
    (data / "k=1").chmod(0o555)

    def refused():
        with pytest.raises(PermissionError, match="k=1"):
            plan_job(str(data), OVERWRITE)
        plan, outputs = planned(data, APPEND, "k=1:new")
        with pytest.raises(CommitError, match=r"k=1'; nothing is published"):
            finish(plan, outputs)
        assert abort(plan)

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


def vacuum_dead(data):
    assert vacuum(table(data), older_than=0).swept


def die(data, point):
    with dying(point):
        save(data, OVERWRITE, "k=1:x", "k=3:y")


WORKS = {
    "read": (ours, None), "append": (lambda data: save(data, APPEND, "k=1:c"), None),
    "overwrite": (lambda data: save(data, OVERWRITE, "k=1:c"), None),
    "vacuum a job that died": (vacuum_dead, lambda data: planned(data, APPEND, "k=1:dead")),
    "abort": (lambda data: abort(plan_job(str(data), APPEND)), None),
} | {
    f"vacuum a job that died at {point}": (vacuum_dead, lambda data, point=point: die(data, point))
    for point in ("named.file", "committed.put", "collected.removed", "collected.files")
}  # fmt: skip
"""What the second user does, and in what state the first one leaves the table."""

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


# A full disk

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


class _File(io.FileIO):
    def __init__(self, disk, path):
        super().__init__(path, "ab")
        self.disk = disk

    def write(self, data):
        self.disk.check(-(-len(data) // PAGE), 0)
        return super().write(data)


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name, value in {"top": str(tmp_path), "pages": 1 << 40, "names": 1 << 40, "number": errno.ENOSPC}.items():
        monkeypatch.setattr(Disk, name, value)
    return Place(Disk(), str(tmp_path / "lake"))


def fill(place, plan, limit="pages"):
    """Stage files until there is no page, or no name, left."""
    setattr(Disk, limit, len(list(Path(Disk.top).rglob("*"))) + (60 if limit == "pages" else 5))
    with pytest.raises(OSError, match=r"No space left|quota"):
        for number in range(1000):
            place.staged(plan, number, "x" * PAGE)
    with pytest.raises(OSError, match=r"No space left|quota"):
        place.storage.put(plan.staging.file("0" * 32 + STAGED_SUFFIX), b"x")


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get)
@pytest.mark.parametrize("limit", ["pages", "names"])
def test_a_job_that_finds_no_room_does_not_begin(place, limit, number, monkeypatch):
    monkeypatch.setattr(Disk, "number", number)
    place.save(APPEND, "a")
    plan, _ = place.planned(APPEND, "x")
    fill(place, plan, limit)
    before = place.names()
    words = (
        "free some space there.*write again, or run 'arrowipc vacuum .*/lake', which removes what dead jobs have staged"
    )
    with pytest.raises(OSError, match=words) as caught:
        place.save(OVERWRITE, "n")
    assert (Disk.number, True) == (caught.value.errno, caught.value.filename.startswith(Disk.top))
    assert before == place.names()


@pytest.mark.slow
@pytest.mark.parametrize("mode", [APPEND, OVERWRITE, DYNAMIC], ids=lambda mode: mode.value)
def test_a_job_whose_entry_finds_no_room_is_aborted(place, mode):
    """Without its staged files there is room again for the entry that expires it."""
    place.save(APPEND, "a")
    plan, outputs = place.planned(mode, "n")
    fill(place, plan)
    with pytest.raises(CommitError, match=r"No space left.*nothing is published, fix that and write again"):
        commit(plan, outputs, write_empty=None)
    assert ["a"] == place.ours()
    assert abort(plan)
    assert (["a"], []) == (place.plain(), place.leftovers())
