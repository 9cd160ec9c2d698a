"""Entries: what survives storing, and what is refused."""

import json
import random
import zlib

import log_cases
import pytest

from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.table import entry as entries_
from spark_arrow_ipc.table.entry import Entry, Operation
from spark_arrow_ipc.table.names import new_id


def test_an_entry_comes_back():
    entries, _ = log_cases.random_entries(1, 60)
    for entry in entries:
        again = Entry.from_bytes(entry.to_bytes(), entry.number)
        assert entry.to_bytes() == again.to_bytes()
        for name in Entry.__slots__:
            if name != "add":
                assert getattr(entry, name) == getattr(again, name), name


def as_entry(values):
    body = json.dumps(values, separators=(",", ":")).encode()[:-1]
    return b'%s,"crc32":%d}\n' % (body, zlib.crc32(body))


GOOD = {
    "format": 1, "number": 1, "previous": "", "operation": "append", "id": "0" * 32, "time": 0, "job": "1" * 32, "base": 0,
    "add": {"path": ["a.arrow"], "bytes": [1], "rows": [1], "crc32": [0]},
}  # fmt: skip


def changed(**values):
    return {**GOOD, **values}


def files(**columns):
    return changed(add={**GOOD["add"], **columns})


HOSTILE = {
    "a path out of the table": files(path=["../a.arrow"]),
    "an absolute path": files(path=["/etc/passwd"]),
    "a path with half of a surrogate pair": files(path=["k=\ud800/a.arrow"]),
    "a path that is not UTF-8, which no checkpoint holds": files(path=["k=\udcff/a.arrow"]),
    "removes a path with half of a surrogate pair": changed(remove={"path": ["k=\ud800/b"], "bytes": [1]}),
    "a hidden path": files(path=["_ipc_log/table"]),
    "a path twice": files(path=["a", "a"], bytes=[1, 1], rows=[1, 1], crc32=[0, 0]),
    "a negative size": files(bytes=[-1]),
    "a size beyond 64 bits": files(bytes=[1 << 70]),
    "a size that is a float": files(bytes=[1.5]),
    "a column that is too short": files(rows=[]),
    "a path that is a number": files(path=[7]),
    "paths that are a text": files(path="a"),
    "statistics of two files": files(
        statistics=log_cases.added(random.Random(2), "1" * 32, 2).to_json().get("statistics", "")
    ),
    "statistics that are noise": files(statistics="AAAA"),
    "an unknown operation": changed(operation="explode"),
    "a job that is a path": changed(job="../../x"),
    "a number that is a text": changed(number="1"),
    "a number that is True": changed(number=True),
    "files in an entry of maintenance": changed(operation="expire"),
    "removes a path out of the table": changed(remove={"path": ["../b"], "bytes": [1]}),
    "closes a path out of the table": changed(close={"path": ["/b"], "bytes": [1]}),
    "expires what is no job": changed(expire=["x"]),
    "a batch of the wrong form": changed(batch=["q"]),
    "no object": [1],
    "another number": changed(number=2, previous="2" * 32),
}


def test_the_good_entry_is_read():
    assert ("a.arrow",) == Entry.from_bytes(as_entry(GOOD), 1).add.paths


@pytest.mark.parametrize("values", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_entry_is_refused(values):
    with pytest.raises(CommitError):
        Entry.from_bytes(as_entry(values), 1)


def test_hostile_json_is_bounded():
    nested = b'{"format":1,"number":' + b"[" * 100_000
    with pytest.raises(CommitError, match="malformed"):
        Entry.from_bytes(b'%s,"crc32":%d}\n' % (nested, zlib.crc32(nested)), 1)


def test_an_entry_that_nobody_could_read_is_not_written(monkeypatch):
    monkeypatch.setattr(entries_, "MAX_ENTRY_NBYTES", 1000)
    entry = Entry(1, "", Operation.APPEND, job=new_id(), token="t" * 1000)
    with pytest.raises(CommitError, match="nothing is published: write fewer"):
        entry.to_bytes()
