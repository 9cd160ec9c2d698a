"""The files of a source log, on a disk: read back, and changed by somebody."""

import json
import os
from unittest import mock

import pytest

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.mode import StreamBatch
from spark_arrow_ipc.dataset.stream.source_files import SeenFiles, hashes_of, seconds_of
from spark_arrow_ipc.dataset.stream.source_log import Entry, SourceLog
from spark_arrow_ipc.errors import StreamOffsetError, UnsupportedError
from spark_arrow_ipc.storage.local import LOCAL, LocalStorage


def log_of(path, *paths, load=True):
    log = SourceLog(LOCAL, str(path / "log"), paths or ("/in",))
    if load:
        log.load()
    return log


def entry(*names, **options):
    files = tuple(DataFile(f"/in/{name}", 1, 5_000_000_000) for name in names)
    return Entry(StreamBatch(files, ("/in",) * len(files)), -1, **options)


def known(log, *names):
    return log.contains(hashes_of(f"/in/{name}" for name in names)).tolist()


def test_entries_are_read_back_and_say_what_was_read(tmp_path):
    log = log_of(tmp_path)
    for i in range(12):
        assert i == log.append(entry(f"f{i}"))
    again = log_of(tmp_path)
    assert (11, entry("f3").batch, -1) == (again.last, again.entry(3).batch, again.entry(3).after)
    assert [True, True, False] == known(again, "f0", "f11", "f12")
    assert 12 + 1 == len(list((tmp_path / "log").iterdir()))


def test_a_log_that_was_moved_to_where_one_entry_replaces_another_is_not_written_to(tmp_path, monkeypatch):
    log_of(tmp_path).append(entry("a"))
    log = log_of(tmp_path)
    monkeypatch.setattr(os, "link", mock.Mock(side_effect=PermissionError(1, "Operation not permitted")))
    monkeypatch.setattr(LocalStorage, "put_if_absent", lambda *_, **__: True)
    with pytest.raises(UnsupportedError, match="has no hard links"):
        log.append(entry("b"))


def test_skipped_files_and_the_lowest_time_are_kept(tmp_path):
    log = log_of(tmp_path)
    files = [DataFile("/in/s", 1, 7_000_000_000)]
    log.append(Entry(StreamBatch(), -1, 77, SeenFiles.of(hashes_of(["/in/s"]), seconds_of(files))))
    again = log_of(tmp_path)
    assert ([True, False], 77) == (known(again, "s", "t"), again.low)


def test_a_log_of_another_source_is_refused(tmp_path):
    log_of(tmp_path).append(entry("a"))
    with pytest.raises(StreamOffsetError, match=r"this sourceLog is of a stream over \['/in'\]"):
        log_of(tmp_path, "/in", "/other")


DAMAGES = [
    lambda value: "{",
    lambda value: "[" * 100_000,
    lambda value: "[]",
    lambda value: json.dumps(value | {"v": 2}),
    lambda value: json.dumps(value | {"after": "x"}),
    lambda value: json.dumps(value | {"after": -2}),
    lambda value: json.dumps(value | {"low": None}),
    lambda value: json.dumps(value | {"fileNameOnly": 0}),
    lambda value: json.dumps(value | {"skipped": "!"}),
    lambda value: json.dumps(value | {"files": [[0, "../a", 1, 1]]}),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_refused_with_its_path(tmp_path, damage):
    log_of(tmp_path).append(entry("a"))
    (path,) = (tmp_path / "log").iterdir()
    path.write_text(damage(json.loads(path.read_text())))
    with pytest.raises(StreamOffsetError) as caught:
        log_of(tmp_path)
    assert str(path) == caught.value.path


def test_a_missing_entry_and_a_damaged_set_are_refused(tmp_path):
    log = log_of(tmp_path)
    for i in range(10):
        log.append(entry(f"f{i}"))
    made = tmp_path / "log" / f"seen-{9:020d}.bin"
    data = made.read_bytes()
    made.write_bytes(data[:-1])
    with pytest.raises(StreamOffsetError, match="damaged"):
        log_of(tmp_path)
    made.unlink()
    assert 9 == log_of(tmp_path).last
    (tmp_path / "log" / f"{4:020d}.json").unlink()
    with pytest.raises(StreamOffsetError, match="names entry 4"):
        log_of(tmp_path)


def test_pruning_leaves_what_offsets_name_and_foreign_names(tmp_path):
    log = log_of(tmp_path)
    for i in range(125):
        log.append(entry(f"f{i}"))
    (tmp_path / "log" / "x.staged").write_text("left by a process that died")
    (tmp_path / "log" / "README").write_text("of a person")
    log.prune(121)
    assert (tmp_path / "log" / "x.staged").exists()
    log.prune(120)
    names = {path.name for path in (tmp_path / "log").iterdir()}
    assert {f"{i:020d}.json" for i in range(20, 125)} | {f"seen-{119:020d}.bin", "README"} == names
    assert [True, True] == known(log_of(tmp_path), "f0", "f124")
