"""What the memory storage has beside the suite of all storages: names without directories, and a clock that counts."""

import pytest
from memory_storage import MemoryStorage

from spark_arrow_ipc.storage.storage import Kind

ROOT = "memory:/data"


def test_a_directory_is_a_prefix_and_goes_with_its_last_file():
    storage = MemoryStorage()
    storage.put(f"{ROOT}/k=1/a", b"1")
    assert Kind.DIRECTORY is storage.status(f"{ROOT}/k=1").kind
    assert storage.status(f"{ROOT}/k") is None
    storage.delete(f"{ROOT}/k=1/a")
    assert storage.status(ROOT) is None


def test_each_write_is_later_than_the_one_before():
    storage = MemoryStorage()
    times = []
    for _ in range(3):
        storage.put(f"{ROOT}/a", b"1")
        times.append(storage.status(f"{ROOT}/a").mtime_ns)
    assert sorted(set(times)) == times


def test_a_created_file_appears_when_it_is_closed():
    storage = MemoryStorage()
    file = storage.create(f"{ROOT}/a")
    file.write(b"123")
    assert storage.status(f"{ROOT}/a") is None
    file.close()
    assert b"123" == storage.read(f"{ROOT}/a", 3)


def test_of_two_that_create_one_file_the_second_fails_when_it_closes():
    storage = MemoryStorage()
    first, second = storage.create(f"{ROOT}/a"), storage.create(f"{ROOT}/a")
    first.write(b"first")
    first.close()
    with pytest.raises(FileExistsError):
        second.close()
    assert second.closed
    assert b"first" == storage.read(f"{ROOT}/a", 5)


def test_two_storages_share_nothing():
    MemoryStorage().put(f"{ROOT}/a", b"1")
    assert MemoryStorage().status(f"{ROOT}/a") is None
