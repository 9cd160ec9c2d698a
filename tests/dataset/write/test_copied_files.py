"""The files of a copy are read back and noted, and another run reads them before it goes on with them."""

import os
import time
from pathlib import Path

import pytest
from commit_jobs import APPEND, dying
from places import WAYS, local, two_places

from spark_arrow_ipc.dataset.write import copied_files
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import join

pytestmark = pytest.mark.usefixtures("clock")


@pytest.fixture(params=WAYS, ids=" to ".join)
def places(request, tmp_path):
    with two_places(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def pair(tmp_path):
    with local(tmp_path) as found:
        yield found


def staged(place):
    """The names of staged files, and of the notes on each of them."""
    inside = [name for name in place.names() if name.startswith("_ipc_stage/") and ".room/" not in name]
    notes = [name for name in inside if "copied-" in name and "arrow" in place.read(join(place.root, name))]
    return [name for name in inside if "copied-" not in name], notes


NOTES = {
    "a damaged file": lambda place, staged, notes: place.put(staged[0], "X"),
    "a longer file": lambda place, staged, notes: place.put(staged[0], "more"),
    "a file that is gone": lambda place, staged, notes: place.storage.delete(join(place.root, staged[0])),
    "damaged notes": lambda place, staged, notes: place.put(notes, '{"source":'),
    "notes of another kind": lambda place, staged, notes: place.put(notes, '{"source": [], "files": {"a": 1}}'),
    "notes that name a path": lambda place, staged, notes: place.put(
        notes, place.read(join(place.root, notes)).replace(staged[0].rpartition("/")[2], "../../x.staged")
    ),
}


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("damage", NOTES)
def test_what_an_earlier_run_staged_is_read_before_it_is_believed(places, damage):
    source, target = places
    source.save(APPEND, "a", "b", "c")
    with dying("K3.carried"):
        source.copied_to(target)
    files, (notes,) = staged(target)
    NOTES[damage](target, files, notes)
    report = source.copied_to(target)
    assert ["a", "b", "c"] == target.ours() == target.plain()
    assert (0 if damage in ("damaged notes", "notes of another kind") else 2) == report.reused
    assert [] == target.leftovers()


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("point", ["K1.listed", "K2.copied", "K3.carried"])
def test_a_vacuum_removes_what_runs_have_staged_that_none_goes_on_with(places, point):
    """A run that dies before its first notes leaves a directory of its own; a later one cannot tell it from a job that runs."""
    source, target = places
    source.save(APPEND, "a", "b")
    for text in "cd":
        with dying(point):
            source.copied_to(target)
        source.save(APPEND, text)
    source.copied_to(target)
    staged_now = [*Path(target.root).glob("_ipc_stage/**/*")]
    kept = vacuum(target.root, storage=target.storage).kept
    assert bool(staged_now) == bool(kept) == (point == "K1.listed" and target.storage.traits.directories)
    for path in staged_now:
        os.utime(path, (time.time() - 8 * 24 * 3600,) * 2)
    assert not vacuum(target.root, storage=target.storage).kept
    assert [] == target.leftovers()
    assert ["a", "b", "c", "d"] == target.ours() == target.plain()


@pytest.mark.slow
def test_many_files_small_and_large_in_groups(places, monkeypatch):
    source, target = places
    monkeypatch.setattr(copied_files, "_OPEN_AT_ONCE", 3)
    monkeypatch.setattr(copied_files, "_SMALL_NBYTES", 20)
    monkeypatch.setattr(copied_files, "_PIECE_NBYTES", 7)
    monkeypatch.setattr(copied_files, "_NOTED_NBYTES", 50)
    texts = [f"k={number % 3}:{'x' * number}{number}" for number in range(40)]
    source.save(APPEND, *texts)
    with dying("K3.carried"):
        source.copied_to(target)
    assert len(staged(target)[1]) > 5
    assert (40, 40) == ((report := source.copied_to(target)).files, report.reused)
    assert sorted(texts) == target.ours() == target.plain()


def test_the_newest_file_is_copied_last(pair):
    """Where no record says the schema, a reader takes that of the file that was modified last."""
    source, target = pair
    for name in "bca":
        source.put(f"{name}.arrow", name)
    source.copied_to(target)
    times = {name: LOCAL.status(join(target.root, name)).mtime_ns for name in target.names() if name.endswith(".arrow")}
    assert times["a.arrow"] == max(times.values())


@pytest.mark.slow
def test_what_is_read_back_is_compared(pair, monkeypatch):
    source, target = pair
    source.save(APPEND, "a", "b")
    real = type(LOCAL).create

    class Worn:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            return self.file.write(bytes(data).replace(b"b", b"X"))

        def __enter__(self):
            self.file.__enter__()
            return self

        def __exit__(self, *error):
            return self.file.__exit__(*error)

        def __getattr__(self, name):
            return getattr(self.file, name)

    monkeypatch.setattr(type(LOCAL), "create", lambda self, path: Worn(real(self, path)))
    with pytest.raises(CommitError, match="was read back, and is not what was written"):
        source.copied_to(target)
    monkeypatch.undo()
    assert [] == target.plain()
    source.copied_to(target)
    assert ["a", "b"] == target.ours()
