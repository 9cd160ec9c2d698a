"""Connections belong to the process that made them; a storage that learns by doing has nothing to ask."""

import multiprocessing

import pytest

from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.storage.base import Connections, LearnsByDoing


def test_a_connection_is_made_once_for_each_key():
    connections, made = Connections(), []
    for key in ("a", "b", "a"):
        assert key == connections.get(key, lambda key=key: made.append(key) or key, "p")
    assert ["a", "b"] == made


def test_a_connection_that_could_not_be_made_is_asked_for_again():
    connections = Connections("a store, whose connections")
    for _ in range(2):
        with pytest.raises(OSError, match="refused"):
            connections.get("a", lambda: (_ for _ in ()).throw(OSError("refused")), "p")
    assert 1 == connections.get("a", lambda: 1, "p")


def _in_child(connections, queue):
    try:
        queue.put(connections.get("a", lambda: "the child's", "s://h/p"))
    except UnsupportedError as error:
        queue.put(str(error))


@pytest.mark.parametrize(
    ("not_forked", "expected"),
    [
        ("", "the child's"),
        (
            "a store, whose connections",
            "s://h/p: this process was forked from one that had used a store, whose connections cannot be used here",
        ),
    ],
)
def test_a_forked_process_makes_its_own_or_is_told(not_forked, expected):
    connections = Connections(not_forked)
    connections.get("a", lambda: "the parent's", "p")
    fork = multiprocessing.get_context("fork")
    queue = fork.SimpleQueue()
    child = fork.Process(target=_in_child, args=(connections, queue))
    child.start()
    assert queue.get().startswith(expected)
    child.join()


def test_a_base_deletes_one_by_one_and_makes_unnamed_files():
    class Storage(LearnsByDoing):
        def __init__(self):
            self.deleted = []

        def delete(self, path):
            self.deleted.append(path)

    storage = Storage()
    storage.delete_all(["a", "b"])
    assert ["a", "b"] == storage.deleted
    assert storage is storage.inside("a")
    with storage.scratch_file("a") as file:
        file.write(b"1")
        file.seek(0)
        assert b"1" == file.read()
