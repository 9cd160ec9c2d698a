"""Which files are complete, by their ends and their ages."""

import os

import pyarrow as pa
import pytest

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.admission import Admission, Readiness
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.memory import MemoryStorage

BATCH = pa.record_batch([pa.array([1, 2, 3])], ["n"])


def written(new):
    sink = pa.BufferOutputStream()
    with new(sink, BATCH.schema) as writer:
        writer.write_batch(BATCH)
    return sink.getvalue().to_pybytes()


FILE, STREAM = written(pa.ipc.new_file), written(pa.ipc.new_stream)
SECONDS = 1_000_000_000

CASES = [
    # the bytes, their readiness after a second, and after a minute: strict, and where broken files are skipped
    ("file", FILE, "READY", "READY", "READY"),
    ("stream", STREAM, "READY", "READY", "READY"),
    ("half a file", FILE[:-50], "INCOMPLETE", "INCOMPLETE", "READY"),
    ("a file's magic", FILE[:8], "INCOMPLETE", "INCOMPLETE", "READY"),
    ("half a stream", STREAM[:-20], "INCOMPLETE", "READY", "READY"),
    ("a stream without its end", STREAM[:-8], "INCOMPLETE", "READY", "READY"),
    ("nothing", b"", "INCOMPLETE", "READY", "READY"),
    ("some other file", b'{"a": 1}', "INCOMPLETE", "READY", "READY"),
]


@pytest.mark.parametrize(("data", "soon", "later", "skipping"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_file_is_complete_by_its_end_or_when_it_is_still(tmp_path, caplog, data, soon, later, skipping):
    path = tmp_path / "a.arrow"
    path.write_bytes(data)
    changed = path.stat().st_ctime_ns
    for age, skips, expected in ((1, False, soon), (1, True, soon), (61, False, later), (61, True, skipping)):
        gate = Admission(LOCAL, skips, clock=lambda age=age: changed + age * SECONDS)
        for _ in range(2):
            ((readiness, file),) = gate.check([DataFile(str(path), 1, 1)])
            assert (expected, len(data), path.stat().st_mtime_ns) == (readiness.name, file.nbytes, file.mtime_ns)
    assert [later == "INCOMPLETE"] == [len(caplog.records) == 1]


def test_a_file_that_has_just_changed_is_young_whatever_time_it_was_given(tmp_path):
    path = tmp_path / "a.arrow"
    path.write_bytes(FILE)
    os.utime(path, ns=(5, 5))
    changed = path.stat().st_ctime_ns
    for age, expected in ((0.1, Readiness.YOUNG), (0.3, Readiness.READY), (-5, Readiness.READY)):
        gate = Admission(LOCAL, clock=lambda age=age: changed + int(age * SECONDS))
        assert expected is gate.check([DataFile(str(path), 1, 1)])[0][0]


def test_files_that_are_gone_or_no_files_are_not_read(tmp_path):
    (tmp_path / "d").mkdir()
    gate = Admission(LOCAL, clock=lambda: 2**62)
    found = gate.check([DataFile(str(tmp_path / name), 1, 1) for name in ("missing", "d")])
    assert [Readiness.GONE] * 2 == [readiness for readiness, _ in found]


def test_a_file_that_vanishes_before_it_is_opened_is_gone(tmp_path):
    path = tmp_path / "a.arrow"
    path.write_bytes(FILE)
    own = LOCAL.status

    def status(at):
        found = own(at)
        path.unlink()
        return found

    storage = type("Vanishing", (), {"traits": LOCAL.traits, "status": staticmethod(status), "open": LOCAL.open})()
    assert Readiness.GONE is Admission(storage, clock=lambda: 2**62).check([DataFile(str(path), 1, 1)])[0][0]


def test_objects_are_complete_when_they_are_visible():
    file = DataFile("memory:/a", 1, 1)
    assert [(Readiness.READY, file)] == Admission(MemoryStorage()).check([file])
