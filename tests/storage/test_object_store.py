"""What object stores have beside the suite of all storages: versions, lost replies, forks, errors of one line."""

import multiprocessing
import pickle
import uuid
from datetime import UTC, datetime

import obstore
import pytest

from spark_arrow_ipc.errors import FileChangedError, UnsupportedError
from spark_arrow_ipc.storage.object_store import ObjectStorage
from spark_arrow_ipc.storage.storage import Kind

SECRET = "hunter2-very-secret"


@pytest.fixture
def place():
    return ObjectStorage(), f"memory://{uuid.uuid4().hex}"


def test_no_value_of_an_option_is_shown_and_the_options_travel():
    storage = ObjectStorage((("region", "eu-central-1"), ("secret_access_key", SECRET)))
    assert "ObjectStorage(region, secret_access_key)" == repr(storage)
    assert storage == pickle.loads(pickle.dumps(storage))


def test_an_object_that_was_replaced_is_an_error(place):
    storage, root = place
    storage.put(f"{root}/a", b"x" * 100_000)
    known = storage.status(f"{root}/a")
    source = storage.open(f"{root}/a", listed=known)
    assert b"xx" == bytes(source.read_at(0, 2))
    storage.put(f"{root}/a", b"y" * 100_000)
    assert storage.status(f"{root}/a").version != known.version
    with pytest.raises(FileChangedError, match="replaced after it was listed"):
        source.read_at(10, 2)
    storage.delete(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        source.read_at(20, 2)


def test_a_copy_to_another_bucket_is_refused(place):
    """The request names a key alone: the copy would lie in the bucket of the source."""
    storage, root = place
    storage.put(f"{root}/in/a", b"1")
    with pytest.raises(UnsupportedError, match="copied within its bucket"):
        storage.publish(f"{root}/in/a", "memory://other/old/a")
    assert [f"{root}/in"] == [status.path for status in storage.list(root)]


def test_the_place_of_a_url_is_that_of_its_account(monkeypatch):
    url = "abfss://c@acc.dfs.core.windows.net/a"
    for storage in (ObjectStorage((("account_name", "acc"),)), ObjectStorage()):
        assert storage.unique_path(url) == storage.unique_path("az://c/a")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acc")


@pytest.mark.parametrize("url", ["az://c", "abfss://c@acc.dfs.core.windows.net", "s3://b", "gs://b"])
def test_a_version_is_the_same_in_listings_and_answers(url, monkeypatch):
    """Listings of Azure leave out the quotes of ETags. An overwrite then kept the file that it replaced."""
    meta = {"path": "t/a.arrow", "size": 3, "last_modified": datetime.now(tz=UTC), "e_tag": '"0x8D"'}
    monkeypatch.setattr(ObjectStorage, "_at", lambda _, path: (None, path.removeprefix(f"{url}/")))
    monkeypatch.setattr(obstore, "head", lambda *_: meta)
    listed = {"common_prefixes": [], "objects": [{**meta, "e_tag": "0x8D"}]}
    monkeypatch.setattr(obstore, "list_with_delimiter", lambda *_, **__: listed)
    (status,) = ObjectStorage().list(f"{url}/t")
    assert ObjectStorage().status(f"{url}/t/a.arrow").version == status.version == '"0x8D"'


def test_an_answer_of_no_such_version_may_mean_that_nothing_is_there(place, monkeypatch):
    """Azure answers 412 to both, as the standard says; a request for the object tells them apart."""
    storage, root = place
    storage.put(f"{root}/a", b"123")
    known = storage.status(f"{root}/a")

    def get(*_, **__):
        raise obstore.exceptions.PreconditionError("status code: 412")

    monkeypatch.setattr(obstore, "get", get)
    with pytest.raises(FileChangedError, match="replaced after it was listed"):
        storage.open(f"{root}/a", listed=known).read_at(0, 3)
    storage.delete(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        storage.open(f"{root}/a", listed=known).read_at(0, 3)


def test_a_folder_that_a_console_made_is_no_file(place):
    storage, root = place
    storage.put(f"{root}/k=1/a", b"1")
    storage.put(f"{root}/empty", b"")
    store, _ = storage._at(root)
    listed = obstore.list_with_delimiter(store)
    listed["objects"].append(
        {"path": "k=1", "size": 0, "last_modified": listed["objects"][0]["last_modified"], "e_tag": None}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(obstore, "list_with_delimiter", lambda *_, **__: listed)
        found = {status.path: status.kind for status in storage.list(root)}
    assert {f"{root}/k=1": Kind.DIRECTORY, f"{root}/empty": Kind.FILE} == found


def _fails_after(put, *errors):
    """Return a `put` that stores and says otherwise, or says so and stores nothing: (stores, error) a call."""
    left = list(errors)

    def wrapped(*args, **options):
        if not left:
            return put(*args, **options)
        stores, error = left.pop(0)
        if stores:
            put(*args, **options)
        raise error

    return wrapped


EXISTS = obstore.exceptions.AlreadyExistsError("it is there")
LOST = obstore.exceptions.GenericError("the connection was closed")


@pytest.mark.parametrize(
    ("there", "faults", "made"),
    [
        pytest.param(None, [], True, id="made"),
        pytest.param(b"other", [], False, id="there"),
        pytest.param(b"mine", [], False, id="there, with the same bytes"),
        pytest.param(b"larger than mine", [], False, id="there, and larger"),
        pytest.param(None, [(True, LOST)], True, id="stored, and the reply was lost"),
        pytest.param(None, [(True, EXISTS)], True, id="stored, repeated by the library, and refused"),
        pytest.param(None, [(False, EXISTS)], True, id="a conflict that stored nothing"),
        pytest.param(None, [(False, EXISTS), (False, LOST), (True, LOST)], True, id="one after the other"),
        pytest.param(b"other", [(False, LOST)], False, id="there, and the reply was lost"),
        pytest.param(None, [(False, LOST)] * 5, OSError, id="never stored"),
        pytest.param(None, [(False, obstore.exceptions.PermissionDeniedError("403"))], PermissionError, id="refused"),
    ],
)
def test_the_answer_of_a_conditional_request_is_not_believed(place, monkeypatch, there, faults, made):
    storage, root = place
    path = f"{root}/record"
    if there is not None:
        assert storage.put_if_absent(path, there)
    monkeypatch.setattr(obstore, "put", _fails_after(obstore.put, *faults))
    if isinstance(made, bool):
        assert made is storage.put_if_absent(path, b"mine")
        assert (there or b"mine") == storage.read(path, 100)
    else:
        with pytest.raises(made):
            storage.put_if_absent(path, b"mine")


def test_a_store_that_overwrites_what_it_must_not_is_refused(place, monkeypatch):
    storage, root = place
    with monkeypatch.context() as patch:
        put = obstore.put
        patch.setattr(obstore, "put", lambda *args, mode=None, **options: put(*args, **options))  # noqa: PLW0108 - the mode is left out
        for _ in range(2):
            with pytest.raises(UnsupportedError, match="does not refuse to write an object that is there"):
                storage.check_put_if_absent(f"{root}/a")
    assert [] == list(storage.list(root))
    storage.check_put_if_absent(f"{root}/a")
    assert [f"{root}/a/probe"] == [status.path for status in storage.list(f"{root}/a")]


def _look(queue, root):
    try:
        queue.put(str(ObjectStorage().status(root)))
    except UnsupportedError as error:
        queue.put(str(error))


def test_a_fork_of_a_process_that_used_a_store_is_told_so(place):
    storage, root = place
    storage.put(f"{root}/a", b"1")
    fork = multiprocessing.get_context("fork")
    queue = fork.SimpleQueue()
    child = fork.Process(target=_look, args=(queue, f"{root}/a"))
    child.start()
    assert "forked from one that had used an object store" in queue.get()
    child.join()
