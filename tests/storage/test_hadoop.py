"""What HDFS has beside the suite of all storages: pyarrow's rename that replaces, lost replies, a namenode that is away."""

import multiprocessing
import pickle
import threading

import pytest
from hadoop_stub import FAILED, HadoopStub

from spark_arrow_ipc.errors import FileChangedError, OptionError, UnsupportedError
from spark_arrow_ipc.storage import hadoop
from spark_arrow_ipc.storage.hadoop import HadoopStorage
from spark_arrow_ipc.storage.storage import Kind

SECRET = "hunter2-very-secret"
ROOT = "hdfs://namenode:8020/data"
RECORD = f"{ROOT}/record"


@pytest.fixture
def stub(tmp_path):
    return HadoopStub(tmp_path)


@pytest.fixture
def storage(stub):
    made = HadoopStorage((("ssl.client.keystore.password", SECRET),), connection=lambda root, options: stub)
    made.make_directory(ROOT)
    return made


def names(storage, directory=ROOT):
    return sorted(status.path for status in storage.list(directory))


def test_the_stub_replaces_files_as_pyarrow_does(stub, storage):
    """Else the next tests would prove nothing."""
    for name in ("a", "b"):
        storage.put(f"{ROOT}/{name}", name.encode())
    stub.move("/data/a", "/data/b")
    assert b"a" == storage.read(f"{ROOT}/b", 1)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("hdfs:///a//b/", "hdfs://default/a/b"),
        ("HDFS://nn:8020/a", "hdfs://nn:8020/a"),
        ("viewfs://cluster/a%20b", "viewfs://cluster/a%20b"),
        ("viewfs:///", "viewfs://default"),
    ],
)
def test_paths_are_urls(given, path):
    assert path == HadoopStorage().resolve(given) == HadoopStorage().resolve(path)


@pytest.mark.parametrize(("given", "error"), [("hdfs://", OptionError), ("hdfs://me@nn/a", OptionError), ("s3://b", UnsupportedError), ("/a", UnsupportedError)])  # fmt: skip
def test_other_paths_are_refused(given, error):
    with pytest.raises(error):
        HadoopStorage().resolve(given)


def test_no_value_of_an_option_is_shown_and_the_options_travel():
    storage = HadoopStorage((("kerb_ticket", SECRET), ("user", "me")))
    assert "HadoopStorage(kerb_ticket, user)" == repr(storage)
    assert storage == pickle.loads(pickle.dumps(storage))


def test_a_rename_to_another_host_is_refused(storage):
    storage.put(f"{ROOT}/a", b"1")
    with pytest.raises(UnsupportedError, match="renamed on its host"):
        storage.publish(f"{ROOT}/a", "hdfs://default/data/b")
    assert [f"{ROOT}/a"] == names(storage)


# ---- a record is written once


def refuse(*_):
    raise FAILED


def other_writes(storage, data):
    return lambda *_: storage.put(RECORD, data)


def then(*actions):
    def act(*arguments):
        for action in actions:
            action(*arguments)

    return act


@pytest.mark.parametrize(
    ("there", "before", "after", "made"),
    [
        pytest.param(None, None, None, True, id="made"),
        pytest.param(b"other", None, None, False, id="there"),
        pytest.param(b"mine", None, None, False, id="there, with the same bytes"),
        pytest.param(b"larger than mine", None, None, False, id="there, and larger"),
        pytest.param(None, "other", None, False, id="another one is faster by a moment"),
        pytest.param(None, None, refuse, True, id="moved, and the reply was lost"),
        pytest.param(None, refuse, None, OSError, id="not moved"),
        pytest.param(b"other", refuse, None, False, id="there, and the reply was lost"),
        pytest.param(None, None, "delete", OSError, id="moved, deleted by another, and the reply was lost"),
        pytest.param(None, None, "replace", False, id="moved, replaced by another, and the reply was lost"),
    ],
)
def test_the_answer_of_a_rename_is_not_believed(stub, storage, there, before, after, made):
    actions = {
        "other": other_writes(storage, b"other"),
        "delete": then(lambda *_: storage.delete(RECORD), refuse),
        "replace": then(lambda *_: storage.delete(RECORD), refuse),
    }
    if there is not None:
        assert storage.put_if_absent(RECORD, there)

    def once(hook, action):
        """Other writers' moves are not disturbed."""

        def act(*arguments):
            setattr(stub, hook, lambda *_: None)
            action(*arguments)

        setattr(stub, hook, act)

    if before is not None:
        once("before_move", actions.get(before, before))
    if after == "replace":
        once("after_move", then(lambda *_: storage.delete(RECORD), other_writes(storage, b"other"), refuse))
    elif after is not None:
        once("after_move", actions.get(after, after))
    if isinstance(made, bool):
        assert made is storage.put_if_absent(RECORD, b"mine")
        expected = b"mine" if made else there or b"other"
        assert expected == storage.read(RECORD, 100)
        assert [RECORD] == names(storage), "nothing else is left"
    else:
        with pytest.raises(made, match="Unknown error 255") as caught:
            storage.put_if_absent(RECORD, b"mine")
        assert "\n" not in str(caught.value)
        assert [] == names(storage)


