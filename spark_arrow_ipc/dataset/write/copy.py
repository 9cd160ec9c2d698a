"""Copy one state of a dataset to another place, while jobs run.

The state is that of one record of the source. Its files are staged in the target as tasks stage theirs, read back and
compared, and published by one record (`commit`): readers of the target see nothing before it, and everything after it.

The chain of the target goes on where that of the source stood: before the commit it gets the record of the state and the
kept records, as they are. The record of the copy (`COPIED`) follows, remembers the same jobs, tokens and queries, and gives
the chain a new id. So a token that is committed in the source is so in the copy, and a stream that has read the source up to
this state goes on in the copy; but a later job of one of the two is never taken for a part of the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    STAGED_SUFFIX,
    DatasetDirectory,
    NameKind,
    StagedFile,
    check_names,
    has_own_name,
    parse_name,
)
from spark_arrow_ipc.dataset.commit_log.log import is_applied, newest_record, read_head
from spark_arrow_ipc.dataset.commit_log.record import COPIED, MAX_RECORD_NBYTES, Record
from spark_arrow_ipc.dataset.commit_log.stored_record import (
    DEFAULT_SECONDS,
    is_there,
    kept_bytes,
    log_directory,
    read_record,
    read_retention,
    record_path,
)
from spark_arrow_ipc.dataset.listing.data_file import DataFile, newest_first
from spark_arrow_ipc.dataset.listing.directory import count_noun
from spark_arrow_ipc.dataset.listing.globs import escape
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write import IfExists, WriteMode
from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.copied_files import (
    IS_BOTH,
    CopiedFiles,
    Copy,
    FileKey,
    check_carried,
    check_no_copy,
    mark_copy,
    read_notes,
)
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent, JobPlan, check_is_no_file, plan_job
from spark_arrow_ipc.dataset.write.nested import check_alone
from spark_arrow_ipc.dataset.write.publisher import publisher_of
from spark_arrow_ipc.dataset.write.roll_forward import delete_staging, latest
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.errors import (
    CommitError,
    ConcurrentWriteError,
    NoFilesError,
    OptionError,
    cut_repr,
    error_context,
    join_texts,
)
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.paths import SEPARATOR, above, join, name_of, parent, relative
from spark_arrow_ipc.storage.storage import Storage, each

_ATTEMPTS: Final = 50
"""The number of times that a copy begins again with a newer state."""

_SHORT_NBYTES: Final = 140
"""Every storage takes names of up to this many bytes: most disks take 255, and one that encrypts names takes 143."""

_JOBID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class CopyReport:
    """A copy that is whole."""

    source: str
    target: str
    record: int  # number of the source's record whose state was copied; 0 if it has no records
    # Of the copy.
    files: int
    nbytes: int
    reused: int = 0  # files that an earlier run had copied


@dataclass(frozen=True, slots=True)
class _State:
    """The state of a dataset at one of its records (None if it has none); the newest file comes last."""

    record: Record | None
    files: tuple[DataFile, ...]


def copy_dataset(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    storage: Storage,
    target_storage: Storage,
    copied: Callable[[], None] = lambda: None,
) -> CopyReport:
    """Copy the newest state of a dataset, with its records, into a directory that is not there yet.

    After a kill a second call goes on with what is staged, and if the record of the copy is there, finishes it.
    """
    original = DatasetDirectory.at(source, storage)
    root = target_storage.resolve(target)
    original.check()
    _check_apart(storage, original.root, target_storage, root)
    check_is_no_file(target_storage, root)
    check_no_copy(original, read_head(original))  # its records speak of rows that are elsewhere
    copy = DatasetDirectory(target_storage, root)
    finished = _finished(original, copy)
    if finished is not None:
        return finished
    _check_target(original, copy)
    newest = _state(original, copy)  # before anything is made
    plan, noted = _planned(original.root, copy, target_storage)
    files = CopiedFiles(plan.staging, original.root, noted, copied)
    state = _staged(original, copy, files, newest)
    check_alone(copy)  # before it gets records
    _carry_over(original, copy, state.record)
    intent = replace(plan.intent, copies="" if state.record is None else state.record.jobid)
    if read_head(copy).keeps:
        seconds = read_retention(original)
        intent = replace(intent, commit_retention=DEFAULT_SECONDS if seconds is None else seconds)
    failpoint.hit("K3.carried")
    adds = tuple(files.as_staged(file) for file in state.files)
    commit(replace(plan, intent=intent), [TaskOutput(plan.staging.jobid, adds)], write_empty=None)
    seq = 0 if state.record is None else state.record.seq
    return CopyReport(original.root, root, seq, len(adds), sum(add.nbytes for add in adds), files.reused)


def _check_apart(storage: Storage, source: str, target_storage: Storage, target: str) -> None:
    """Raise if a copy would lie in what it is of, or the other way round."""
    if type(storage) is not type(target_storage) or storage != target_storage:
        return
    one, other = (f"{storage.unique_path(path)}/" for path in (source, target))
    if one.startswith(other) or other.startswith(one):
        raise OptionError("the source and the target are one directory, or one is inside of the other", path=target)


# The target


def _finished(source: DatasetDirectory, target: DatasetDirectory) -> CopyReport | None:
    """Finish a copy that was committed already; None if there is none, `CommitError` if the source has changed since."""
    head, record = newest_record(target)
    if record is None or record.mode != COPIED:
        return None
    if head.done:
        newest = newest_record(source)[1]
        if newest is None or newest.jobid != record.previous:
            raise CommitError(
                f"this is a whole copy of a dataset, of the state of its record {record.seq - 1}, and the source is not in "
                "that state; give a directory that is not there yet, or remove this one",
                path=target.root,
            )
    latest(target)
    nbytes = sum(add.nbytes for add in record.adds)
    return CopyReport(source.root, target.root, record.seq - 1, len(record.adds), nbytes, len(record.adds))


def _check_target(source: DatasetDirectory, target: DatasetDirectory) -> None:
    """Raise a `CommitError` if the target holds files, or records of another dataset."""
    if target.storage.status(target.root) is None:
        return
    target.check()
    files = list_tree([escape(target.root)], storage=target.storage.inside(None)).all_files()
    if files:
        names = join_texts([relative(file.path, target.root) for file in files])
        raise CommitError(
            f"the target holds {count_noun(len(files), 'file')} ({names}), and a copy replaces nothing; give a directory that is "
            "not there yet, or remove this one",
            path=target.root,
        )
    newest, original = newest_record(target)[1], newest_record(source)[1]
    if newest is None or not newest.is_of_job or (original is not None and newest.chain == original.chain):
        return
    raise CommitError(
        "the target has commit records of another dataset; give a directory that is not there yet, or remove this one",
        path=target.root,
    )


def _planned(source: str, target: DatasetDirectory, storage: Storage) -> tuple[JobPlan, dict[FileKey, Copy] | None]:
    """Plan the job of a copy, or go on with that of an earlier run; return what that one has noted, too."""
    plan = plan_job(target.root, CommitIntent(WriteMode.APPEND, if_exists=IfExists.ERROR, copies=""), storage=storage)
    newest = newest_record(target)[1]
    ended = frozenset(() if newest is None else (*newest.jobs, *newest.withdrawn))
    for jobid in sorted(name_of(status.path) for status in target.storage.list(target.all_staging)):
        if jobid == plan.staging.jobid or not _JOBID.fullmatch(jobid) or jobid in ended:
            continue
        staging = replace(plan.staging, jobid=jobid)
        noted = read_notes(staging, source)
        if noted is not None:
            delete_staging(target, [plan.staging.jobid])
            return replace(plan, staging=staging), noted
    return plan, None


def _carry_over(source: DatasetDirectory, target: DatasetDirectory, record: Record | None) -> None:
    """Give the target the record whose state is copied, as one that is done, and the kept records up to it.

    `CommitError` if the target has other records by now.
    """
    if record is None:
        return
    storage = target.storage
    head = read_head(target)
    if head.seq > record.seq or (head.seq == record.seq and not is_there(target, record)):
        raise CommitError(
            f"the target has commit records up to number {head.seq}, and record {record.seq} of another job is copied; give "
            "a directory that is not there yet, or remove this one",
            path=target.root,
        )
    mark_copy(target, source.root, record)
    try:
        _check_target(source, target)  # a job may have written there meanwhile; from here on none does
    except CommitError:
        storage.delete(target.copy_mark)
        raise
    if read_head(source).keeps:
        _carry_kept(source, target, record)
    # The mark first: without its record it is ignored, and a record without its mark would be a pending job.
    storage.put(target.done_mark(record.seq), record.to_bytes(), durable=True)
    storage.put_if_absent(target.record(record.seq), record.to_bytes(), durable=True)
    check_carried(target, record)
    storage.sync(target.commits)
    storage.sync(target.root)


def _carry_kept(source: DatasetDirectory, target: DatasetDirectory, record: Record) -> None:
    """Copy the kept records up to a record, which is kept too, without a gap."""
    numbers = sorted(seq for seq in _kept_numbers(source) if seq < record.seq)
    storage = target.storage
    storage.make_directory(log_directory(target))
    gone: list[int] = []

    def carry(seq: int) -> None:
        try:
            data = source.storage.read(record_path(source, seq), MAX_RECORD_NBYTES)
        except FileNotFoundError:  # it is not kept any more, nor are those before it
            gone.append(seq)
        else:
            storage.put(record_path(target, seq), data, durable=True)

    each(carry, numbers, waits=source.storage.traits.waits or storage.traits.waits)
    storage.put(record_path(target, record.seq), kept_bytes(record), durable=True)
    wanted = {*(seq for seq in numbers if seq > max(gone, default=0)), record.seq}
    storage.delete_all([record_path(target, seq) for seq in _kept_numbers(target) if seq not in wanted])
    storage.sync(log_directory(target))


def _kept_numbers(dataset: DatasetDirectory) -> list[int]:
    parsed = (parse_name(name_of(status.path)) for status in dataset.storage.list(log_directory(dataset)))
    return [name[0] for name in parsed if name is not None and name[1] is NameKind.RECORD]


# The source


def _staged(source: DatasetDirectory, target: DatasetDirectory, files: CopiedFiles, state: _State | None) -> _State:
    """Stage the files of a state, or of a newer one, and return it."""
    # Where a later job replaced a file before it was copied, the copy begins again, and keeps the files that it has.
    changed = ""
    for _ in range(_ATTEMPTS):
        if state is not None:
            failpoint.hit("K1.listed")
            if files.stage(source.storage.inside(None), state.files):
                return state
            changed = files.gone
        state = _state(source, target)
    advice = "Let the jobs that overwrite keep what they replace (keepReplaced=1h), or copy while none runs"
    if changed and not has_own_name(changed):
        advice = f"It is a file of another program: copy while that does not write. {advice}"
    last = (
        f", the last time by {relative(changed, source.root)}, which was replaced, removed or written to"
        if changed
        else ""
    )
    raise ConcurrentWriteError(
        f"the source changed before it was copied, in each of {_ATTEMPTS} attempts{last}; what is copied stays for the next "
        f"run. {advice}",
        path=source.root,
    )


def _state(source: DatasetDirectory, target: DatasetDirectory) -> _State | None:
    """Return the newest state, whose files can be published in the target; None if its record is gone by now."""
    root = source.root
    tree = list_tree([escape(root)], storage=source.storage.inside(None))
    seq = tree.heads[root].seq if root in tree.heads else 0
    files = tuple(reversed(list(newest_first(tree.all_files()))))
    if not seq and not files:
        raise NoFilesError("there is nothing to copy: neither files nor commit records", path=root)
    _check_files(target, files, root)
    record = _record_of(source, seq) if seq else None
    if record is not None and record.documents and not is_applied(source, record):
        raise ConcurrentWriteError(
            f"the job {record.jobid} is not in place yet, and replaces files that other programs read; copy when it is, or run "
            f"'arrowipc vacuum {root}' before",
            path=root,
        )
    return None if seq and record is None else _State(record, files)


def _record_of(source: DatasetDirectory, seq: int) -> Record | None:
    """Return the record of a number, if it is in the chain still."""
    newest = newest_record(source)[1]
    if newest is None or newest.seq == seq:
        return newest
    try:
        record = read_record(source, seq)
    except FileNotFoundError:
        return None
    # A late writer may have put another record where one was pruned.
    is_in = record.jobid in newest.jobs if record.is_of_job else {*record.withdraws} <= {*newest.withdrawn}
    return record if is_in and record.chain == newest.chain else None


def _check_files(target: DatasetDirectory, files: Sequence[DataFile], root: str) -> None:
    """Raise before anything is copied if a file can never be published in the target."""
    finals = [(relative(file.path, root), file.nbytes) for file in files]
    directories = {
        directory for final in {parent(final) for final, _ in finals} for directory in (final, *above(final))
    }
    for final, _ in finals:
        if final in directories:
            raise CommitError(f"{IS_BOTH}; nothing is copied", path=join(root, final))
    with error_context(path=target.root):
        check_names(StagedFile(f"0{STAGED_SUFFIX}", final, nbytes, 0, 0) for final, nbytes in finals)
    publisher_of(target).check(finals)
    _check_lengths(target, {part for final, _ in finals for part in final.split(SEPARATOR)})


def _check_lengths(target: DatasetDirectory, names: Collection[str]) -> None:
    """Raise if a name is longer than the storage takes, which is asked for the long ones."""
    long = sorted(name for name in names if len(os.fsencode(name)) > _SHORT_NBYTES)
    if not long:
        return
    storage, place = target.storage.inside(None), target.root
    while storage.status(place) is None and parent(place) != place:
        place = parent(place)
    for name in long:
        try:
            storage.status(join(place, name), follow_links=False)
        except OSError as error:
            raise CommitError(
                f"the name {cut_repr(name, 300)} of {len(os.fsencode(name))} bytes is too long here; nothing is copied",
                path=target.root,
            ) from error
