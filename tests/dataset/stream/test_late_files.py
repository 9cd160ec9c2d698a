"""Late files on a disk: those that a process sees coming, and those that came while no process ran."""

import os
import time
from pathlib import Path

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.waiting_files import LateFiles
from spark_arrow_ipc.storage.local import LOCAL

SECOND = 1_000_000_000


def files(directory, *names):
    return [DataFile(str(directory / name), 1, SECOND) for name in names]


def look(late, directory, names, *, inside=(), new=(), before=(), since=0):
    late.warn(
        files(directory, *names),
        inside=files(directory, *inside),
        new=files(directory, *new),
        read_before=files(directory, *before),
        since=since,
    )


def named(caplog):
    found = [name for record in caplog.records for name in record.args[-1].split(", ")]
    caplog.clear()
    return [Path(name).name for name in found]


def test_a_process_names_what_it_sees_coming_and_not_what_it_has_read(tmp_path, caplog):
    late = LateFiles(LOCAL, "lateWindow=60s")
    look(late, tmp_path, "ab", inside="b", new="b")
    late.have_read(files(tmp_path, "b"))
    assert [] == named(caplog)
    look(late, tmp_path, "abcd", inside="", new="")
    assert ["c", "d"] == named(caplog)
    look(late, tmp_path, "abcd")
    assert [] == named(caplog)


def test_a_new_process_names_what_changed_since_the_last_offset(tmp_path, caplog):
    for name in "abc":
        (tmp_path / name).write_text("")
    moved = tmp_path / "moved"
    moved.write_text("")
    time.sleep(0.05)
    since = time.time_ns()
    time.sleep(0.05)
    moved.rename(tmp_path / "d")
    (tmp_path / "e").write_text("")
    os.utime(tmp_path / "e", ns=(SECOND, SECOND))
    look(LateFiles(LOCAL, "lateWindow=60s"), tmp_path, "abcde", inside="c", before="a", since=since)
    assert ["d", "e"] == named(caplog)
    look(LateFiles(LOCAL, "lateWindow=60s"), tmp_path, "abcde", before="ade", since=since)
    look(LateFiles(LOCAL, "lateWindow=60s"), tmp_path, "abcde", since=0)
    assert [] == named(caplog)


def test_many_late_files_are_several_warnings(tmp_path, caplog):
    late = LateFiles(LOCAL, "lateWindow=60s")
    look(late, tmp_path, [])
    look(late, tmp_path, [f"{i:03d}" for i in range(120)])
    assert 3 == len(caplog.records)
    assert "50 files have come too late" in caplog.text
    assert [f"{i:03d}" for i in range(120)] == named(caplog)