def test_a_file_system_that_replaces_what_it_must_not_is_refused(stub, storage, monkeypatch):
    def replace(old, new):
        target = new / old.name if new.is_dir() else new
        old.replace(target)

    monkeypatch.setattr(stub, "_rename", replace)
    with pytest.raises(
        UnsupportedError, match="does not refuse to move a file into a directory that has one of its name"
    ):
        storage.check_put_if_absent(ROOT)
    assert [] == names(storage)


def test_marks_that_are_written_again_never_vanish(stub, storage):
    storage.put(RECORD, b"")
    stub.calls.clear()
    storage.put(RECORD, b"")
    assert not {"move", "create", "delete"} & set(stub.calls)


def test_a_mark_that_several_write_at_once_is_there(stub, storage):
    """pyarrow's rename would delete the mark of the first, and fail for one of the others."""
    for number in range(10):
        mark = f"{ROOT}/{number}.done"
        start, failed = threading.Barrier(4), []

        def write(mark=mark, start=start, failed=failed):
            start.wait()
            try:
                storage.put(mark, b"")
                assert storage.status(mark) is not None
            except BaseException as error:  # noqa: BLE001 - told below
                failed.append(error)

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [] == failed
    assert 10 == len(names(storage))


def test_other_bytes_replace_what_another_process_writes(stub, storage):
    storage.put(RECORD, b"1")
    stub.before_move = lambda *_: (setattr(stub, "before_move", lambda *_: None), storage.delete(RECORD), refuse())
    storage.put(RECORD, b"2", scratch=ROOT)
    assert (b"2", [RECORD]) == (storage.read(RECORD, 1), names(storage))


# ---- errors


@pytest.mark.parametrize(
    "down", [OSError(255, f"HDFS list failed:\n {SECRET} {'x' * 1_000}"), PermissionError(13, "no")]
)
def test_a_namenode_that_does_not_answer_is_no_missing_file(stub, storage, down):
    """pyarrow says "not found" of whatever goes wrong."""
    storage.put(RECORD, b"1")
    stub.down = down
    for call in (storage.status, lambda path: list(storage.list(path)), lambda path: storage.read(path, 1)):
        with pytest.raises(type(down)) as caught:
            call(RECORD)
        text = str(caught.value)
        assert not isinstance(caught.value, FileNotFoundError)
        assert (RECORD in text, SECRET in text, "\n" in text, len(text) < 600) == (True, False, False, True)


def test_a_directory_is_no_file_and_a_file_no_directory(storage):
    storage.put(RECORD, b"1")
    with pytest.raises(UnsupportedError, match="found a directory"):
        storage.read(ROOT, 1)
    with pytest.raises(NotADirectoryError):
        storage.create(f"{RECORD}/x")
    with pytest.raises(OSError, match="path is a directory"):
        storage.delete(ROOT)
    assert storage.status(ROOT).kind is Kind.DIRECTORY


def test_empty_directories_stay(storage):
    storage.make_directory(f"{ROOT}/empty")
    storage.delete_directory_if_empty(f"{ROOT}/empty")
    assert [f"{ROOT}/empty"] == names(storage)


def test_a_file_that_was_replaced_after_it_was_listed_is_an_error(storage):
    storage.put(RECORD, b"12345")
    known = storage.status(RECORD)
    assert [known] == list(storage.list(ROOT))
    source = storage.open(RECORD, listed=known)
    assert b"234" == bytes(source.read_at(1, 3))
    source.close()
    with pytest.raises(ValueError, match="closed"):
        source.read_up_to(0, 1) and source._fetch(0, memoryview(bytearray(1)))
    storage.put(RECORD, b"123456")
    with pytest.raises(FileChangedError, match="replaced after it was listed"):
        storage.open(RECORD, listed=known)


def test_a_file_that_is_truncated_while_it_is_read_is_an_error(stub, storage):
    storage.put(RECORD, b"x" * 100_000)
    source = storage.open(RECORD)
    (stub.root / "data/record").write_bytes(b"x" * 10)
    with pytest.raises(FileChangedError, match="expected 10 bytes at byte offset 20, found 0"):
        source.read_at(20, 10)


def _look(queue, storage):
    try:
        queue.put(str(storage.status(ROOT)))
    except UnsupportedError as error:
        queue.put(str(error))


def test_a_fork_of_a_process_that_used_hadoop_is_told_so(storage):
    assert hadoop._connections._by_process
    fork = multiprocessing.get_context("fork")
    queue = fork.SimpleQueue()
    child = fork.Process(target=_look, args=(queue, storage))
    child.start()
    assert "forked from one that had used Hadoop" in queue.get()
    child.join()
