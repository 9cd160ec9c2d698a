"""A commit record: the changes of one job, as JSON that ends in its own checksum.

A chain of records has an id, which its first record makes up and all others take over, and each record names the job of the
one before it. So neither a record that a process makes after a long pause, where others were removed meanwhile, nor one in a
directory that was removed and made anew is a part of the chain.

Each record has the schema that a read without ``mergeSchema`` has after it: that of the files which the job adds, with the
columns and wider types of the files that stay beside them. The times of files cannot tell: they say when a file was staged,
and by which clock, not in which order jobs were committed.
"""

from __future__ import annotations

import json
import re
import uuid
import zlib
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    NO_FILES,
    RemovedFile,
    StagedFile,
    Tally,
    check_names,
    tally_after,
)
from spark_arrow_ipc.errors import CommitError, cut_repr

WITHDRAWN: Final = "withdrawn"
"""The mode of a record that withdraws jobs instead of committing one.

Every job reads the newest record before it appends its own, and fails if it is withdrawn there.
"""

TAKEN_BACK: Final = "taken back"
"""The mode of a record that takes back the one before it, which could not be applied: only this may follow a pending one.

It withdraws the job of that record and removes what the job has published; old files are all there still.
"""

COPIED: Final = "copied"
"""The mode of the record with which a copy begins: its files are the state of the record before it, and no new rows.

It begins a chain of its own, with a new id, and remembers the jobs of the other one.
"""

REMEMBERED: Final = 1000
"""Number of job ids, commit tokens, queries and withdrawn jobs that each record takes over from the one before."""

RECORD_FORMAT: Final = 4
"""The number of the form that this build writes, and reads."""

MAX_RECORD_NBYTES: Final = 256 << 20
"""Larger records are not read; a job of a million files makes one of about 150 MB."""

FIRST_NBYTES: Final = 128
"""The first bytes of a record name its number and its job; then comes its schema."""

_FIRST: Final = re.compile(rb'\{"format":(\d+),"seq":\d+,"jobid":"([0-9a-f]{32})",(?:"schema":"([^"]*)(",)?)?')

_TAIL: Final = re.compile(rb',"crc32":(\d{1,10})\}\n')
_TAIL_NBYTES: Final = 24

_JOBID: Final = re.compile(r"[0-9a-f]{32}")


class OtherFormatError(CommitError):
    """A commit record has a form that this build does not read."""


def job_in(data: bytes) -> str | None:
    """Return the id of the job that the first bytes of a record name; None if they are not those of a record."""
    match = _FIRST.match(data)
    return None if match is None else match[2].decode()


def schema_in(data: bytes) -> str | None:
    """Return the schema that the first bytes of a record have, empty without one; None if it goes on after them."""
    match = _FIRST.match(data)
    if match is None or match[3] is None or match[1] != b"%d" % RECORD_FORMAT:
        return ""
    return match[3].decode() if match[4] else None


class Batch(NamedTuple):
    """One batch of a streaming query: the query's id, and the batch's number from 0."""

    query: str
    number: int


