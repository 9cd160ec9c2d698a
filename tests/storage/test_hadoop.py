"""What HDFS has apart from the suite of all storages: a namenode that is away, a JVM, and no way to write."""

import multiprocessing
import pickle

import pytest
from hadoop_stub import FilledHadoop, HadoopStub
from job_plans import plan_job

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.job_plan import make_staging
from spark_arrow_ipc.dataset.write.staged_file import Staging
from spark_arrow_ipc.errors import FileChangedError, OptionError, UnsupportedError
from spark_arrow_ipc.storage import hadoop
from spark_arrow_ipc.storage.hadoop import HadoopStorage
from spark_arrow_ipc.storage.storage import Kind
from spark_arrow_ipc.table.names import TableDirectory

SECRET = "hunter2-very-secret"
ROOT = "hdfs://namenode:8020/data"
RECORD = f"{ROOT}/record"


@pytest.fixture
def stub(tmp_path):
    return HadoopStub(tmp_path)


@pytest.fixture
def storage(stub):
    made = FilledHadoop((("ssl.client.keystore.password", SECRET),), connection=lambda root, options: stub)
    made.make_directory(ROOT)
    return made


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
    assert storage.status(ROOT).kind is Kind.DIRECTORY


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


CHANGES = {
    "create": lambda storage: storage.create(RECORD),
    "put": lambda storage: storage.put(RECORD, b"1"),
    "put_if_absent": lambda storage: storage.put_if_absent(RECORD, b"1"),
    "publish": lambda storage: storage.publish(f"{ROOT}/staged", RECORD),
    "delete": lambda storage: storage.delete(RECORD),
    "delete_all": lambda storage: storage.delete_all([RECORD]),
    "delete_tree": lambda storage: storage.delete_tree(RECORD),
    "make_directory": lambda storage: storage.make_directory(RECORD),
    "plan a job": lambda storage: plan_job(RECORD, WriteMode.APPEND, storage=storage),
    "stage a batch of a query": lambda storage: make_staging(Staging(TableDirectory(storage, RECORD), "job")),
    "a job by its path": lambda _: plan_job(RECORD, WriteMode.OVERWRITE),
    "a file by its path": lambda _: ipc.write(RECORD, [], Schema(())),
}


@pytest.mark.parametrize("scheme", ["hdfs", "viewfs"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_refused_before_a_connection_is_made(change, scheme, monkeypatch):
    monkeypatch.setattr(f"{__name__}.RECORD", RECORD.replace("hdfs", scheme))
    storage = HadoopStorage(connection=lambda root, options: pytest.fail("a JVM was started"))
    with pytest.raises(UnsupportedError, match=r"paths of Hadoop are read only.* 'hdfs dfs -put'") as caught:
        CHANGES[change](storage)
    assert caught.value.path.startswith(f"{scheme}://namenode:8020/data/")
