"""The newest record is damaged: where its mark says that it is applied all goes on, and else nothing is done by it."""

import json
import logging
import zlib
from contextlib import nullcontext
from random import Random
from unittest import mock

import pytest
from commit_jobs import APPEND, OVERWRITE, REWRITE, dying, interrupted
from places import PLACES, Place

from spark_arrow_ipc.dataset.commit_log.log import newest_record
from spark_arrow_ipc.dataset.commit_log.record import RECORD_FORMAT, Record
from spark_arrow_ipc.dataset.commit_log.stored_record import record_path
from spark_arrow_ipc.dataset.stream.admission import Readiness
from spark_arrow_ipc.dataset.stream.log import LogMode, LogOptions
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE
from spark_arrow_ipc.dataset.stream.source_files import SourceFiles
from spark_arrow_ipc.dataset.stream.source_log import SourceLog
from spark_arrow_ipc.dataset.stream.table import TableMode, TableOptions
from spark_arrow_ipc.dataset.stream.waiting_files import WaitingFiles
from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.publisher import TIMING
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError

NOISE = Random(1)


def of_another_format(data, _):
    values = json.loads(data) | {"format": RECORD_FORMAT + 1, "colour": "red"}
    del values["crc32"]
    body = json.dumps(values, separators=(",", ":")).encode()[:-1]
    return b'%s,"crc32":%d}\n' % (body, zlib.crc32(body))


