"""Publishing by copies: what zombies, lost replies and half a copy can do. Waiting for each other: test_helping."""

import pytest
from job_plans import plan_job
from memory_jobs import ROOT, dying, look, save, staged
from memory_storage import MemoryStorage

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import read_head
from spark_arrow_ipc.dataset.commit_log.stored_record import read_record
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.existing_files import live_files
from spark_arrow_ipc.dataset.write.roll_forward import finish, roll_forward
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.paths import name_of

OVERWRITE = WriteMode.OVERWRITE


class Faulty(MemoryStorage):
    """Does something else at some calls: `at` maps a call's name to a function that gets the real call."""

    def __init__(self):
        super().__init__(renames=False)
        self.at = {}
        self.calls = []

    def publish(self, staged, final):
        self._do("publish", staged, final)

    def put_if_absent(self, path, data, *, durable=False):
        return self._do("put_if_absent", path, data)

    def delete_all(self, paths):
        self._do("delete_all", paths)

    def put(self, path, data, *, durable=False, scratch=None):
        self._do("put", path, data)

    def _do(self, name, *args):
        self.calls.append((name, args[0]))
        real = getattr(super(), name)
        return self.at[name](real, *args) if name in self.at else real(*args)


def once(storage, name, action):
    """Do something in place of the next call of a name; `action` gets the real call and its arguments."""

    def instead(real, *args):
        del storage.at[name]
        return action(real, *args)

    storage.at[name] = instead


@pytest.fixture
def storage():
    return Faulty()


def dataset(storage):
    return DatasetDirectory(storage, ROOT)


def plain(storage):
    """Return what a reader sees that only lists."""
    files = live_files(dataset(storage))
    return sorted(storage.read(f"{ROOT}/{file.path}", 100).decode() for file in files)


def test_staged_files_are_deleted_before_the_record_is_done(storage, clock):
    save(storage, "a", "b")
    names = [name for name, path in storage.calls if name == "delete_all" or str(path).endswith(".done")]
    assert ["delete_all", "put"] == names[-2:]
    assert [] == list(storage.list(f"{ROOT}/_ipc_stage"))


def test_zombie_1_a_job_that_is_withdrawn_before_its_record_publishes_nothing(storage, clock):
    save(storage, "old")
    plan, outputs = staged(storage, "new")

    def overtaken(real, *args):
        assert abort(plan.staging)
        return real(*args)

    once(storage, "put_if_absent", overtaken)
    with pytest.raises(CommitError, match="the job was withdrawn while it committed"):
        commit(plan, outputs, write_empty=None)
    assert ["old"] == look(storage) == plain(storage)


def test_zombie_3_a_process_that_publishes_after_the_next_overwrite_changes_nothing(storage, clock):
    save(storage, "a")
    record = read_record(dataset(storage), 1)
    save(storage, "b", mode=OVERWRITE)
    roll_forward(dataset(storage), record, alone=True)
    assert ["b"] == look(storage) == plain(storage)


def test_zombie_4_a_record_that_fills_a_hole_is_made_again(storage, clock, monkeypatch):
    monkeypatch.setattr("spark_arrow_ipc.dataset.commit_log.log.KEPT_RECORDS", 0)
    save(storage, "0")
    plan, outputs = staged(storage, "late")

    def overtaken(real, *args):
        for text in "12345":
            save(storage, text)
        return real(*args)

    once(storage, "put_if_absent", overtaken)
    assert commit(plan, outputs, write_empty=None).published
    assert ["0", "1", "2", "3", "4", "5", "late"] == look(storage) == plain(storage)
    assert 7 == read_head(dataset(storage)).seq


REPLIES = [
    # whether the record is made, and the answer
    ("the reply is lost", True, OSError(104, "Connection reset by peer")),
    ("the request is lost", False, OSError(104, "Connection reset by peer")),
    ("it is there, by a repetition of the library", True, False),
    ("409, and nothing is made", False, False),
]


@pytest.mark.parametrize(("made", "answer"), [case[1:] for case in REPLIES], ids=[case[0] for case in REPLIES])
def test_zombie_5_what_became_of_the_record_is_found_out(storage, clock, made, answer):
    def unclear(real, *args):
        if made:
            real(*args)
        if isinstance(answer, OSError):
            raise answer
        return answer

    once(storage, "put_if_absent", unclear)
    assert save(storage, "a").published
    assert (["a"], 1) == (look(storage), read_head(dataset(storage)).seq)