@dataclass(frozen=True, slots=True)
class Record:
    """The changes of one job, and the ids and tokens of the jobs before it."""

    seq: int  # number in the chain, from 1
    # A withdrawal has an id of its own, and the mode `WITHDRAWN` or `TAKEN_BACK`.
    jobid: str
    mode: str
    adds: tuple[StagedFile, ...] = ()  # to publish
    removes: tuple[RemovedFile, ...] = ()  # to delete
    durable: bool = True  # whether the steps are made durable with ``fsync``
    # The newest `REMEMBERED` ids of committed jobs, and commit tokens, oldest first, including its own.
    jobs: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    withdraws: tuple[str, ...] = ()  # the jobs that this record withdraws
    withdrawn: tuple[str, ...] = ()  # the newest `REMEMBERED` ids of withdrawn jobs, oldest first, including its own
    token: str | None = None  # the job's own commit token
    kept_until: int = 0  # until when removed files live on (`kept_directory`), in seconds since 1970; 0 deletes them
    # The id of the streaming query whose batch this is, and the number of the batch; None of other jobs.
    query: Batch | None = None
    # The newest batch of each of the newest `REMEMBERED` streaming queries, oldest first, including its own. A query
    # commits its batches in order, so that one with a smaller number is committed too.
    queries: tuple[Batch, ...] = ()
    chain: str = field(default_factory=lambda: uuid.uuid4().hex)  # id of the chain
    previous: str = ""  # the `jobid` of the record before it; empty in the first one
    # The files with names of our own after this record; None if files were there before the chain.
    tally: Tally | None = None
    schema: str = ""  # what a plain read has from this record on (`encode_schema`); empty if that of the newest file
    # Small files that get names which others may have had, in this order: after the files of `adds` have theirs, and
    # before those of `removes` are removed.
    documents: tuple[StagedFile, ...] = ()

    def after(self, before: Record | None, *, schema: str | None = None, is_all: bool = False) -> Record:
        """Return the record as it follows another one: it takes over its ids, tokens, queries and, without one, its schema.

        `is_all` says that after it no other files are there than those that it adds.
        """
        before = Record(0, "", "") if before is None else before
        is_all = is_all or self.mode == COPIED
        return replace(
            self,
            jobs=(*before.jobs, *(() if self.withdraws else (self.jobid,)))[-REMEMBERED:],
            tokens=(*before.tokens, *(() if self.token is None else (self.token,)))[-REMEMBERED:],
            withdrawn=(*before.withdrawn, *self.withdraws)[-REMEMBERED:],
            queries=_with_query(before.queries, self.query),
            chain=self.chain if self.mode == COPIED else before.chain,
            previous=before.jobid,
            tally=tally_after(NO_FILES, self.adds, ())
            if is_all
            else tally_after(before.tally, self.adds, self.removes),
            schema=before.schema if schema is None else schema,
        )

    def taken_back(self, jobid: str, schema: str) -> Record:
        """Make the record that takes this pending one back: its own id, and the schema of the record before that one."""
        return Record(
            self.seq + 1,
            jobid,
            TAKEN_BACK,
            (),
            tuple(RemovedFile(file.final) for file in self.adds),
            self.durable,
            self.jobs[:-1],
            self.tokens if self.token is None else self.tokens[:-1],
            (self.jobid,),
            (*self.withdrawn, self.jobid)[-REMEMBERED:],
            queries=self.queries if self.query is None else _without_query(self.queries, self.query),
            chain=self.chain,
            previous=self.jobid,
            tally=tally_after(self.tally, self.removes, self.adds),
            schema=schema,
        )

    def follows(self, before: Record) -> bool:
        """Return whether `before` is the record before this one in one chain."""
        return (self.chain, self.seq, self.previous) == (before.chain, before.seq + 1, before.jobid)

    @property
    def first_bytes(self) -> bytes:
        """The bytes at the beginning of the record's file, which name its number and its job."""
        return b'{"format":%d,"seq":%d,"jobid":"%b",' % (RECORD_FORMAT, self.seq, self.jobid.encode())

    @property
    def is_of_job(self) -> bool:
        """True if the record commits a job, and does not withdraw others."""
        return self.mode not in {WITHDRAWN, TAKEN_BACK}

    @property
    def staged_jobs(self) -> tuple[str, ...]:
        """The jobs whose staging directories can be deleted once this record is applied."""
        return self.withdraws or (self.jobid,)

    def to_bytes(self) -> bytes:
        """Encode the record as its file holds it."""
        first = ("seq", "jobid", "schema")  # as `_FIRST` reads them
        values = {name: getattr(self, name) for name in (*first, *self.__slots__)}
        values["adds"] = _staged_rows(self.adds)
        values["removes"] = [[file.path, file.nbytes, file.mtime_ns, file.version] for file in self.removes]
        del values["documents"]
        if self.documents:  # builds that do not know them read all other records
            values["documents"] = _staged_rows(self.documents)
        body = json.dumps({"format": RECORD_FORMAT, **values}, separators=(",", ":")).encode()[:-1]
        return b'%s,"crc32":%d}\n' % (body, zlib.crc32(body))

    @classmethod
    def from_bytes(cls, data: bytes) -> Record:
        """Decode and check a record's file; `CommitError` if it is incomplete, or names a path outside the dataset."""
        tail = _TAIL.search(data, max(0, len(data) - _TAIL_NBYTES))
        body = data[: tail.start()] if tail and tail.end() == len(data) else b""
        if tail is None or zlib.crc32(body) != int(tail[1]):
            raise CommitError(
                expected="a commit record that ends in its own CRC-32", found=f"{len(data):,} bytes of none"
            )
        try:
            values = parse_json(body + b"}", most_memory=8 * MAX_RECORD_NBYTES)  # whatever a writer may write
            written = values.pop("format", 1)
            if written != RECORD_FORMAT:
                raise OtherFormatError(
                    expected=f"a commit record of the format {RECORD_FORMAT}, which this build of spark-arrow-ipc writes",
                    found=f"the format {cut_repr(written, 100)} of {_other_build(written)}",
                )
            values["tally"] = None if values["tally"] is None else Tally(*values["tally"])
            values["queries"] = tuple(Batch(*batch) for batch in values["queries"])
            values["query"] = None if values["query"] is None else Batch(*values["query"])
            values["adds"] = tuple(StagedFile(*file) for file in values["adds"])
            values["removes"] = tuple(RemovedFile(*file) for file in values["removes"])
            values["documents"] = tuple(StagedFile(*file) for file in values.get("documents", ()))
            for name in ("jobs", "tokens", "withdraws", "withdrawn"):
                values[name] = tuple(values[name])
            record = cls(**values)
            sound = _is_sound(record)
        except OtherFormatError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CommitError(f"this commit record has parts of a wrong kind: {cut_repr(error, 300)}") from error
        if not sound:
            raise CommitError("this commit record has parts of a wrong kind")
        check_names((*record.adds, *record.documents), record.removes)
        return record


