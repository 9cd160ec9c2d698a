"""Records: their form, which of them counts, and how a reader's listing is corrected."""

import json
import os
import zlib
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest import mock

import pytest
from commit_jobs import APPEND, OVERWRITE, dataset, dying, foreign, ours, save

from spark_arrow_ipc.dataset.commit_log import log
from spark_arrow_ipc.dataset.commit_log.log import (
    Head,
    is_committed,
    read_head,
    read_pending,
    read_record,
    read_state,
)
from spark_arrow_ipc.dataset.commit_log.record import Record, StagedFile
from spark_arrow_ipc.dataset.write.roll_forward import finish
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, FileChangedError

JOBID = "0123456789abcdef" * 2
ADD = StagedFile("a.staged", "k=1/part-0.arrow", 1, 2, 3)
RECORD = Record(7, JOBID, "append", (ADD,), ("k=1/old.arrow",), jobs=(JOBID[::-1], JOBID), tokens=("t",))


def test_a_record_comes_back_from_its_bytes():
    assert RECORD == Record.from_bytes(RECORD.to_bytes())
    assert 7 == json.loads(RECORD.to_bytes())["seq"]
    strange = Record(1, JOBID, "append", removes=("\udcff\n\u2028.arrow",), jobs=(JOBID,))
    assert strange == Record.from_bytes(strange.to_bytes())


def test_every_damage_is_found():
    data = RECORD.to_bytes()
    for cut in range(len(data)):
        with pytest.raises(CommitError):
            Record.from_bytes(data[:cut])
    for i in range(len(data)):
        with pytest.raises(CommitError):
            Record.from_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
    with pytest.raises(CommitError):
        Record.from_bytes(data + b" ")


def sealed(**changes):
    """Return a record whose checksum is right and whose contents are not."""
    values = json.loads(RECORD.to_bytes())
    del values["crc32"]
    body = json.dumps({**values, **changes}, separators=(",", ":")).encode()[:-1]
    return b'%s,"crc32":%d}\n' % (body, zlib.crc32(body))


UNSOUND = [
    ("no number", {"seq": "7"}),
    ("negative number", {"seq": -7}),
    ("number is a boolean", {"seq": True}),
    ("job id leads out", {"jobid": "../" * 10 + "xx", "jobs": ["../" * 10 + "xx"]}),
    ("own job is not the last", {"jobs": [JOBID, JOBID[::-1]]}),
    ("adds are no list", {"adds": 5}),
    ("an add is too short", {"adds": [["a.staged", "x.arrow", 1]]}),
    ("an add has a text for its size", {"adds": [["a.staged", "x.arrow", "1", 1, 1]]}),
    ("an add has a negative size", {"adds": [["a.staged", "x.arrow", -1, 1, 1]]}),
    ("an add has a number for its name", {"adds": [[1, "x.arrow", 1, 1, 1]]}),
    ("an add leads out", {"adds": [["a.staged", "../x.arrow", 1, 1, 1]]}),
    ("an add is staged elsewhere", {"adds": [["../a.staged", "x.arrow", 1, 1, 1]]}),
    ("a removal leads out", {"removes": ["k=1/../../x"]}),
    ("a removal is absolute", {"removes": ["/etc/passwd"]}),
    ("a removal is of a record", {"removes": ["_ipc_commits/00000000000000000001.json"]}),
    ("a removal is no text", {"removes": [1]}),
    ("a token is no text", {"tokens": [1]}),
    ("durable is a number", {"durable": 1}),
    ("a part too much", {"extra": 1}),
    ("deep", {"adds": json.loads("[" * 900 + "]" * 900)}),
]


@pytest.mark.parametrize("changes", [case[1] for case in UNSOUND], ids=[case[0] for case in UNSOUND])
def test_a_record_whose_checksum_is_right_is_still_checked(changes):
    with pytest.raises(CommitError):
        Record.from_bytes(sealed(**changes))


def test_a_sealed_record_that_is_sound_is_read():
    assert RECORD == Record.from_bytes(sealed())
    with pytest.raises(CommitError):
        Record.from_bytes(b'%s,"crc32":%d}\n' % (deep := b'{"a":' + b"[" * 100_000, zlib.crc32(deep)))


# Which record counts

HEADS = [
    ("no directory", None, Head()),
    ("an empty one", [], Head()),
    ("done", ["1.json", "1.done"], Head(1, done=True)),
    ("pending", ["1.json", "1.done", "2.json"], Head(2, done=False)),
    ("the mark was seen and its record not", ["1.json", "1.done", "2.done"], Head(2, done=True)),
    ("a hole in the past", ["2.json", "4.json", "4.done", "5.json", "5.done"], Head(5, done=True)),
    ("other names", ["1.json", "1.done", "x.staged", "7.txt"], Head(1, done=True)),
]


@pytest.mark.parametrize(("names", "expected"), [case[1:] for case in HEADS], ids=[case[0] for case in HEADS])
def test_head(tmp_path, names, expected):
    if names is not None:
        (tmp_path / "_ipc_commits").mkdir()
    for name in names or ():
        number, _, ending = name.partition(".")
        (tmp_path / "_ipc_commits" / f"{number.rjust(20, '0')}.{ending}").touch()
    assert expected == read_head(dataset(tmp_path))


