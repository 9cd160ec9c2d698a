"""Records: their form, and every damage that is detected."""

import json
import zlib
from dataclasses import replace
from unittest import mock

import pytest
from commit_jobs import APPEND, dataset, save

from spark_arrow_ipc.dataset.commit_log.dataset_directory import RemovedFile, StagedFile, Tally
from spark_arrow_ipc.dataset.commit_log.log import read_head
from spark_arrow_ipc.dataset.commit_log.record import (
    FIRST_NBYTES,
    REMEMBERED,
    TAKEN_BACK,
    Batch,
    Record,
    job_in,
    schema_in,
)
from spark_arrow_ipc.dataset.commit_log.stored_record import read_record
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.storage import Kind, Status

JOBID = "0123456789abcdef" * 2


ADD = StagedFile("a.staged", "k=1/part-0.arrow", 1, 2, 3)


REMOVED = RemovedFile("k=1/old.arrow", 10, 1_000)


RECORD = Record(
    7, JOBID, "append", (ADD,), (REMOVED,), jobs=(JOBID[::-1], JOBID), tokens=("s", "t"), token="t",
    query=Batch("q", 4), queries=(Batch("p", 0), Batch("q", 4)), tally=Tally(1, 2, 3),
)  # fmt: skip


def test_a_record_comes_back_from_its_bytes():
    assert RECORD == Record.from_bytes(RECORD.to_bytes())
    assert 7 == json.loads(RECORD.to_bytes())["seq"]
    strange = Record(1, JOBID, "append", removes=(RemovedFile("\udcff\n\u2028.arrow"),), jobs=(JOBID,))
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
    ("a batch has no number", {"queries": [["p"], ["q", 4]]}),
    ("a batch is a string", {"query": "q"}),
    ("a batch has a string for its number", {"query": ["q", "4"], "queries": [["q", "4"]]}),
    ("a batch has a negative number", {"query": ["q", -4], "queries": [["q", -4]]}),
    ("a query has a number for its id", {"query": [1, 4], "queries": [[1, 4]]}),
    ("own batch is not the last", {"queries": [["q", 4], ["p", 0]]}),
    ("no number", {"seq": "7"}),
    ("negative number", {"seq": -7}),
    ("number is a boolean", {"seq": True}),
    ("job id leads out", {"jobid": "../" * 10 + "xx", "jobs": ["../" * 10 + "xx"]}),
    ("own job is not the last", {"jobs": [JOBID, JOBID[::-1]]}),
    ("adds are no list", {"adds": 5}),
    ("an add is too short", {"adds": [["a.staged", "x.arrow", 1]]}),
    ("an add has a string for its size", {"adds": [["a.staged", "x.arrow", "1", 1, 1]]}),
    ("an add has a negative size", {"adds": [["a.staged", "x.arrow", -1, 1, 1]]}),
    ("an add has a number for its name", {"adds": [[1, "x.arrow", 1, 1, 1]]}),
    ("an add leads out", {"adds": [["a.staged", "../x.arrow", 1, 1, 1]]}),
    ("an add is staged elsewhere", {"adds": [["../a.staged", "x.arrow", 1, 1, 1]]}),
    ("a removal leads out", {"removes": [["k=1/../../x", 1, 1]]}),
    ("a removal is absolute", {"removes": [["/etc/passwd", 1, 1]]}),
    ("a removal is of a record", {"removes": [["_ipc_commits/00000000000000000001.json", 1, 1]]}),
    ("a removal is a string", {"removes": ["k=1/../../x"]}),
    ("a removal is no list", {"removes": [1]}),
    ("a removal has a number for its name", {"removes": [[1, 1, 1]]}),
    ("a removal has a size and no time", {"removes": [["a.arrow", 1, None]]}),
    ("a removal has a string for its size", {"removes": [["a.arrow", "1", 1]]}),
    ("a removal is too long", {"removes": [["a.arrow", 1, 1, "", 1]]}),
    ("a removal has a number for its version", {"removes": [["a.arrow", 1, 1, 1]]}),
    ("a schema is a number", {"schema": 1}),
    ("own token is not the last", {"token": "s"}),
    ("own token is a number", {"token": 1}),
    ("takes back and publishes", {"mode": "taken back", "withdraws": [JOBID], "withdrawn": [JOBID]}),
    ("takes back nothing", {"mode": "taken back", "adds": []}),
    ("withdraws and removes", {"mode": "withdrawn", "adds": [], "withdraws": [JOBID], "withdrawn": [JOBID]}),
    ("a token is no string", {"tokens": [1]}),
    ("durable is a number", {"durable": 1}),
    ("a part too much", {"extra": 1}),
    ("a chain without an id", {"chain": ""}),
    ("a chain's id leads out", {"chain": "../" * 10 + "xx"}),
    ("the job before is a number", {"previous": 1}),
    ("the job before leads out", {"previous": "../x"}),
    ("a tally of two numbers", {"tally": [1, 2]}),
    ("a tally of less than no files", {"tally": [-1, 2, 3]}),
    ("a tally is a number", {"tally": 1}),
    ("deep", {"adds": json.loads("[" * 900 + "]" * 900)}),
]


