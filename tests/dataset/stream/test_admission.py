"""Which files are complete, by their ends and their ages."""

import os
from types import SimpleNamespace

import pyarrow as pa
import pytest
from memory_storage import MemoryStorage

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.admission import Admission, Readiness
from spark_arrow_ipc.dataset.stream.bad_files import BadFiles
from spark_arrow_ipc.dataset.stream.source_files import Roots
from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.storage.local import LOCAL

BATCH = pa.record_batch([pa.array([1, 2, 3])], ["n"])


def written(new, batch=BATCH, **options):
    sink = pa.BufferOutputStream()
    with new(sink, batch.schema, **options) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


FILE, STREAM = written(pa.ipc.new_file), written(pa.ipc.new_stream)
SECONDS = 1_000_000_000

LEGACY = written(pa.ipc.new_stream, options=pa.ipc.IpcWriteOptions(use_legacy_format=True))
"""As releases before 0.15 write it: its end marker is four zeros."""

LIKE_AN_END = written(pa.ipc.new_stream, pa.record_batch([pa.array([-1, 0], pa.int32())], ["n"]))
"""The last bytes of its record batch are those of an end marker."""

CASES = [
    # the bytes, their readiness after a second, after a minute, and after a minute where broken files are skipped
    ("file", FILE, "READY", "READY", "READY"),
    ("stream", STREAM, "READY", "READY", "READY"),
    ("half a file", FILE[:-50], "INCOMPLETE", "INCOMPLETE", "READY"),
    ("a file's magic", FILE[:8], "INCOMPLETE", "INCOMPLETE", "READY"),
    ("half a stream", STREAM[:-20], "INCOMPLETE", "INCOMPLETE", "READY"),
    ("a stream without its end", STREAM[:-8], "INCOMPLETE", "INCOMPLETE", "READY"),
    ("the end of a stream alone", STREAM[-8:], "INCOMPLETE", "INCOMPLETE", "READY"),
    ("a stream of old", LEGACY, "READY", "READY", "READY"),
    ("a stream of old without its end", LEGACY[:-4], "INCOMPLETE", "INCOMPLETE", "READY"),
    ("values like an end", LIKE_AN_END, "READY", "READY", "READY"),
    ("values like an end, and no end", LIKE_AN_END[:-8], "INCOMPLETE", "INCOMPLETE", "READY"),
    ("two streams", STREAM + LIKE_AN_END, "READY", "READY", "READY"),
    ("two streams, one without its end", STREAM + LIKE_AN_END[:-8], "INCOMPLETE", "INCOMPLETE", "READY"),
    ("a stream and padding", STREAM + bytes(56), "READY", "READY", "READY"),
    ("a stream and other bytes", STREAM + b"other bytes" + bytes(8), "READY", "READY", "READY"),
    ("a stream that is broken", STREAM[:8] + b"\xff" * 8 + STREAM[16:], "READY", "READY", "READY"),
    ("nothing", b"", "INCOMPLETE", "INCOMPLETE", "READY"),
    ("one byte", b"A", "INCOMPLETE", "INCOMPLETE", "READY"),
    ("JSON", b'{"a": 1}', "INCOMPLETE", "INCOMPLETE", "READY"),
    ("CSV", b"path,bytes\na.arrow,1\n", "INCOMPLETE", "INCOMPLETE", "READY"),
    ("Parquet", b"PAR1" + bytes(100), "INCOMPLETE", "INCOMPLETE", "READY"),
]
NAMED = [case[0] for case in CASES]


@pytest.mark.parametrize(("data", "soon", "later", "skipping"), [c[1:] for c in CASES], ids=NAMED)
def test_a_file_is_complete_by_its_end(tmp_path, caplog, data, soon, later, skipping):
    path = tmp_path / "a.arrow"
    path.write_bytes(data)
    changed = path.stat().st_ctime_ns
    for age, options, expected in (
        (1, {}, soon),
        (1, {"skips_broken": True}, soon),
        (61, {}, later),
        (3601, {}, later),
        (61, {"skips_broken": True}, skipping),
    ):
        caplog.clear()
        gate = Admission(LOCAL, **options, clock=lambda age=age: changed + age * SECONDS)
        for _ in range(2):
            ((readiness, file),) = gate.check([DataFile(str(path), 1, 1)])
            assert (expected, len(data), path.stat().st_mtime_ns) == (readiness.name, file.nbytes, file.mtime_ns)
        waits = expected == "INCOMPLETE" and age > 60
        assert waits == (1 == len(caplog.records)) or options


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
    assert "copy the stream into the directory with 'arrowipc repair'" in unended


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


