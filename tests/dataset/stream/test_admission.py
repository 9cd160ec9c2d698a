"""Which files are complete, by their ends and their ages."""

import os
from types import SimpleNamespace

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

LEGACY = STREAM[4:]
"""Begins as a stream of a release before 0.15 does, with the length of its first message."""

CASES = [
    # the bytes, their readiness after a second, after a minute, after an hour with unfinishedAfter, and after a minute
    # where broken files are skipped
    ("file", FILE, "READY", "READY", "READY", "READY"),
    ("stream", STREAM, "READY", "READY", "READY", "READY"),
    ("half a file", FILE[:-50], "INCOMPLETE", "INCOMPLETE", "INCOMPLETE", "READY"),
    ("a file's magic", FILE[:8], "INCOMPLETE", "INCOMPLETE", "INCOMPLETE", "READY"),
    ("half a stream", STREAM[:-20], "INCOMPLETE", "INCOMPLETE", "READY", "READY"),
    ("a stream without its end", STREAM[:-8], "INCOMPLETE", "INCOMPLETE", "READY", "READY"),
    ("the end of a stream alone", STREAM[-8:], "INCOMPLETE", "INCOMPLETE", "READY", "READY"),
    ("a stream of old", LEGACY, "INCOMPLETE", "READY", "READY", "READY"),
    ("nothing", b"", "INCOMPLETE", "INCOMPLETE", "INCOMPLETE", "READY"),
    ("one byte", b"A", "INCOMPLETE", "INCOMPLETE", "INCOMPLETE", "READY"),
    ("JSON", b'{"a": 1}', "INCOMPLETE", "INCOMPLETE", "INCOMPLETE", "READY"),
    ("CSV", b"path,bytes\na.arrow,1\n", "INCOMPLETE", "INCOMPLETE", "INCOMPLETE", "READY"),
    ("Parquet", b"PAR1" + bytes(100), "INCOMPLETE", "INCOMPLETE", "INCOMPLETE", "READY"),
]
NAMED = [case[0] for case in CASES]


@pytest.mark.parametrize(("data", "soon", "later", "unfinished", "skipping"), [c[1:] for c in CASES], ids=NAMED)
def test_a_file_is_complete_by_its_end(tmp_path, caplog, data, soon, later, unfinished, skipping):
    path = tmp_path / "a.arrow"
    path.write_bytes(data)
    changed = path.stat().st_ctime_ns
    for age, options, expected in (
        (1, {}, soon),
        (1, {"skips_broken": True}, soon),
        (61, {}, later),
        (61, {"unfinished_seconds": 3600}, later),
        (3601, {"unfinished_seconds": 3600}, unfinished),
        (61, {"skips_broken": True}, skipping),
    ):
        caplog.clear()
        gate = Admission(LOCAL, **options, clock=lambda age=age: changed + age * SECONDS)
        for _ in range(2):
            ((readiness, file),) = gate.check([DataFile(str(path), 1, 1)])
            assert (expected, len(data), path.stat().st_mtime_ns) == (readiness.name, file.nbytes, file.mtime_ns)
        waits = expected == "INCOMPLETE" and age > 60
        assert waits == (1 == len(caplog.records)) or expected == unfinished != later


def test_a_file_that_is_not_arrow_is_named_with_a_way_to_leave_it_out(tmp_path, caplog):
    """It is in no batch, so that pathGlobFilter on the next start leaves it out."""
    for name, data in (("empty.arrow", b""), ("manifest.csv", b"path,bytes\n"), ("open.arrows", STREAM[:-8])):
        (tmp_path / name).write_bytes(data)
    gate = Admission(LOCAL, clock=lambda: 2**62)
    gate.check([DataFile(str(path), 1, 1) for path in sorted(tmp_path.iterdir())])
    empty, manifest, unended = (record.getMessage() for record in caplog.records)
    assert "found an empty file" in empty
    assert "for CSV use spark.read.csv" in manifest
    assert "leave such files out with pathGlobFilter" in empty
    assert "unfinishedAfter=5m" in unended


def test_a_file_that_waits_is_not_opened_again_until_it_changes(tmp_path):
    path = tmp_path / "a.arrow"
    path.write_bytes(b"")
    opened = []
    storage = SimpleNamespace(
        traits=LOCAL.traits, status=LOCAL.status, open=lambda at: opened.append(at) or LOCAL.open(at)
    )
    now = [path.stat().st_ctime_ns + 61 * SECONDS]
    gate = Admission(storage, clock=lambda: now[0])
    for _ in range(3):
        gate.check([DataFile(str(path), 0, 1)])
    assert 1 == len(opened)
    path.write_bytes(FILE)
    now[0] = path.stat().st_ctime_ns + SECONDS
    assert Readiness.READY is gate.check([DataFile(str(path), 0, 1)])[0][0]


def test_what_comes_after_a_stream_was_taken_for_finished_is_named(tmp_path, caplog):
    path = tmp_path / "a.arrows"
    path.write_bytes(STREAM[:-8])
    gate = Admission(LOCAL, unfinished_seconds=5, clock=lambda: path.stat().st_ctime_ns + 6 * SECONDS)
    assert Readiness.READY is gate.check([DataFile(str(path), 1, 1)])[0][0]
    assert "read as it is" in caplog.text
    for nbytes in (len(STREAM) - 8, len(STREAM) + 92, len(STREAM) + 92):
        gate.warn_of_growth([DataFile(str(path), nbytes, 1)])
    assert 1 == caplog.text.count("100 bytes have come since this stream was read without an end marker")


def test_tensors_have_no_end_marker(tmp_path, caplog):
    path = tmp_path / "t.arrow"
    path.write_bytes(STREAM[:-8])
    gate = Admission(LOCAL, of_tensors=True, clock=lambda: path.stat().st_ctime_ns + 61 * SECONDS)
    assert (Readiness.READY, "") == (gate.check([DataFile(str(path), 1, 1)])[0][0], caplog.text)


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


@pytest.mark.parametrize(("data", "soon"), [(case[1], case[2]) for case in CASES], ids=NAMED)
def test_objects_are_complete_when_they_are_visible_and_arrow(data, soon, caplog):
    """One that is cut off is an error, or skipped, by the options of the read: nobody writes to it any more."""
    storage = MemoryStorage(renames=False)
    storage.put("memory:/a", data)
    file = DataFile("memory:/a", len(data), 1)
    is_arrow = data[:4] in (FILE[:4], STREAM[:4], LEGACY[:4])
    for skips in (False, True):
        expected = Readiness.READY if is_arrow or skips else Readiness.INCOMPLETE
        gate = Admission(storage, skips)
        assert [(expected, file)] * 2 == [*gate.check([file]), *gate.check([file])]
    assert is_arrow == (caplog.records == [])
    assert Readiness.GONE is gate.check([DataFile("memory:/gone", 1, 1)])[0][0]