def test_a_directory_without_records_costs_one_call(tmp_path):
    with mock.patch.object(os, "scandir", wraps=os.scandir) as scandir:
        assert read_pending(dataset(tmp_path)) is None
        assert read_state(dataset(tmp_path)).pending is None
    assert 2 == scandir.call_count


def test_a_pending_record_says_where_its_files_lie(tmp_path):
    save(tmp_path, APPEND, "old")
    with dying("C4.renamed"):
        save(tmp_path, OVERWRITE, "k=1:a", "b")
    state = read_state(dataset(tmp_path))
    pending = read_pending(dataset(tmp_path))
    assert (Head(2, done=False), pending) == (state.head, state.pending)
    files = [pending.file(add) for add in pending.record.adds]
    assert [True, False] == [Path(file.path).exists() for file in files]
    assert [False, True] == [Path(file.staged).exists() for file in files]
    assert [1, 1] == [file.nbytes for file in files]
    assert Path(files[0].path).stat().st_mtime_ns == files[0].mtime_ns
    assert Path(files[1].staged).stat().st_mtime_ns == files[1].mtime_ns
    assert {*map(str, tmp_path.glob("part-*"))} == pending.removed()
    assert is_committed(dataset(tmp_path), pending.record.jobid)
    assert not is_committed(dataset(tmp_path), "f" * 32)


def test_a_damaged_pending_record_is_named_with_what_to_do(tmp_path):
    save(tmp_path, APPEND, "old")
    with dying("C3.linked"):
        save(tmp_path, APPEND, "new")
    path = Path(dataset(tmp_path).record(2))
    path.write_bytes(path.read_bytes()[:-10])
    for read in (ours, lambda root: save(root, APPEND, "next"), lambda root: read_pending(dataset(root))):
        with pytest.raises(CommitError, match=r"2\.json.*CRC-32.*nothing is done by it.*remove it"):
            read(tmp_path)
    path.unlink()
    save(tmp_path, APPEND, "next")
    assert ["next", "old"] == ours(tmp_path)


def test_a_record_of_another_number_or_too_large_is_refused(tmp_path, monkeypatch):
    save(tmp_path, APPEND, "old")
    Path(dataset(tmp_path).record(1)).rename(dataset(tmp_path).record(2))
    with pytest.raises(CommitError, match="record number 2, found number 1"):
        read_record(dataset(tmp_path), 2)
    monkeypatch.setattr(log, "MAX_RECORD_NBYTES", 10)
    with pytest.raises(CommitError, match="at most 10 bytes"):
        read_record(dataset(tmp_path), 2)


# The correction


@contextmanager
def doing(action, times=1):
    """Do something after each of the first times that a directory's names were read."""
    real, left = os.scandir, iter(range(times))

    def scandir(path):
        names = list(real(path))
        if "part-" in str(names) and next(left, None) is not None:
            action()
        return nullcontext(iter(names))

    with mock.patch.object(os, "scandir", scandir):
        yield


@pytest.mark.parametrize("first", [False, True], ids=["later job", "first job"])
def test_a_job_that_commits_while_the_directory_is_listed_makes_the_reader_list_again(tmp_path, first):
    if first:
        (tmp_path / "part-a.arrow").write_text("a")
    else:
        save(tmp_path, APPEND, "a")
    with doing(lambda: save(tmp_path, OVERWRITE, "b")):
        assert ["b"] == ours(tmp_path)


def test_a_pending_job_that_ends_while_the_directory_is_listed_changes_nothing(tmp_path):
    save(tmp_path, APPEND, "a")
    with dying("C4.renamed"):
        save(tmp_path, OVERWRITE, "b", "c")
    with doing(lambda: finish(dataset(tmp_path))):
        assert ["b", "c"] == ours(tmp_path)


def test_a_directory_that_never_rests_is_an_error(tmp_path):
    save(tmp_path, APPEND, "a")
    with doing(lambda: save(tmp_path, APPEND, "b"), 100), pytest.raises(ConcurrentWriteError):
        ours(tmp_path)


def test_a_committed_file_of_another_size_is_an_error(tmp_path):
    with dying("C3.linked"):
        save(tmp_path, APPEND, "abc")
    next((tmp_path / "_ipc_stage").rglob("*[0-9a-f].staged")).write_text("abcd")
    with pytest.raises(FileChangedError, match="3 bytes, found 4"):
        ours(tmp_path)


def test_a_reader_may_start_at_any_passage_of_a_commit(tmp_path):
    """Whoever looks between two steps sees the old or the new, the new from the link on."""
    save(tmp_path, APPEND, "k=1:a", "k=2:b")
    seen = []

    def hit(name):
        seen.append((name, ours(tmp_path)))

    with mock.patch("spark_arrow_ipc.storage.failpoint.hit", hit):
        save(tmp_path, OVERWRITE, "k=2:c", "k=3:d", "e")
    linked = [name for name, _ in seen].index("C3.linked")
    assert {("k=1:a", "k=2:b")} == {tuple(view) for _, view in seen[:linked]}
    assert {("e", "k=2:c", "k=3:d")} == {tuple(view) for _, view in seen[linked:]}
    assert ["e", "k=2:c", "k=3:d"] == foreign(tmp_path)