def _other_build(written: object) -> str:
    return "a newer build" if type(written) is int and written > RECORD_FORMAT else "an older build"


def _with_query(queries: tuple[Batch, ...], query: Batch | None) -> tuple[Batch, ...]:
    if query is None:
        return queries
    return (*(known for known in queries if known.query != query.query), query)[-REMEMBERED:]


def _without_query(queries: tuple[Batch, ...], query: Batch) -> tuple[Batch, ...]:
    """Return the queries without a batch that is taken back: the one before it is the newest again."""
    before = (Batch(query.query, query.number - 1),) if query.number else ()
    return tuple(known for known in queries if known.query != query.query) + before


def _staged_rows(files: tuple[StagedFile, ...]) -> list[list[str | int]]:
    return [[file.staged, file.final, file.nbytes, file.rows, file.crc32] for file in files]


def _is_sound(record: Record) -> bool:
    batches = (*record.queries, *(() if record.query is None else (record.query,)))
    strings = (
        record.mode,
        record.schema,
        *(batch.query for batch in batches),
        *record.tokens,
        *(() if record.token is None else (record.token,)),
        *(string for file in record.removes for string in (file.path, file.version)),
        *(name for f in (*record.adds, *record.documents) for name in (f.staged, f.final)),
    )
    numbers = (record.seq, record.kept_until, *(b.number for b in batches))
    numbers += tuple(number for f in (*record.adds, *record.documents) for number in (f.nbytes, f.rows, f.crc32))
    states = [(file.nbytes, file.mtime_ns) for file in record.removes if file.nbytes is not None]
    ids = (record.jobid, *record.jobs, *record.withdraws, *record.withdrawn, record.chain)
    ids += (record.previous,) if record.previous != "" else ()
    return (
        all(type(string) is str for string in strings)
        and all(type(number) is int and number >= 0 for number in numbers)
        and all(type(jobid) is str and _JOBID.fullmatch(jobid) for jobid in ids)
        and all(type(nbytes) is type(mtime_ns) is int for nbytes, mtime_ns in states)
        and type(record.durable) is bool
        and (record.tally is None or record.tally.is_sound)
        and (record.token is None or record.tokens[-1:] == (record.token,))
        and (record.query is None or record.queries[-1:] == (record.query,))
        and _remembers_itself(record)
    )


def _remembers_itself(record: Record) -> bool:
    if not record.is_of_job:
        changes_nothing = not record.adds and (not record.removes or record.mode == TAKEN_BACK)
        return (
            changes_nothing
            and bool(record.withdraws)
            and record.withdrawn[-len(record.withdraws) :] == record.withdraws
        )
    return not record.withdraws and record.jobs[-1:] == (record.jobid,)