DAMAGES = {
    **{f"cut at {i} tenths": lambda data, _, i=i: data[: len(data) * i // 10] for i in range(10)},
    "without its last byte": lambda data, _: data[:-1],
    "zero bytes": lambda data, _: bytes(len(data)),
    "a page of zero bytes": lambda data, _: bytes(4096) + data[4096:],
    "a flipped bit": lambda data, _: data[:-30] + bytes([data[-30] ^ 1]) + data[-29:],
    "garbage": lambda data, _: NOISE.randbytes(len(data)),
    "the record before it": lambda _, place: place.storage.read(place.dataset.record(2), 1 << 20),
    "another chain's record": lambda _, place: others(place).to_bytes(),
}
"""The bytes of the newest record, number 3, and its place to other bytes."""


@pytest.fixture(
    params=[
        "memory",
        "memory that copies",
        *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in ("local", "copying")),
    ]
)
def place(request, tmp_path):
    with (
        PLACES[request.param](tmp_path) as (place, _),
        mock.patch.multiple(TIMING, patience_seconds=0.0, grace_seconds=0.0),
    ):
        yield place


@pytest.fixture(params=[True, False], ids=["done", "pending"])
def is_done(request):
    return request.param


def others(place):
    """Return record number 3 of another chain, which is done there."""
    other = Place(place.storage, f"{place.root}_other")
    for text in ("x", "y", "z"):
        save(other, APPEND, text)
    return other.record


def save(place, mode, *texts, **options):
    return place.save(mode, *texts, durable=False, **options)


def three_jobs(place, is_done):
    """Write three jobs, two with tokens, and stage a fourth that died; return it."""
    save(place, APPEND, "a", commit_token="first")
    save(place, APPEND, "b")
    dead, _ = place.planned(APPEND, "dead", durable=False)
    with nullcontext() if is_done else dying("C3.synced"):
        save(place, APPEND, "c", commit_token="third")
    return dead.staging.jobid


def damage(place, kind):
    """Damage record number 3 and return its bytes, and what it says."""
    path = place.dataset.record(3)
    data = place.storage.read(path, 1 << 20)
    place.storage.put(path, DAMAGES[kind](data, place))
    return data, Record.from_bytes(data)


def streamed(place, _=None):
    """Return what a stream with a sourceLog reads first."""

    class All:
        def check(self, files, roots):
            return [(Readiness.READY, file) for file in files]

    source = SourceFiles(place.storage.inside(None), (place.root,), recursive=True)
    log = SourceLog(place.storage, f"{place.root}_log", (place.root,))
    mode = LogMode(WaitingFiles(source, All(), seconds=lambda: 0), log, LogOptions(), None)
    start = mode.initial()
    files = mode.batch(start, mode.latest(start, ALL_AVAILABLE)).files
    return sorted(place.read(file.path) for file in files)


ACTS = {
    "read": (lambda place, _: place.ours(), "abc"),
    "append": (lambda place, _: save(place, APPEND, "n"), "abcn"),
    "append to nothing": (lambda place, _: save(place, APPEND, "n", if_exists="ignore"), "abc"),
    "overwrite": (lambda place, _: save(place, OVERWRITE, "n"), "n"),
    "compact": (lambda place, _: save(place, REWRITE, "n"), "n"),
    "vacuum": (lambda place, _: vacuum(place.root, older_than_seconds=0, storage=place.storage), "abc"),
    "give up": (lambda place, dead: give_up(place.root, dead, storage=place.storage), "abc"),
    "stream": (lambda place, _: streamed(place), "abc"),
}
"""An act, and the rows after it."""

CHANGES = {"append", "overwrite", "compact", "vacuum", "give up"}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("act", ACTS)
def test_a_damaged_record(place, is_done, act, kind, caplog):
    dead = three_jobs(place, is_done)
    data, record = damage(place, kind)
    do, after = ACTS[act]
    if not is_done:
        check_refused(place, dead, do, data)
        return
    with caplog.at_level(logging.WARNING):
        do(place, dead)
        newest = newest_record(place.dataset)[1]
    if act in CHANGES:
        assert (record.chain, record.jobid, 4) == (newest.chain, newest.previous, newest.seq)
        assert set(record.jobs) <= set(newest.jobs)
    else:
        assert record == newest
    assert place.dataset.record(3) in caplog.text
    assert sorted(after) == place.ours() == place.plain()
    for token in ("first", "third"):
        assert not save(place, APPEND, "again", commit_token=token).published
    save(place, APPEND, "o")
    save(place, APPEND, "p")
    vacuum(place.root, older_than_seconds=0, storage=place.storage)
    assert sorted([*after, "o", "p"]) == place.ours() == place.plain()
    assert [] == place.leftovers()


def check_refused(place, dead, do, data):
    """Nothing is changed, the error has the way out, and with the record's bytes all goes on."""
    before = place.plain(), place.storage.read(place.dataset.record(3), 1 << 20)
    with pytest.raises(CommitError, match=r"0003\.json.*nothing is done by it.*([Rr]estore|put back)"):
        do(place, dead)
    assert before == (place.plain(), place.storage.read(place.dataset.record(3), 1 << 20))
    place.storage.put(place.dataset.record(3), data)
    assert ["a", "b", "c"] == place.ours()
    save(place, APPEND, "n")
    assert not save(place, APPEND, "again", commit_token="third").published
    assert ["a", "b", "c", "n"] == place.ours() == place.plain()


@pytest.mark.parametrize("act", sorted(CHANGES))
def test_another_format_is_no_damage(place, is_done, act):
    dead = three_jobs(place, is_done)
    data = place.storage.read(place.dataset.record(3), 1 << 20)
    place.storage.put(place.dataset.record(3), of_another_format(data, place))
    before = place.plain()
    with pytest.raises(CommitError, match=r"of a newer build.*Write with that build"):
        ACTS[act][0](place, dead)
    assert before == place.plain()
    if is_done:
        assert ["a", "b", "c"] == place.ours() == streamed(place)


MARKS = {
    "cut": lambda data: data[:-40],
    "zero bytes": lambda data: bytes(len(data)),
    "of a job alone": lambda data: data[24:56],
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("mark", MARKS)
def test_a_damaged_mark_beside_a_sound_record(place, mark):
    """The job is put in place again, or known to be: that is the same."""
    three_jobs(place, is_done=True)
    data = place.storage.read(place.dataset.done_mark(3), 1 << 20)
    place.storage.put(place.dataset.done_mark(3), MARKS[mark](data))
    assert ["a", "b", "c"] == place.ours()
    save(place, APPEND, "n")
    assert ["a", "b", "c", "n"] == place.ours() == place.plain()


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("act", ["append", "overwrite", "compact", "vacuum", "give up"])
def test_a_damaged_mark_beside_a_damaged_record(place, act, mark):
    dead = three_jobs(place, is_done=True)
    data = place.storage.read(place.dataset.done_mark(3), 1 << 20)
    place.storage.put(place.dataset.done_mark(3), MARKS[mark](data))
    damage(place, "garbage")
    words = (
        "it is applied.*_ipc_commits and write again"
        if mark == "cut"
        else "which of the files it counts cannot be known"
    )
    with pytest.raises(CommitError, match=words):
        ACTS[act][0](place, dead)
    assert ["a", "b", "c"] == place.plain()


@pytest.mark.parametrize("jobs", [1, 2])
def test_another_chains_record_in_the_place_of_the_first(place, jobs, caplog):
    """No record before it says which one it was: its files do."""
    save(place, APPEND, "a", commit_token="first")
    for _ in range(jobs - 1):
        save(place, OVERWRITE, "b")
    other = Place(place.storage, f"{place.root}_one")
    for _ in range(jobs):
        save(other, OVERWRITE, "x")
    place.storage.put(place.dataset.record(jobs), other.record.to_bytes())
    with caplog.at_level(logging.WARNING):
        save(place, APPEND, "n")
    assert "is not one of this chain" in caplog.text
    assert not save(place, APPEND, "again", commit_token="first").published
    assert sorted(["n", "a" if jobs == 1 else "b"]) == place.ours() == place.plain()


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_stream_of_the_commits_reads_a_damaged_one(tmp_path, kind):
    """By the record that is kept, or by the copy in the mark: each commit once."""
    with PLACES["memory"](tmp_path) as (place, _):
        save(place, APPEND, "a", commit_retention=60)
        mode = TableMode(place.dataset, TableOptions())
        start = mode.latest(mode.initial(), ALL_AVAILABLE)
        save(place, APPEND, "b")
        save(place, APPEND, "c")
        damage(place, kind)
        place.storage.delete(record_path(place.dataset, 3))
        mode = TableMode(place.dataset, TableOptions())
        end = mode.latest(start, ALL_AVAILABLE)
        assert ["b", "c"] == sorted(place.read(file.path) for file in mode.batch(start, end).files)


def test_damage_between_the_look_and_the_next_record(place):
    """The next record follows a damaged one, which is known by its mark."""
    three_jobs(place, is_done=True)
    plan, outputs = place.planned(APPEND, "n", durable=False)
    with interrupted("C3.checked", lambda: damage(place, "zero bytes")):
        commit(plan, outputs, write_empty=None)
    assert ["a", "b", "c", "n"] == place.ours() == place.plain()
    assert not save(place, APPEND, "again", commit_token="third").published
