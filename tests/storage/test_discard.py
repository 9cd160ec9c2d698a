"""A discarded file is closed, and an object does not appear."""

import uuid

import pytest

from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.object_store import ObjectStorage
from spark_arrow_ipc.storage.storage import discard


@pytest.mark.parametrize("nbytes", [0, 3, 20 << 20])
def test_an_object_does_not_appear(nbytes):
    storage, root = ObjectStorage(), f"memory://{uuid.uuid4().hex}"
    for _ in range(2):
        file = storage.create(f"{root}/a")
        file.write(b"x" * nbytes)
        discard(file)
        discard(file)
        assert file.closed
    assert [] == list(storage.list(root))


def test_a_local_file_is_closed(tmp_path):
    file = LOCAL.create(str(tmp_path / "a"))
    discard(file)
    discard(file)
    assert file.closed


def test_an_error_of_closing_is_ignored():
    file = open("/dev/full", "wb")  # noqa: PTH123, SIM115 - every write to it fails
    file.write(b"x")
    discard(file)
    assert file.closed
