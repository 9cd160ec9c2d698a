"""`Transaction`: the files of one job begin to count, and others cease to, at one moment or not at all.

==========  ====================================================================  =====================================
phase       what was done                                                         a crash leaves
==========  ====================================================================  =====================================
PLANNED     the table has an id; a snapshot was read; the job's mark is there     staging
NAMED       the tasks' staged files have their final names, durably               staging, files that nobody counts
COMMITTED   the entry is in the log                                               removed files that are not deleted yet
COLLECTED   removed files, staging and the mark are deleted                       nothing
ABORTED     the job is expired, and all of its files and its mark are deleted     staging, files that nobody counts
==========  ====================================================================  =====================================

Readers of this package see the old snapshot until the entry is put, and the new one from then on. Programs that list the
directory see some new files while the job is NAMED, and removed ones until it is COLLECTED. What a crash leaves is deleted
by the next vacuum (`vacuum`).

Rules, in the order in which they act
-------------------------------------
1. The id of the table is durable before a file has it in its name: a file with an id that a power loss has taken would
   count as unmanaged. The mark is there before any file of the job: vacuum deletes files of jobs only that the log or a mark
   names, as others may be copies that somebody made.
2. Between staging and naming the log is read: the table is the same, the job has not ended, and the entry after its base is
   not below the horizon. A task may have staged files after its job was expired.
3. All names are proven by a listing, and durable, before the entry is put. A copy without a reply may not have happened.
4. Conflicts are checked against the state that the entry will follow, each time that another process was faster. Unmanaged
   files that the job removes are looked at again: another program may have replaced or deleted them.
5. After the put the log is read, whatever the put replied. If the job is among the ended ones, it is committed. If it is not,
   and its number is not below the horizon, the entry fell into a hole among pruned ones, and the job tries the next number;
   the entry stays, because a job cannot tell its own void entry from one that was committed and then forgotten. Below the
   horizon, its files tell: if they count, it is committed, otherwise that is unknown. That holds for an expired job too: a
   vacuum may expire a job that was committed and then forgotten.
6. An abort expires the job before it deletes any file, unless no entry was asked for and the storage renames: there, no
   request can come late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from typing import Final

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.paths import above, join, name_of, parent
from spark_arrow_ipc.storage.storage import each
from spark_arrow_ipc.table.checks import check_no_table, words_if_older
from spark_arrow_ipc.table.collect import delete_old, fence, finish, list_collected, list_managed, list_staged, sweep
from spark_arrow_ipc.table.entry import Entry
from spark_arrow_ipc.table.files import NO_FILES, Files, StagedFile
from spark_arrow_ipc.table.log import append, follow, is_checkpoint_due, read_newer, read_state, write_checkpoint
from spark_arrow_ipc.table.log_listing import list_log
from spark_arrow_ipc.table.names import LOG_DIRECTORY, TableDirectory, new_id
from spark_arrow_ipc.table.snapshot import is_removed, open_table
from spark_arrow_ipc.table.state import State

_ATTEMPTS: Final = 3
"""Requests for one copy, proven by a listing, or for an entry that fail."""

_RACES: Final = 1000
"""Attempts to put an entry; each one lost was won by another job."""

_PRUNE_INTERVAL: Final = 64
"""Entries between two listings of the log that look for old ones."""


class Phase(Enum):
    """The phases of a transaction; see the module."""

    PLANNED = auto()
    NAMED = auto()
    COMMITTED = auto()
    COLLECTED = auto()
    ABORTED = auto()


NEXT: Final = {
    Phase.PLANNED: {Phase.NAMED, Phase.ABORTED},
    Phase.NAMED: {Phase.COMMITTED, Phase.ABORTED},
    Phase.COMMITTED: {Phase.COLLECTED},
    Phase.COLLECTED: set(),
    Phase.ABORTED: {Phase.ABORTED},
}
"""The phases that may follow each phase."""


class UnknownOutcomeError(CommitError):
    """The outcome of a job is unknown: its entry may be in the log, or may still come."""


Change = Callable[[State], Entry | None]
"""Callback that returns the entry that is to follow a state, without what the transaction knows: number, previous entry, time,
job, base and added files. None if there is nothing to commit. Raises a `ConcurrentWriteError` if the job does not fit the state."""


@dataclass(slots=True, eq=False)
class Transaction:
    """One job of a table; made by `begin`. It may be made again from its first four fields in another process.

    Parameters
    ----------
    directory, table
        The table, and its id.
    base
        The number of the entry that the job was planned on.
    job
        The id of the job.
    phase
        How far it is.
    """

    directory: TableDirectory
    table: str
    base: int
    job: str
    phase: Phase = Phase.PLANNED
    _asked: int = 0  # the number of the newest entry that this job has asked for
    _added: Files | None = None
    _newest: State | None = None  # the newest that was read

    @classmethod
    def begin(cls, directory: TableDirectory, *, base: State | None = None, job: str | None = None) -> Transaction:
        """Begin a job: make the table if there is none, and put the mark. It is planned on `base`, by default the newest state.

        Raises
        ------
        ConcurrentWriteError
            The table of `base` was removed.
        CommitError
            The log is broken, or the mark cannot be put.
        """
        table = open_table(directory)
        state = base or read_state(directory)
        if state is None or state.table != table:
            raise ConcurrentWriteError("the table was removed meanwhile; nothing is written", path=directory.root)
        job = job or new_id()
        directory.put_mark(job)
        return cls(directory, table, state.number, job)

    # ---- PLANNED -> NAMED

    def name_files(self, staged: Sequence[StagedFile], *, statistics: RecordBatch | None = None) -> Files:
        """Give the staged files their final names, and return them as an entry adds them.

        `statistics` has a row for each file, in the form of `Files`. Costs a call for each file, 64
        at once where calls wait, and a listing of each directory.

        Raises
        ------
        CommitError
            Files are missing, or the job cannot commit any more. Nothing is published; abort the job.
        """
        self._expect(Phase.PLANNED)
        storage, staging = self.directory.storage, self.directory.staging(self.job)
        storage.sync(staging)
        self._check_alive(self._read_state())
        moves = {self.directory.path(file.path): join(staging, file.staged) for file in staged}
        if len(moves) != len(staged):
            raise CommitError("two files have one name; nothing is published", path=self.directory.root)
        # With those above, to find a table in one of them; the table's own if it gets files.
        up = {up for path in moves for up in above(path) if up.startswith(self.directory.root)}
        directories = sorted(up - {self.directory.root} | {parent(path) for path in moves})
        sizes = {self.directory.path(file.path): file.nbytes for file in staged}
        lacking = list(sizes)  # no listing: names are used once
        for _ in range(_ATTEMPTS):
            each(lambda path: self._move(moves[path], path), lacking, waits=storage.traits.waits)
            lacking = self._lacking(directories, sizes)
            if not lacking:
                break
        else:
            self._check_alive(self._read_state())  # a vacuum may have expired it, and deleted the files
            raise CommitError("a staged file has no final name; nothing is published", path=lacking[0])
        # The directories themselves may be new, up to the table's own.
        for path in sorted(up):
            storage.sync(path)
        rows = [(file.path, file.nbytes, file.rows, file.crc32) for file in staged]
        self._added = Files.of(rows, statistics=statistics)
        failpoint.hit("named.all")
        self._go(Phase.NAMED)
        return self._added

    def _move(self, staged: str, path: str) -> None:
        storage = self.directory.storage
        for _ in range(_ATTEMPTS):
            storage.make_directory(parent(path))
            try:
                storage.publish(staged, path)
            except FileNotFoundError:
                # Another job has deleted the empty directory; or an earlier attempt has moved the file.
                if storage.status(staged) is None:
                    return
                continue
            except OSError:
                return  # the reply may be lost: the listing tells
            failpoint.hit("named.file")
            return

    def _lacking(self, directories: Sequence[str], sizes: dict[str, int]) -> list[str]:
        """Return the final paths that no listing has with their size."""
        listed: dict[str, int] = {}
        names = {LOG_DIRECTORY, *map(name_of, sizes)}

        def list_one(directory: str) -> None:
            with suppress(FileNotFoundError):
                statuses = self.directory.storage.list_chosen(directory, names.intersection)
                listed.update((status.path, status.nbytes) for status in statuses)

        each(list_one, directories, waits=self.directory.storage.traits.waits)
        for directory in directories:
            if directory != self.directory.root and join(directory, LOG_DIRECTORY) in listed:
                check_no_table(self.directory, directory)
        return [path for path, nbytes in sizes.items() if listed.get(path) != nbytes]

    # ---- NAMED -> COMMITTED

    def commit(self, change: Change) -> State:
        """Put the entry and return a state that has it.

        A job with nothing to commit, or whose token or batch is committed already, stays NAMED, for the caller to abort, and
        the state is returned. `change` is called with each state that the entry may follow.

        Raises
        ------
        ConcurrentWriteError
            Another job changed files that this one removes, or `change` raised it. Nothing is published; abort the job.
        CommitError
            The same, for another reason.
        UnknownOutcomeError
            It is not known whether the job is committed.
        """
        self._expect(Phase.NAMED)
        assert self._added is not None
        is_put = False
        errors: list[OSError] = []
        for _ in range(_RACES):
            state = self._read_state()
            if self._is_committed(state):
                self._go(Phase.COMMITTED)
                return state
            # A listing that is older than the entry.
            if is_put and state.number < self._asked:
                continue
            self._check_alive(state)
            # A full disk stays full.
            if len(errors) == _ATTEMPTS:
                raise self._unconfirmed(errors[-1]) from errors[-1]
            try:
                entry = self._entry_after(state, change)
            except (CommitError, OSError):
                if self._comes_late(state):
                    continue
                raise
            if entry is None:
                return state
            numbered = follow(state, entry)
            # Before the request: from here on an entry may be in the log, whatever the reply.
            self._asked = numbered.number
            failpoint.hit("committed.asked")
            try:
                if is_put := append(self.directory, state, numbered):
                    failpoint.hit("committed.put")
            except OSError as error:  # the next reading of the log tells whether it is there
                errors.append(error)
        raise (
            self._unknown("the storage has taken the log entry of the job and does not list it")
            if is_put
            else CommitError("other jobs were faster at each attempt; nothing is published", path=self.directory.root)
        )

    def _entry_after(self, state: State, change: Change) -> Entry | None:
        """Return the entry of the job that may follow a state; None if there is nothing to commit."""
        changed = change(state)
        if changed is None or state.has_committed(changed):
            if not self._asked:
                return None
            raise CommitError(
                "a job with this token was committed meanwhile; nothing is published", path=self.directory.root
            )
        closed = list_collected(self.directory, state)
        entry = replace(changed, job=self.job, base=self.base, add=self._added or NO_FILES, close=closed)
        self._check_removes(state, entry)
        return entry

    def _comes_late(self, state: State) -> bool:
        """Return whether an entry without a reply was put after all; if not, no request for it will be carried out any more."""
        if self._asked <= state.number or not self.directory.storage.traits.may_come_late:
            return False  # the number is taken
        try:
            ended = fence(self.directory, self.table, [self.job])
        except (CommitError, OSError) as error:
            raise self._unknown(f"the log entry of the job may still come ({error})") from error
        return ended is None or self._is_committed(ended)

    def _unconfirmed(self, error: OSError) -> CommitError:
        """Return the error of a job whose entry the storage does not take."""
        # A call of a disk has its effect before it returns. A request may still be carried out.
        if self.directory.storage.traits.may_come_late:
            return self._unknown(
                f"the storage does not confirm the log entry of the job ({error}), which may still come"
            )
        return CommitError(
            f"the log entry of the job cannot be put ({error}); nothing is published, fix that and write again",
            path=self.directory.root,
        )

    def _read_state(self) -> State:
        """Return the state of the log, which must still be that of this table."""
        try:
            # A commit reads the log several times, and the files of a checkpoint once.
            newest = self._newest
            state = read_newer(self.directory, newest, confirm=True) if newest else read_state(self.directory)
        except (OSError, CommitError) as error:
            if self.phase is not Phase.NAMED or not self._asked:
                raise
            raise self._unknown(f"the outcome of the job is unknown: the log cannot be read ({error})") from error
        words = "the table was removed while this job ran"
        if state is not None and state.table == self.table:
            words = words_if_older(self.directory, state, self.base)
            if not words:
                self._newest = state
                return state
        if self._asked:
            raise self._unknown(words, "whether it was committed before is unknown")
        raise CommitError(f"{words}; nothing is published", path=self.directory.root)

    def _unknown(self, why: str, then: str = "") -> UnknownOutcomeError:
        root = self.directory.root
        then = then or f"'arrowipc history {root}' shows whether the job {self.job} is committed"
        return UnknownOutcomeError(f"{why}; {then}", path=root)

    def _is_committed(self, state: State) -> bool:
        ended = state.ended.get(self.job)
        if ended is not None and ended.is_committed:
            return True
        # Before the job's end is looked at: a vacuum may expire a job that was committed and then forgotten.
        if self._asked and self._asked < state.horizon:
            if self._added is not None and len(self._added) and {*self._added.paths} <= {*state.files.paths}:
                return True
            raise self._unknown(
                f"so many other jobs ended since entry {self._asked} was put that the log no longer tells whether this job is "
                "committed",
                "look for its rows before you run it again",
            )
        return False

    def _check_alive(self, state: State) -> None:
        """Raise if the job cannot commit any more."""
        if self.job in state.ended:
            raise CommitError(
                "the job was expired, by an abort or by 'arrowipc vacuum' with a short --older-than; nothing is published, "
                "run it again",
                path=self.directory.root,
            )
        if self.base + 1 < state.horizon:
            raise CommitError(
                "so many other jobs ended since this one was planned that the log no longer tells whether it was expired; "
                "nothing is published, run it again",
                path=self.directory.root,
            )

    def _check_removes(self, state: State, entry: Entry) -> None:
        """Raise if a file that the job removes is no longer what the job has seen."""
        # Compared with the state and not with entries since the plan: these may be pruned.
        managed = {removed.path for removed in entry.remove if removed.is_managed}
        gone = managed - {*state.files.paths}
        unmanaged = [removed for removed in entry.remove if not removed.is_managed]
        # The same bytes may be there again, after an entry has closed their removal: then they were listed since.
        removals = {*state.tombstones, *(removed for removed, number in state.closed.items() if number > self.base)}
        identities = {removed.identity for removed in removals}
        gone |= {removed.path for removed in unmanaged if removed.identity in identities}
        for removed in unmanaged:
            status = self.directory.storage.status(self.directory.path(removed.path), follow_links=False)
            if status is None or not is_removed(self.directory, removed, status):
                gone.add(removed.path)
        if gone:
            raise ConcurrentWriteError(
                f"another writer changed files that this job replaces ({min(gone)}); nothing is published, write again",
                path=self.directory.root,
            )

    # ---- COMMITTED -> COLLECTED

    def collect(self) -> None:
        """Delete what the job removed and staged, and keep the log short. After an error, vacuum does what is left."""
        self._expect(Phase.COMMITTED)
        state = self._read_state()
        if not finish(self.directory, state, [self.job]):
            return
        listing = list_log(self.directory, state.table, newest_only=True)
        # The job that makes it due writes it; if it dies, the next one does.
        if is_checkpoint_due(listing):
            write_checkpoint(self.directory, state)
        if state.number % _PRUNE_INTERVAL == 0:
            delete_old(self.directory, state)
        self._go(Phase.COLLECTED)

    # ---- -> ABORTED

    def abort(self, *, may_be_committed: bool = False) -> bool:
        """Make sure that the job cannot commit, and delete its files; return False if it is committed.

        Parameters
        ----------
        may_be_committed
            True if another process may have asked for the job's entry.

        Raises
        ------
        UnknownOutcomeError
            It is not known whether the job is committed.
        """
        if self.phase in {Phase.COMMITTED, Phase.COLLECTED}:
            return False
        storage = self.directory.storage
        may_be_committed = may_be_committed or bool(self._asked)
        # Without its staged files the job cannot commit, and one that is committed has none: so a full disk has room again
        # for the entry. Where files are copied, they stay until the job has ended.
        if storage.traits.renames:
            with suppress(OSError):
                storage.delete_all([*list_staged(self.directory, [self.job])])
        if may_be_committed or storage.traits.may_come_late:
            state = fence(self.directory, self.table, [self.job])
            if state is None and may_be_committed:
                raise self._unknown("the table was removed", "whether the job was committed is unknown")
            ended = None if state is None else state.ended.get(self.job)
            if ended is not None and ended.is_committed:
                self.phase = Phase.COMMITTED
                return False
            newest = self._asked or self.base + 1
            if state is not None and may_be_committed and newest < state.horizon:
                raise self._unknown("the log no longer tells whether the job is committed", "look for its rows")
        sweep(self.directory, [self.job], partial(list_managed, self.directory, self.table, ()))
        self._go(Phase.ABORTED)
        return True

    # ---- phases

    def _expect(self, phase: Phase) -> None:
        assert self.phase is phase, f"{self.phase} instead of {phase}"

    def _go(self, phase: Phase) -> None:
        assert phase in NEXT[self.phase], f"{phase} after {self.phase}"
        self.phase = phase