@pytest.mark.parametrize("changes", [case[1] for case in UNSOUND], ids=[case[0] for case in UNSOUND])
def test_a_record_whose_checksum_is_right_is_still_checked(changes):
    with pytest.raises(CommitError):
        Record.from_bytes(sealed(**changes))


def test_a_removal_without_a_size_is_of_any_file_of_that_name():
    assert RemovedFile("k=1/old.arrow").is_same(status(1, 2))


def status(nbytes, mtime_ns, version=""):
    return Status("old.arrow", Kind.FILE, nbytes, mtime_ns, version=version)


VERSIONED = RemovedFile("k=1/old.arrow", 10, 1_000, "etag")
SAME = [
    ("size and time", REMOVED, status(10, 1_000), True),
    ("another size", REMOVED, status(11, 1_000), False),
    ("another time", REMOVED, status(10, 1_001), False),
    ("no version was noted", REMOVED, status(10, 1_000, "etag"), True),
    ("version", VERSIONED, status(10, 1_000, "etag"), True),
    ("a time in whole seconds", VERSIONED, status(10, 0, "etag"), True),
    ("another version", VERSIONED, status(10, 1_000, "other"), False),
]


@pytest.mark.parametrize(("removed", "found", "same"), [case[1:] for case in SAME], ids=[case[0] for case in SAME])
def test_a_file_is_the_one_to_remove_by_its_version_or_by_size_and_time(removed, found, same):
    assert same == removed.is_same(found)


def test_a_version_is_kept():
    record = replace(RECORD, removes=(REMOVED, VERSIONED))
    assert record == Record.from_bytes(record.to_bytes())
    states = [["k=1/old.arrow", 10, 1_000, ""], ["k=1/old.arrow", 10, 1_000, "etag"]]
    assert states == json.loads(record.to_bytes())["removes"]


def test_a_record_that_takes_back_another_forgets_its_job_and_its_token():
    back = RECORD.taken_back("f" * 32, "schema")
    assert (8, TAKEN_BACK, (), (RemovedFile(ADD.final),)) == (back.seq, back.mode, back.adds, back.removes)
    assert ((JOBID[::-1],), ("s",), (JOBID,), (JOBID,)) == (back.jobs, back.tokens, back.withdraws, back.withdrawn)
    assert "schema" == back.schema
    assert back == Record.from_bytes(back.to_bytes())
    without = Record(7, JOBID, "append", jobs=(JOBID,), tokens=("another job's",))
    assert ("another job's",) == without.taken_back("f" * 32, "").tokens


def test_a_record_that_takes_more_memory_than_there_is_says_so(monkeypatch):
    data = RECORD.to_bytes()
    monkeypatch.setattr("json.loads", mock.Mock(side_effect=MemoryError))
    with pytest.raises(CommitError, match="more memory than there is"):
        Record.from_bytes(data)


def test_a_sealed_record_that_is_sound_is_read():
    assert RECORD == Record.from_bytes(sealed())
    with pytest.raises(CommitError):
        Record.from_bytes(b'%s,"crc32":%d}\n' % (deep := b'{"a":' + b"[" * 100_000, zlib.crc32(deep)))