def test_a_record_that_is_made_after_its_request_was_given_up_counts_once(storage, clock):
    """The first request is carried out when the second one comes."""

    def late(_, *args):
        once(storage, "put_if_absent", lambda real, *again: (real(*args), real(*again))[1])
        raise OSError(110, "Connection timed out")

    once(storage, "put_if_absent", late)
    assert save(storage, "a").published
    assert (["a"], 1) == (look(storage), read_head(dataset(storage)).seq)


def test_a_zombie_that_stages_after_clean_up_is_removed_by_vacuum(storage, clock):
    plan, _ = staged(storage, "a")
    assert abort(plan.staging)
    save(storage, "b")
    storage.put(plan.staging.path("zombie.staged"), b"zombie")
    assert ["b"] == look(storage) == plain(storage)
    assert (plan.staging.jobid,) == vacuum(ROOT, storage=storage).withdrawn
    assert [] == list(storage.list(f"{ROOT}/_ipc_stage"))


def test_a_copy_that_reports_success_and_made_nothing_is_found(storage, clock):
    """S3 may answer 200 with an error in the body."""
    storage.at["publish"] = lambda _real, *_: None
    with pytest.raises(CommitError, match="neither there nor staged"):
        roll_forward_once(storage)
    del storage.at["publish"]
    finish(dataset(storage))
    assert ["a", "b"] == look(storage) == plain(storage)


def roll_forward_once(storage):
    with dying("C3.synced"):
        save(storage, "a", "b")
    roll_forward(dataset(storage), read_record(dataset(storage), 1), alone=True)


def test_after_a_copy_without_a_reply_the_job_waits_until_it_must_have_ended(storage, clock):
    """It ends after all others: were it not waited for, an overwrite would be undone."""
    waited, events = clock
    late = []

    def unclear(real, *args):
        data = storage.read(args[0], 100)
        late.append(lambda: storage.put(args[1], data))
        events[29] = late[0]
        raise OSError(110, "Connection timed out")

    once(storage, "publish", unclear)
    save(storage, "a")
    assert [pytest.approx(30)] == waited
    save(storage, "b", mode=OVERWRITE)
    assert [{}, ["b"], ["b"]] == [events, look(storage), plain(storage)]


@pytest.mark.parametrize("point", ["C4.renamed", "C4.proven", "C4.sources"])
def test_a_job_that_is_given_up_waits_for_copies_before_it_removes_what_they_made(storage, clock, point):
    waited, events = clock
    save(storage, "old")
    with dying(point):
        save(storage, "new", mode=OVERWRITE)
    record = read_record(dataset(storage), 2)
    final = record.adds[0].final
    events[29] = lambda: storage.put(f"{ROOT}/{final}", b"new")
    give_up(ROOT, record.jobid, older_than_seconds=0, storage=storage)
    assert [pytest.approx(30)] == waited
    assert [{}, ["old"], ["old"]] == [events, look(storage), plain(storage)]


def test_an_old_file_that_was_replaced_with_the_same_size_and_time_stays(storage, clock, monkeypatch):
    """Its version is another one."""
    save(storage, "a")
    (file,) = live_files(dataset(storage))
    with dying("C4.proven"):
        save(storage, "b", mode=OVERWRITE)
    path = f"{ROOT}/{file.path}"
    storage.put(path, b"c")
    storage._files[path].mtime_ns = file.mtime_ns
    finish(dataset(storage))
    assert ["b", "c"] == look(storage) == plain(storage)


def test_a_pending_file_is_known_by_its_size_wherever_it_lies(storage, clock):
    """A helper may copy it once more, which changes its time and its version."""
    with dying("C4.renamed"):
        save(storage, "a", "b")
    files = list_tree([ROOT], storage=storage).all_files()
    assert [("", True)] * 2 == [(file.version, file.staged is not None) for file in files]
    finish(dataset(storage))
    sources = [file.open(storage) for file in files]
    assert {b"a", b"b"} == {bytes(source.read_at(0, 1)) for source in sources}
    assert all(name_of(file.path).startswith("part-") for file in files)


def test_kept_files_are_copied_and_then_deleted(storage, clock):
    save(storage, "a", "b")
    files = list_tree([ROOT], storage=storage).all_files()
    plan = plan_job(ROOT, OVERWRITE, keep_replaced=3600, storage=storage)
    commit(*staged(storage, "c", plan=plan), write_empty=None)
    assert ["c"] == look(storage) == plain(storage)
    assert {b"a", b"b"} == {bytes(file.open(storage).read_at(0, 1)) for file in files}
