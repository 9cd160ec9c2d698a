"""What file systems of fsspec have beside the reading half of the suite of all storages."""

import inspect
import multiprocessing
import pickle
import sys
import uuid
from typing import ClassVar

import fsspec
import pytest
from fsspec.registry import _registry
from fsspec.spec import AbstractBufferedFile
from fsspec_stub import SCHEME, FilledStorage, StubFileSystem

from spark_arrow_ipc.errors import FileChangedError, OptionError, UnsupportedError
from spark_arrow_ipc.storage.fsspec_storage import FsspecStorage
from spark_arrow_ipc.storage.storage import Kind, Storage

SECRET = "hunter2-very-secret"


@pytest.fixture
def place():
    return FilledStorage((("token", SECRET),)), f"{SCHEME}://{uuid.uuid4().hex}"


def system(place):
    return place[0]._at(place[1])[0].system


def test_no_value_of_an_option_is_shown_and_the_options_travel():
    storage = FsspecStorage((("token", SECRET), ("retries", "2")))
    assert "FsspecStorage(token, retries)" == repr(storage)
    assert storage == pickle.loads(pickle.dumps(storage))


READING = {"inside", "list", "list_chosen", "open", "read", "real_path", "resolve", "status", "traits", "unique_path"}
WRITING = sorted({name for name, _ in inspect.getmembers(Storage) if not name.startswith("_")} - READING)


@pytest.mark.parametrize("call", WRITING)
def test_every_writing_call_is_refused(call):
    method = getattr(FsspecStorage(), call)
    needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
    arguments = [[f"{SCHEME}://h/a"] if p.name in {"paths", "finals"} else f"{SCHEME}://h/a" for p in needed]
    with pytest.raises(UnsupportedError, match="read through fsspec, and are read only"):
        method(*arguments)


def test_a_range_is_one_request_of_those_bytes(place):
    storage, root = place
    storage.put(f"{root}/a", bytes(range(256)) * 1_000)
    source = storage.open(f"{root}/a", listed=storage.status(f"{root}/a"))
    system(place).calls.clear()
    assert bytes(range(5, 15)) == bytes(source.read_at(5, 10))
    assert [b"\x00", b"\x07"] == [bytes(each) for each in source.read_ranges([(0, 1), (263, 1)])]
    assert sorted([("cat_file", 5, 15), ("cat_file", 0, 1), ("cat_file", 263, 264)]) == sorted(system(place).calls)


def test_names_with_marks_of_urls_reach_the_file_system(place):
    storage, root = place
    storage.put(f"{root}/k=1/a#b?c%20 d", b"1")
    assert f"{root}/k=1/a#b?c%20 d".removeprefix(f"{SCHEME}:/") in StubFileSystem.store


@pytest.mark.parametrize("change", [b"123456", b"54321"])
def test_a_file_that_was_replaced_after_it_was_listed_is_an_error(place, monkeypatch, change):
    storage, root = place
    storage.put(f"{root}/a", b"12345")
    (known,) = storage.list(root)
    storage.open(f"{root}/a", listed=known).close()
    storage.put(f"{root}/a", change)
    inner = system(place)
    info = inner.info
    monkeypatch.setattr(inner, "info", lambda path: info(path) | {"created": 2e9})
    with pytest.raises(FileChangedError, match="replaced after it was listed"):
        storage.open(f"{root}/a", listed=known)


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        (b"123", FileChangedError, "expected 10 bytes at byte offset 0, found 3"),
        (b"1" * 50, UnsupportedError, "10 bytes were asked for, and 50 came: the server does not serve parts"),
    ],
)
def test_a_reply_of_another_length_is_an_error(place, monkeypatch, reply, error, message):
    storage, root = place
    storage.put(f"{root}/a", b"x" * 100_000)
    source = storage.open(f"{root}/a")
    monkeypatch.setattr(system(place), "cat_file", lambda *_, **__: reply)
    with pytest.raises(error, match=message):
        source.read_at(0, 10)


@pytest.mark.parametrize("size", [None, -1, "5"])
def test_a_file_of_unknown_size_is_an_error(place, monkeypatch, size):
    storage, root = place
    monkeypatch.setattr(system(place), "info", lambda path: {"name": path, "type": "file", "size": size})
    with pytest.raises(UnsupportedError, match="does not say how many bytes this file has") as caught:
        storage.status(f"{root}/a")
    assert f"{root}/a" in str(caught.value)


