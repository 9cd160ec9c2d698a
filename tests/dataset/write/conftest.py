"""Commits by renames and by copies, and a clock for what they wait for."""

import pytest
from copying_storage import CopyingStorage, local_paths_are_copied

from spark_arrow_ipc.dataset.write.publisher import TIMING


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


@pytest.fixture
def clock(monkeypatch):
    """Let time pass at once; return the seconds that were waited for, and what happens at a time."""
    waited, events = [], {}

    def sleep(seconds):
        waited.append(seconds)
        for due in [due for due in events if due <= sum(waited)]:
            events.pop(due)()

    monkeypatch.setattr(TIMING, "sleep", sleep)
    monkeypatch.setattr(TIMING, "clock", lambda: sum(waited))
    return waited, events