ENDLESS = [
    STREAM[:-8],
    FILE[:-50],
]


@pytest.mark.parametrize("data", ENDLESS)
def test_a_file_that_is_read_without_its_end_is_named(tmp_path, caplog, data):
    path = tmp_path / "a.arrows"
    path.write_bytes(data)
    gate = Admission(LOCAL, skips_broken=True, clock=lambda: path.stat().st_ctime_ns + 61 * SECONDS)
    assert Readiness.READY is gate.check([DataFile(str(path), 1, 1)])[0][0]
    assert "the file has no end and has not changed for a minute" in caplog.text
    assert "what is written to it later will not be read" in caplog.text


def test_a_stream_whose_marker_comes_while_it_is_looked_at_waits(tmp_path):
    """The batch would have the size of before, and its tasks would find another one for ever."""
    path = tmp_path / "a.arrows"
    zeros = written(pa.ipc.new_stream, pa.record_batch([pa.array([0, 0])], ["n"]))
    path.write_bytes(zeros[:-8])

    def opened(at):
        path.write_bytes(zeros)
        return LOCAL.open(at)

    storage = SimpleNamespace(traits=LOCAL.traits, status=LOCAL.status, open=opened)
    gate = Admission(storage, clock=lambda: 2**62)
    assert ["INCOMPLETE", "READY"] == [gate.check([DataFile(str(path), 1, 1)])[0][0].name for _ in range(2)]


def test_tensors_have_no_end_marker(tmp_path, caplog):
    path = tmp_path / "t.arrow"
    path.write_bytes(STREAM[:-8])
    for seconds, expected in ((59, "INCOMPLETE"), (61, "READY")):
        gate = Admission(LOCAL, of_tensors=True, clock=lambda s=seconds: path.stat().st_ctime_ns + s * SECONDS)
        assert expected == gate.check([DataFile(str(path), 1, 1)])[0][0].name
    assert not caplog.records


def test_a_file_that_has_just_changed_is_young_whatever_time_it_was_given(tmp_path):
    path = tmp_path / "a.arrow"
    path.write_bytes(FILE)
    os.utime(path, ns=(5, 5))
    changed = path.stat().st_ctime_ns
    for age, expected in ((0.1, Readiness.YOUNG), (0.3, Readiness.READY), (-5, Readiness.READY)):
        gate = Admission(LOCAL, clock=lambda age=age: changed + int(age * SECONDS))
        assert expected is gate.check([DataFile(str(path), 1, 1)])[0][0]


def test_a_young_file_is_waited_for_from_its_change_on(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(FILE)
    changed = (tmp_path / "b").stat().st_ctime_ns
    for age, seconds in ((0, 0.2), (0.15, 0.051), (0.199, 0.002)):
        gate = Admission(LOCAL, clock=lambda age=age: changed + int(age * SECONDS))
        gate.check([DataFile(str(tmp_path / name), 1, 1) for name in ("b", "a")])
        assert seconds == pytest.approx(gate.settle_seconds, abs=1e-6)
    later = Admission(LOCAL, clock=lambda: changed + SECONDS)
    assert 0 == later.settle_seconds


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


@pytest.mark.parametrize("why", [None, "its column is another one"])
def test_objects_are_judged_where_bad_files_are_passed_over(why, caplog):
    storage = MemoryStorage(renames=False)
    for name, data in (("a", FILE), ("b", b"a,b\n")):
        storage.put(f"memory:/{name}", data)
    files = [DataFile("memory:/a", len(FILE), 1), DataFile("memory:/b", 4, 1)]
    asked = []

    def check(file, root):
        asked.append((file.path, root))
        if why is not None:
            raise SchemaMismatchError(why)

    gate = Admission(storage, bad_files=BadFiles("skip", check))
    expected = [Readiness.READY if why is None else Readiness.INCOMPLETE, Readiness.INCOMPLETE]
    for _ in range(2):
        assert expected == [readiness for readiness, _ in gate.check(files, Roots(["memory:"]))]
    assert {("memory:/a", "memory:")} == set(asked)
    bad = 1 if why is None else 2
    assert (bad, bad) == (gate.named, len(caplog.records))
    assert 2 - len(asked) == bad - 1  # what is named is not opened again


def test_a_storage_that_fails_makes_no_file_bad(tmp_path):
    path = tmp_path / "a.arrow"
    path.write_bytes(FILE)

    def check(_file, _root):
        raise TimeoutError("the storage is slow")

    gate = Admission(LOCAL, bad_files=BadFiles("skip", check), clock=lambda: 2**62)
    with pytest.raises(TimeoutError):
        gate.check([DataFile(str(path), 1, 1)])
    assert 0 == gate.named
