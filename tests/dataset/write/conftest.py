"""Commits by renames and by copies."""

import pytest
from copying_storage import CopyingStorage, local_paths_are_copied


@pytest.fixture(params=["renames", pytest.param("copies", marks=pytest.mark.exhaustive)])
def publishing(request):
    """Run a test over a storage that renames and over one that copies."""
    if request.param == "renames":
        yield request.param
        return
    if request.node.get_closest_marker("disk"):
        pytest.skip("of storages that rename")
    with local_paths_are_copied(CopyingStorage()):
        yield request.param
