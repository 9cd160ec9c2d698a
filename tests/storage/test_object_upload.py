"""Uploads: one request or parts, and nothing where one fails."""

import uuid

import pytest

from spark_arrow_ipc.storage.object_store import ObjectStorage


@pytest.fixture
def place():
    return ObjectStorage(), f"memory://{uuid.uuid4().hex}"


def test_an_upload_that_fails_or_is_dropped_leaves_nothing(place):
    storage, root = place
    for nbytes in (10, 20 << 20):
        with pytest.raises(ZeroDivisionError), storage.create(f"{root}/a") as file:
            file.write(b"x" * nbytes)
            raise ZeroDivisionError
        dropped = storage.create(f"{root}/a")
        dropped.write(b"x" * nbytes)
        del dropped
        assert [] == list(storage.list(root))


def test_a_long_object_is_uploaded_in_parts(place):
    storage, root = place
    with storage.create(f"{root}/a") as file:
        for i in range(20):
            file.write(bytes([i]) * (1 << 20))
        assert 20 << 20 == file.tell()
    source = storage.open(f"{root}/a")
    assert [i for i in range(20)] == [source.read_at(i << 20, 1)[0] for i in range(20)]  # noqa: C416
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.write(b"")
    with pytest.raises(FileExistsError), storage.create(f"{root}/a") as file:
        file.write(b"x" * (9 << 20))


def test_a_buffer_may_be_used_again_once_it_was_written(place):
    storage, root = place
    buffer = bytearray(1 << 20)
    with storage.create(f"{root}/a") as file:
        for i in range(20):
            buffer[:] = bytes([i]) * len(buffer)
            file.write(buffer)
            buffer[:] = b"\xff" * len(buffer)
    source = storage.open(f"{root}/a")
    assert [bytes([i]) * 2 for i in range(20)] == [bytes(source.read_at((i << 20) + 9, 2)) for i in range(20)]