def test_tokens_and_jobs_are_remembered_for_a_thousand_jobs(tmp_path, monkeypatch):
    monkeypatch.setattr("spark_arrow_ipc.dataset.commit_log.record.REMEMBERED", 3)
    for token in "abcd":
        save(tmp_path, APPEND, token, commit_token=token)
    record = read_record(dataset(tmp_path), read_head(dataset(tmp_path)).seq)
    assert ("b", "c", "d") == record.tokens
    assert 3 == len(record.jobs)
    assert 1000 == REMEMBERED


def test_each_query_is_known_by_its_newest_batch():
    record = None
    for seq, (query, number) in enumerate([("p", 0), ("q", 0), ("p", 1), (None, 0), ("p", 2)], 1):
        batch = None if query is None else Batch(query, number)
        record = Record(seq, f"{seq:032x}", "append", query=batch).after(record)
        assert record == Record.from_bytes(record.to_bytes())
    assert (Batch("q", 0), Batch("p", 2)) == record.queries
    assert (Batch("q", 0), Batch("p", 1)) == record.taken_back(JOBID, "").queries
    first = Record(1, JOBID, "append", query=Batch("q", 0)).after(None)
    assert () == first.taken_back(JOBID[::-1], "").queries


def test_only_the_newest_queries_are_remembered():
    record = Record(1, JOBID, "append", jobs=(JOBID,), queries=tuple(Batch(str(i), 0) for i in range(REMEMBERED)))
    after = Record(2, JOBID[::-1], "append", query=Batch("new", 0)).after(record)
    assert (REMEMBERED, Batch("1", 0), Batch("new", 0)) == (len(after.queries), after.queries[0], after.queries[-1])


FORMATS = {
    "older": ({"format": 3}, r"format 4.*found the format 3 of an older build"),
    "newer": ({"format": 5, "new": "fields"}, r"format 4.*found the format 5 of a newer build"),
    "no number": ({"format": "x" * 5000}, r"found the format 'xxx.{,200} of an older build"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_record_of_another_format_is_named(name):
    changes, words = FORMATS[name]
    with pytest.raises(CommitError, match=words):
        Record.from_bytes(sealed(**changes))


def test_a_record_follows_the_one_before_it_in_its_chain_alone():
    first = Record(1, JOBID, "append").after(None)
    second = Record(2, JOBID[::-1], "append").after(first)
    assert second.follows(first)
    assert (first.chain, JOBID) == (second.chain, second.previous)
    assert second == Record.from_bytes(second.to_bytes())
    assert second.taken_back("f" * 32, "").follows(second)
    for other in (replace(first, chain="e" * 32), replace(first, jobid="e" * 32), replace(first, seq=2)):
        assert not second.follows(other)


def test_the_first_bytes_name_the_job():
    assert RECORD.to_bytes().startswith(RECORD.first_bytes)
    assert len(RECORD.first_bytes) <= FIRST_NBYTES <= len(Record(1, JOBID, "x", jobs=(JOBID,)).to_bytes())
    assert JOBID == job_in(RECORD.first_bytes)
    assert job_in(b'{"seq":1,"jobid":"%b",' % JOBID.encode()) is None


def test_the_first_bytes_have_the_schema():
    """A reader does not read the names of all files for it."""
    data = replace(RECORD, schema="eJw=").to_bytes()
    first = len(RECORD.first_bytes) + len('"schema":"eJw=",')
    assert "eJw=" == schema_in(data[:first])
    assert {None} == {schema_in(data[:size]) for size in range(len(RECORD.first_bytes) + len('"schema":"'), first)}
    assert "" == schema_in(RECORD.to_bytes())
    assert "" == schema_in(data.replace(b'"format":4', b'"format":3')) == schema_in(b""), "of another build"


def test_a_record_has_the_schema_of_the_one_before_it_unless_it_has_its_own():
    first = Record(1, JOBID, "append").after(None, schema="s")
    second = Record(2, JOBID[::-1], "append").after(first)
    assert ("s", "s", "t") == (first.schema, second.schema, Record(3, JOBID, "append").after(second, schema="t").schema)
    assert "" == Record(1, JOBID, "append").after(None).schema
