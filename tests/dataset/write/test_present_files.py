"""Which of many files are there: the right answer, in few calls."""

from collections import Counter

import pytest
from memory_storage import MemoryStorage

from spark_arrow_ipc.dataset.write import publisher
from spark_arrow_ipc.dataset.write.publisher import present

ROOT = "memory:/data"


class Counted(MemoryStorage):
    def __init__(self):
        super().__init__(renames=False)
        self.calls = Counter()

    def status(self, path, *, follow_links=True):
        self.calls["status"] += 1
        return super().status(path)

    def list(self, directory):
        self.calls["list"] += 1
        return super().list(directory)


CASES = [
    # the files that are asked for; those that are there, beside others; most names listed; calls
    ("none", [], [], 100, {}),
    ("one", ["a"], ["a"], 100, {"status": 1}),
    ("one that is missing", ["a"], [], 100, {"status": 1}),
    ("many of one directory", ["a", "b", "c"], ["a", "c"], 100, {"list": 1}),
    ("many of two", ["k=1/a", "k=1/b", "k=2/c", "k=2/d"], ["k=1/a", "k=2/d"], 100, {"list": 2}),
    ("of a directory that is not there", ["k=1/a", "k=1/b"], [], 100, {"list": 1}),
    ("of a large directory", ["a", "b", "c"], ["a", "b"], 5, {"list": 1, "status": None}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "there", "names", "calls"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_files_are_found_in_few_calls(monkeypatch, asked, there, names, calls):
    monkeypatch.setattr(publisher, "_NAMES", names)
    storage = Counted()
    for name in [*(f"other{i}" for i in range(10)), *there]:
        storage.put(f"{ROOT}/{name}", name.encode())
    found = present(storage, [f"{ROOT}/{name}" for name in asked])
    assert {f"{ROOT}/{name}": len(name) for name in there} == {path: status.nbytes for path, status in found.items()}
    assert calls.keys() == storage.calls.keys()
    assert all(number in (None, storage.calls[name]) for name, number in calls.items())
