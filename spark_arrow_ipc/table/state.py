"""`State`: what the entries up to a number add up to; a checkpoint stores one.

A state is a function of entries only: it uses no clock and no listing, so all processes that read the same entries have
the same state, and make the same checkpoint.

Rules
-----
**Ended jobs.** A job has ended once an entry commits or expires it. An entry of a job that has ended is void: it changes
nothing but the number. The state remembers the newest `REMEMBERED` ended jobs, and in `horizon` the number from which on
that list is complete. A job that was planned before the entry below the horizon cannot tell whether it has ended, and gives up.

**Tombstones.** A removed file has a tombstone until an entry closes it, after somebody has seen that the file is gone: an
entry of its own for files of other programs, and the entry of a later job for managed ones.
Readers hide unmanaged files that have one, also for those that were closed while they listed: these stay in
the state until the horizon has passed them.

**Tokens and queries follow the files.** When an older entry is restored, the tokens of later jobs are forgotten: their
rows are gone, and the jobs may run again. Ended job ids stay: such a job has used its names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from spark_arrow_ipc.table.entry import Batch, Entry, Operation, Removed
from spark_arrow_ipc.table.files import NO_FILES, Files, concat_files
from spark_arrow_ipc.table.names import managed_name

REMEMBERED: Final = 1000
"""Ended jobs, tokens and queries in a state."""


class Ended(NamedTuple):
    """The end of a job: at which entry, and whether that committed or expired it."""

    number: int
    is_committed: bool


class Tombstone(NamedTuple):
    """The removal of a file: by which entry, and whether it is retained in ``_ipc_replaced``."""

    number: int
    retain: bool


class QueryBatch(NamedTuple):
    """The newest batch of a streaming query, and the entry that committed it."""

    batch: int
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """The table after an entry.

    Parameters
    ----------
    table
        The table's id.
    number, entry
        Number and id of the newest entry; 0 and empty before the first one.
    time
        The time of that entry, milliseconds since 1970.
    files
        The managed files that count.
    schema
        Encoded schema of a plain read; empty if no entry had one: then the newest file has it.
    partition_columns
        Columns in the names of directories.
    retention
        Seconds that entries and removed files are retained; None for the default.
    ended
        The newest ended jobs.
    horizon
        The number of the first entry whose job is in `ended` for certain.
    last_removal
        The number of the newest entry that removed files or replaced all of them.
    tokens
        The newest commit tokens, and the entry of each.
    queries
        The newest batch of each streaming query.
    tombstones, closed
        Removed files that may still be in the table, and unmanaged ones whose removal an entry has closed, with its number.
    former
        Ids that the table had before.
    layout
        The layout of the table, of which JSON files name the files that count (`hugging_face.LAYOUT`); empty for none.
    """

    table: str
    number: int = 0
    entry: str = ""
    time: int = 0
    files: Files = NO_FILES
    schema: str = ""
    partition_columns: tuple[str, ...] = ()
    retention: int | None = None
    ended: dict[str, Ended] = field(default_factory=dict)
    horizon: int = 1
    last_removal: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    queries: dict[str, QueryBatch] = field(default_factory=dict)
    tombstones: dict[Removed, Tombstone] = field(default_factory=dict)
    closed: dict[Removed, int] = field(default_factory=dict)
    former: tuple[str, ...] = ()
    layout: str = ""

    @property
    def has_jobs(self) -> bool:
        """True if a job is known to be committed; a directory in which all jobs expired is not a table."""
        # A job that only changes settings is in `ended`, and one that was forgotten there has raised the horizon.
        return bool(
            len(self.files)
            or self.last_removal
            or self.horizon > 1
            or any(end.is_committed for end in self.ended.values())
        )

    def is_managed(self, path: str) -> bool:
        """Return whether a file has an id of this table in its name: it counts only if `files` has it."""
        name = managed_name(path)
        return name is not None and (name.table == self.table or name.table in self.former)

    def after(self, *entries: Entry) -> State:
        """Return the state after entries that follow this one. O(files) for all of them together."""
        replay = Replay(self)
        for entry in entries:
            replay.apply(entry)
        return replay.state()

    def has_committed(self, entry: Entry) -> bool:
        """Return whether the job of an entry, its token or its batch is committed."""
        ended = self.ended.get(entry.job)
        return (
            (ended is not None and ended.is_committed)
            or (entry.token is not None and entry.token in self.tokens)
            or (entry.batch is not None and self.has_batch(entry.batch))
        )

    def has_batch(self, batch: Batch) -> bool:
        """Return whether a batch of a query is committed: a query commits its batches in order."""
        newest = self.queries.get(batch.query)
        return newest is not None and batch.number <= newest.batch


class Replay:
    """Applies entries to a state. Files are joined once, at the end: a replay of 32 entries costs one copy of them."""

    def __init__(self, state: State) -> None:
        self.table = state.table
        self.number, self.entry, self.time = state.number, state.entry, state.time
        self._schema, self._partition_columns = state.schema, state.partition_columns
        self._retention = state.retention
        self._ended, self._horizon = dict(state.ended), state.horizon
        self._last_removal = state.last_removal
        self._tokens, self._queries = dict(state.tokens), dict(state.queries)
        self._tombstones, self._closed = dict(state.tombstones), dict(state.closed)
        self._former = state.former
        self._layout = state.layout
        self._parts = [state.files]
        self._removed: set[str] = set()

    def apply(self, entry: Entry) -> bool:
        """Apply the next entry, and return whether it counts: False if it is void."""
        self.number, self.entry, self.time = entry.number, entry.id, entry.time
        # An entry of a job that has ended is void; its number is used all the same.
        is_void = entry.operation.is_of_job and entry.job in self._ended
        if not is_void:
            self._apply(entry)
        self._forget()
        return not is_void

    def _apply(self, entry: Entry) -> None:
        for job in entry.expire:
            # A job that committed before stays committed: the fence came too late.
            self._ended.setdefault(job, Ended(entry.number, is_committed=False))
        for removed in entry.close:
            # Two jobs may close the same tombstones. A managed file is hidden by its name.
            if self._tombstones.pop(removed, None) is not None and not removed.is_managed:
                self._closed[removed] = entry.number
        if entry.operation.is_of_job:
            self._commit(entry)

    def _commit(self, entry: Entry) -> None:
        self._ended[entry.job] = Ended(entry.number, is_committed=True)
        for removed in entry.remove:
            self._tombstones[removed] = Tombstone(entry.number, entry.retain)
            # The same bytes were written again and are removed again.
            self._closed.pop(removed, None)
        self._removed.update(removed.path for removed in entry.remove if removed.is_managed)
        self._parts.append(entry.add)
        if entry.remove or entry.operation is Operation.OVERWRITE:
            self._last_removal = entry.number
        if entry.restores is not None:
            # By the number of the entry: the state does not know which rows a token stands for.
            self._tokens = {token: n for token, n in self._tokens.items() if n <= entry.restores}
            # The state has only the newest batch of a query; the entry has the one that was the newest then.
            self._queries = {}
        self._queries |= {query: QueryBatch(batch, number) for query, batch, number in entry.queries}
        self._tokens |= dict.fromkeys(entry.tokens, entry.number)
        if entry.token is not None:
            self._tokens[entry.token] = entry.number
        if entry.batch is not None:
            self._queries[entry.batch.query] = QueryBatch(entry.batch.number, entry.number)
        # Most appends leave both as they are, and name neither.
        self._schema = entry.schema or self._schema
        if entry.partition_columns is not None:
            self._partition_columns = entry.partition_columns
        if entry.retention is not None:
            self._retention = entry.retention
        if entry.layout is not None:
            self._layout = entry.layout
        self._former = tuple(dict.fromkeys((*self._former, *entry.former)))

    def _forget(self) -> None:
        """Keep the newest `REMEMBERED` of what is remembered, by the numbers of entries."""
        # Dicts are in the order of entries, but for a repeated token or query: the least number goes first.
        while len(self._ended) > REMEMBERED:
            job = min(self._ended, key=lambda job: self._ended[job].number)
            self._horizon = max(self._horizon, self._ended.pop(job).number + 1)
        while len(self._tokens) > REMEMBERED:
            del self._tokens[min(self._tokens, key=self._tokens.__getitem__)]
        while len(self._queries) > REMEMBERED:
            del self._queries[min(self._queries, key=lambda query: self._queries[query].number)]
        # A reader whose first state is older than the horizon begins again, so that it needs none of these.
        if self._closed:
            self._closed = {removed: n for removed, n in self._closed.items() if n >= self._horizon}

    def state(self) -> State:
        """Return the state after the applied entries."""
        files = concat_files(self._parts)
        # Once for all entries: a set lookup for each file.
        if self._removed:
            files = files.select(np.array([path not in self._removed for path in files.paths], np.bool_))
        return State(
            self.table,
            self.number,
            self.entry,
            self.time,
            files,
            self._schema,
            self._partition_columns,
            self._retention,
            self._ended,
            self._horizon,
            self._last_removal,
            self._tokens,
            self._queries,
            self._tombstones,
            self._closed,
            self._former,
            self._layout,
        )