def test_links_in_a_listing_are_followed(place, monkeypatch):
    storage, root = place
    storage.put(f"{root}/file", b"123")
    inner = system(place)
    directory = root.removeprefix(f"{SCHEME}:/")
    names = ["to file", "to nothing", "..", ""]
    links = [{"name": f"{directory}/{name}", "type": "link", "size": 9} for name in names]
    monkeypatch.setattr(inner, "ls", lambda path, detail: links)
    info = inner.info
    monkeypatch.setattr(inner, "info", lambda path: info(path.replace("to file", "file")))
    (status,) = storage.list(root)
    assert (f"{root}/to file", Kind.FILE, 3) == status[:2] + status[2:3]


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (RuntimeError(f"boom\n{SECRET} {'x' * 1_000}"), OSError),
        (PermissionError(SECRET), PermissionError),
        (ImportError("no module named paramiko"), UnsupportedError),
        (NotImplementedError("no ranges"), UnsupportedError),
        (TimeoutError(), OSError),
    ],
)
def test_an_error_of_any_class_is_one_line_with_the_path_and_without_a_secret(place, fault, raised):
    storage, root = place
    system(place).fault = fault
    for call in (storage.status, lambda path: list(storage.list(path))):
        with pytest.raises(raised) as caught:
            call(f"{root}/a")
        text = str(caught.value)
        assert (f"{root}/a" in text, SECRET in text, "\n" in text, len(text) < 600) == (True, False, False, True)
        assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("s3://b/a", UnsupportedError, "either local paths"),
        (f"{SCHEME}://me:{SECRET}@host/a", OptionError, "holds a password or a key before @"),
        (f"{SCHEME}://a.zip::ftp://host/b", OptionError, "a chain of them"),
        (f"{SCHEME}:///a", OptionError, "a host or first directory"),
        ("sftp://host/a", UnsupportedError, "fsspec knows paths with the scheme sftp://, and needs a package"),
    ],
)
def test_paths_that_are_not_read_are_refused(monkeypatch, path, error, message):
    monkeypatch.setitem(sys.modules, "paramiko", None)
    with pytest.raises(error, match=message) as caught:
        FsspecStorage().resolve(path)
    assert SECRET not in str(caught.value)


def test_the_repository_of_a_github_url_is_no_password(monkeypatch):
    monkeypatch.setitem(_registry, "github", StubFileSystem)  # the real one needs a package more
    assert "github://apache:arrow@main/a" == FsspecStorage().resolve("github://apache:arrow@main/a")


def _look(queue, storage, root):
    made = StubFileSystem.made
    found = bytes(storage.open(f"{root}/a").read_at(0, 3))
    queue.put((found, StubFileSystem.made - made))


def test_a_forked_process_makes_its_own_instance(place):
    storage, root = place
    storage.put(f"{root}/a", b"123")
    made = StubFileSystem.made
    assert b"123" == storage.read(f"{root}/a", 3)
    assert made == StubFileSystem.made
    fork = multiprocessing.get_context("fork")
    queue = fork.SimpleQueue()
    child = fork.Process(target=_look, args=(queue, storage, root))
    child.start()
    assert (b"123", 1) == queue.get()
    child.join()


class Plain(fsspec.AbstractFileSystem):
    """A file system without ranges of its own: fsspec opens one of its file objects."""

    fetched: ClassVar = []
    data = bytes(range(256)) * 4_000

    @classmethod
    def _strip_protocol(cls, path):
        return path.removeprefix("plain://")

    def info(self, path, **kwargs):
        return {"name": path, "size": len(self.data), "type": "file"}

    def _open(self, path, mode="rb", **kwargs):
        return PlainFile(self, path, mode, **kwargs)


class PlainFile(AbstractBufferedFile):
    def _fetch_range(self, start, end):
        Plain.fetched.append((start, end))
        return Plain.data[start:end]


def test_a_file_object_that_must_be_opened_reads_nothing_ahead():
    fsspec.register_implementation("plain", Plain, clobber=True)
    source = FsspecStorage().open("plain://host/a")
    assert Plain.data[1_000:1_010] == bytes(source.read_at(1_000, 10))
    assert [(1_000, 1_010)] == Plain.fetched
