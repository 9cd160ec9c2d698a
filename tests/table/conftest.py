"""The directory of a table on a disk, in memory, and in a storage that copies."""

import pytest
from copying_storage import CopyingStorage
from memory_storage import MemoryStorage

from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.names import TableDirectory


@pytest.fixture(params=["local", "memory", "copying"])
def directory(request, tmp_path):
    storage, root = {
        "local": (LOCAL, str(tmp_path)),
        "memory": (MemoryStorage(), "memory:/t"),
        "copying": (CopyingStorage(str(tmp_path)), str(tmp_path)),
    }[request.param]
    return TableDirectory(storage, root)
