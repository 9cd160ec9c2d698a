"""Compare a dataset's records with its files, say what is wrong and what mends it, and mend what can be without a loss.

`fsck` only looks (`inventory`). Each finding is one fault, with its place and the command that mends it; a note
is only good to know.

`repair` brings the pending job to its end, as each writer does, writes a damaged record from its copy, and hides from
readers what, as records prove, is not in the newest state: files that a record removed, or without which the tally of the
newest record is exact; files of another name whose bytes are those of one of ours; and records that no other names.
`go_back` makes an older state the newest one, if the directory holds that one whole. Neither deletes what it takes out: it
goes to the same path below ``_ipc_aside``, which no reader sees, and from where a person can put it back.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from shlex import quote
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    COMMITS_DIRECTORY,
    NO_FILES,
    STAGED_SUFFIX,
    DatasetDirectory,
    has_any,
    has_own_name,
    parse_name,
)
from spark_arrow_ipc.dataset.commit_log.log import read_head
from spark_arrow_ipc.dataset.commit_log.record import MAX_RECORD_NBYTES
from spark_arrow_ipc.dataset.commit_log.stored_record import log_directory
from spark_arrow_ipc.dataset.listing.directory import count_noun
from spark_arrow_ipc.dataset.write.copied_files import begun_sources
from spark_arrow_ipc.dataset.write.hugging_face_layout import DOCUMENTS
from spark_arrow_ipc.dataset.write.inventory import Inventory, State, are_same, states, take_inventory
from spark_arrow_ipc.dataset.write.nested import dataset_above
from spark_arrow_ipc.dataset.write.publisher import publisher_of
from spark_arrow_ipc.dataset.write.roll_forward import latest
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, LimitError, UnsupportedError, join_texts
from spark_arrow_ipc.storage.paths import join, name_of, parent, relative
from spark_arrow_ipc.storage.storage import Storage

ASIDE_DIRECTORY: Final = "_ipc_aside"
"""Directory inside a dataset that holds what was taken out of it; nothing removes it."""

_COPY_OF: Final = re.compile(r"part-[0-9]{5,}-[0-9a-f]{32}")
"""In the name of a copy that a file manager, or a person, has made of one of our files."""

_MOMENT_SECONDS: Final = 600
"""A job is put in place in less, if its process lives."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, or with ``is_note`` something that is good to know."""

    path: str  # of a file or directory
    what: str  # what is wrong with it
    mend: str = ""  # a command that mends it, or what else to do; empty if there is nothing to do
    is_note: bool = False


@dataclass(frozen=True, slots=True)
class FsckReport:
    """The findings in a directory, and the files that readers see."""

    path: str
    record: int  # number of its newest record; 0 if it has none
    files: int
    nbytes: int
    # Whether the files are the state of the newest record, and nothing else; None if that cannot be known.
    is_whole: bool | None
    findings: tuple[Finding, ...]  # faults first
    done: tuple[Finding, ...] = ()  # what was mended

    @property
    def is_sound(self) -> bool:
        """True if there are no faults."""
        return all(finding.is_note for finding in self.findings)


def fsck(path: str, storage: Storage) -> FsckReport:
    """Look at a dataset's directory, and change nothing."""
    return _report(take_inventory(DatasetDirectory.at(path, storage)))


def repair(path: str, storage: Storage) -> FsckReport:
    """Mend what can be mended without losing anything, and return the report after that."""
    dataset = DatasetDirectory.at(path, storage)
    done: list[Finding] = []
    inventory = take_inventory(dataset)
    if inventory.is_pending and not inventory.missing():
        with suppress(CommitError, OSError):  # the report says what stops it
            latest(dataset)
            done.append(Finding(_record_path(inventory), "the job is brought to its end"))
            inventory = take_inventory(dataset)
    done += [_written_again(inventory, name) for name in _spoilt(inventory)]
    others = [*_proven(inventory), *(path for path, _ in _copies(inventory))]
    records = _paths_of(dataset, lambda number: number in inventory.strays)
    done += _set_aside(dataset, [*dict.fromkeys(others), *records])
    return replace(_report(take_inventory(dataset)), done=tuple(done))


def go_back(path: str, record: int, storage: Storage) -> FsckReport:
    """Make the state of an older record the newest one, while no job runs. May be called again at any time.

    `CommitError` if the directory does not hold that state whole; nothing is changed.
    """
    dataset = DatasetDirectory.at(path, storage)
    inventory = take_inventory(dataset)
    whole = {state.record.seq: state for state in states(inventory)}
    if record not in whole:
        known = f"; those that it holds: {', '.join(map(str, whole))}" if whole else ""
        raise CommitError(f"the directory does not hold the state of record {record} whole{known}", path=dataset.root)
    if read_head(dataset).seq != inventory.head.seq:
        raise ConcurrentWriteError("a job was committed meanwhile; nothing is changed", path=dataset.root)
    done = _set_aside(dataset, whole[record].others)
    if record != inventory.head.seq:  # its state is there: it is not to be applied once more, where its mark was lost
        dataset.storage.put(dataset.done_mark(record), whole[record].record.to_bytes(), durable=True)
    done += _set_aside(dataset, _paths_of(dataset, lambda number: number > record))
    latest(dataset)
    return replace(_report(take_inventory(dataset)), done=tuple(done))


# What is found


def _report(inventory: Inventory) -> FsckReport:
    root = inventory.dataset.root
    is_whole = _is_whole(inventory)
    all_findings = [*_of_state(inventory, is_whole), *_of_chain(inventory), *_of_names(inventory), *_of_jobs(inventory)]
    findings = [replace(finding, path=join(root, finding.path)) for finding in all_findings]
    seen = {**inventory.staged, **{path: status.nbytes for path, status in inventory.files.items()}}
    due = inventory.due()
    seen = {path: nbytes for path, nbytes in seen.items() if path not in due}
    faults_first = sorted(findings, key=lambda finding: finding.is_note)
    return FsckReport(root, inventory.head.seq, len(seen), sum(seen.values()), is_whole, tuple(faults_first))


def _is_whole(inventory: Inventory) -> bool | None:
    """Return whether what readers see is the state of the newest record; None if it cannot be known."""
    record = inventory.record
    if record is None or record.tally is None:
        return None
    due = inventory.due()
    return NO_FILES.changed(file for file in inventory.own.items() if file[0] not in due) == record.tally


def _command(inventory: Inventory, command: str) -> str:
    return f"arrowipc {command} {quote(inventory.dataset.root)}"


def _of_state(inventory: Inventory, is_whole: bool | None) -> Iterator[Finding]:
    """Yield whether there is one state, and if not, which of them can be had."""
    begun = _begun_copies(inventory)
    yield from begun
    if begun and inventory.head.seq:
        return
    missing, removed, mend = inventory.missing(), inventory.removed(), _way_back(inventory)
    for path, nbytes in sorted(missing.items()):
        words = "is gone" if nbytes is None else f"has {nbytes:,} bytes, and had others when it was committed"
        yield Finding(path, f"a committed file {words}", mend or _restore(inventory))
    for path in sorted(_proven(inventory) & removed):
        words = "a record has removed this file, and it is there: readers see its rows"
        yield Finding(path, words, _command(inventory, "fsck --repair"))
    record = inventory.record
    if (
        not inventory.head.seq
        and inventory.own
        and inventory.dataset.storage.status(inventory.dataset.commits) is not None
    ):
        words = (
            f"{count_noun(len(inventory.own), 'file')} of our names lie here, and none of the records by which they were committed: "
            "which of them belong together is not known"
        )
        mend = f"{_restore(inventory)}; where these files are all that should be here, remove {COMMITS_DIRECTORY}"
        yield Finding(COMMITS_DIRECTORY, words, mend)
    if is_whole or record is None:
        return
    if is_whole is None:
        words = (
            f"{count_noun(len(inventory.own), 'file')} of our names lie here, and whether these are all is not known: some are "
            "older than the chain. An overwrite of all of them begins to count"
        )
        yield Finding("", words, is_note=True)
        return
    state = next(states(inventory), None)
    if not mend or state is not None:
        yield _mixed(inventory, state)


def _begun_copies(inventory: Inventory) -> list[Finding]:
    """Return that `arrowipc copy` has not ended here: the records are those of the source, and the files have no names yet."""
    dataset, record = inventory.dataset, inventory.record
    if inventory.files or inventory.is_pending:
        return []
    words = "a copy of {} was begun here, and is not whole yet; readers see none of it"
    first = "" if record is None or record.is_of_job else "remove this directory; then: "  # its job is withdrawn
    return [
        Finding(
            "",
            words.format(source),
            f"{first}arrowipc copy {quote(source)} {quote(dataset.root)}",
            is_note=not inventory.head.seq,
        )
        for source in begun_sources(dataset, inventory.head, record)
    ]


def _way_back(inventory: Inventory) -> str:
    """Return the command that gives up the pending job, where that leaves the state before it whole; else nothing."""
    command = inventory.way_back()
    first = "if no process works on this directory: " if "--older-than" in command else ""
    return f"{first}{_command(inventory, command)}" if command else ""


def _mixed(inventory: Inventory, state: State | None) -> Finding:
    """Return the fault of a directory that is not the state of its newest record."""
    newest = inventory.chain[0]
    tally = NO_FILES.changed(inventory.own.items())
    assert newest.tally is not None, "it differs"
    words = (
        f"this is not the state of its newest record ({newest.seq}), which has {count_noun(newest.tally.files, 'file')} of "
        f"{newest.tally.nbytes:,} bytes, and here are {count_noun(tally.files, 'file')} of {tally.nbytes:,}"
    )
    if state is None:
        return Finding("", f"{words}; nor is it that of another record, whatever is left out", _restore(inventory))
    others = (
        f"without {count_noun(len(state.others), 'file')} ({join_texts(state.others)})" if state.others else "as it is"
    )
    if state.record is newest:
        return Finding("", f"{words}; {others} it is", _command(inventory, "fsck --repair"))
    words += f"; {others} it is the state of record {state.record.seq}: it was copied while jobs ran"
    return Finding("", words, _command(inventory, f"fsck --back-to {state.record.seq}"))


def _restore(inventory: Inventory) -> str:
    root = quote(inventory.dataset.root)
    return (
        f"it cannot be mended from here: if this is a copy, remove it and make it by 'arrowipc copy SOURCE {root}'; if not, "
        "put the files back from a copy"
    )


def _of_chain(inventory: Inventory) -> Iterator[Finding]:
    """Yield what is wrong with the records and marks."""
    record = inventory.record
    if inventory.damaged:
        whole = next(states(inventory), None)
        mend = "restore it from a copy" if whole is None else _command(inventory, f"fsck --back-to {whole.record.seq}")
        yield Finding(_record_path(inventory), inventory.damaged, mend)
    for path in _spoilt(inventory):
        words = "this is damaged, and its second copy stands for it: if that is lost, too, nobody knows which jobs are committed"
        yield Finding(path, words, _command(inventory, "fsck --repair"))
    for seq in inventory.strays:
        path = relative(inventory.dataset.record(seq), inventory.dataset.root)
        words = "this record is of another chain: datasets were copied over each other, or the directory was made anew"
        yield Finding(path, words, _command(inventory, "fsck --repair"))
    if inventory.is_pending and record is not None:
        status = inventory.dataset.storage.status(inventory.dataset.record(record.seq))
        age = 0 if status is None else max(0, int(time.time() - status.mtime_ns / 1e9))
        placed = sum(add.final in inventory.files for add in record.adds)
        words = (
            f"the job {record.jobid} is committed, and {placed} of {count_noun(len(record.adds), 'new file')} have their names, "
            f"since {age} s"
        )
        is_whole = not inventory.missing()
        is_young = is_whole and age < _MOMENT_SECONDS
        mend = _command(inventory, "vacuum") if is_whole else _way_back(inventory)
        yield Finding(_record_path(inventory), words, mend, is_note=is_young)


def _record_path(inventory: Inventory) -> str:
    return relative(inventory.dataset.record(inventory.head.seq), inventory.dataset.root)


def _of_names(inventory: Inventory) -> Iterator[Finding]:
    """Yield what is wrong with names: doubled, of other programs, and what has no place in a dataset."""
    repair_it = _command(inventory, "fsck --repair")
    proven = _proven(inventory)
    for name, paths in sorted(inventory.doubled().items()):
        mend = repair_it if proven.intersection(paths) else "find out which is in its place, and remove the other"
        yield Finding(paths[0], f"the file {name} is there twice: {', '.join(paths)}", mend)
    copies = dict(_copies(inventory))
    for path, original in copies.items():
        yield Finding(path, f"these are the bytes of {original}: readers see their rows twice", repair_it)
    for path in inventory.dangling:
        words = "the link leads to nothing, and no reader reads the dataset"
        yield Finding(path, words, "remove it, or mend what it names")
    for directory in inventory.inner:
        inner = quote(join(inventory.dataset.root, directory))
        words = (
            "this is a dataset of its own, inside of another: jobs that write to one know nothing of those of the other"
        )
        mend = (
            f"move it elsewhere; or if it is to be a part of the other: arrowipc vacuum {inner} && rm -r {inner}/"
            f"{COMMITS_DIRECTORY}"
        )
        yield Finding(directory, words, mend)
    above = dataset_above(inventory.dataset)
    if above is not None:
        words = f"this lies in the dataset {above}: jobs that write to one know nothing of those of the other"
        yield Finding("", words, f"{_command(inventory, 'copy')} ELSEWHERE, and write there")
    foreign = sorted(path for path in inventory.files.keys() - copies - {*DOCUMENTS} if not has_own_name(path))
    if foreign and inventory.head.seq:
        words = f"{count_noun(len(foreign), 'file')} of other programs, which readers read: {join_texts(foreign)}"
        yield Finding("", words, is_note=True)
    if inventory.links:
        yield Finding("", f"links, which are not looked into: {join_texts(inventory.links)}", is_note=True)


def _of_jobs(inventory: Inventory) -> Iterator[Finding]:
    """Yield what jobs have left, dead or alive, and what was taken aside."""
    dataset = inventory.dataset
    if not inventory.damaged:
        left = vacuum(dataset.root, dry_run=True, storage=dataset.storage)
        for job in left.kept:
            words = f"the job {job.jobid} has staged {job.nbytes:,} bytes, the last {int(job.age_seconds)} s ago, and may still run"
            path = relative(dataset.staging(job.jobid), dataset.root)
            mend = f"if it does not: {_command(inventory, 'vacuum')} --older-than 1h"
            yield Finding(path, words, mend, is_note=True)
        if left.withdrawn or left.files:
            dead, old = count_noun(len(left.withdrawn), "dead job"), count_noun(len(left.files), "old file")
            words = f"{dead} and {old}, {left.nbytes:,} bytes, can go"
            yield Finding("", words, _command(inventory, "vacuum"), is_note=True)
    if has_any(dataset.storage, dataset.path(ASIDE_DIRECTORY)):
        words = "here is what was taken out of the dataset"
        yield Finding(ASIDE_DIRECTORY, words, "remove it when you do not need it", is_note=True)


# What is mended


def _proven(inventory: Inventory) -> set[str]:
    """Return the files that records prove not to be of the newest state; none if that is not there whole without them.

    Then they may be what is left of an older state.
    """
    record = inventory.record
    if record is not None and record.tally is None and not inventory.is_pending and not inventory.missing():
        return inventory.removed()
    state = next(states(inventory), None)
    is_newest = state is not None and state.record is record
    others = set[str](state.others) if state is not None and is_newest else set[str]()
    if inventory.is_pending:  # bringing it to its end removes these
        return others - inventory.due()
    return others | inventory.removed() if is_newest else others


def _copies(inventory: Inventory) -> Iterator[tuple[str, str]]:
    """Yield the files of other names that have the bytes of one of ours, whose name they contain; and that one."""
    ours = {match[0]: path for path in inventory.files if has_own_name(path) and (match := _COPY_OF.search(path))}
    for path, status in sorted(inventory.files.items()):
        match = _COPY_OF.search(path)
        original = None if match is None or has_own_name(path) or status.is_link else ours.get(match[0])
        if original is None or inventory.files[original].nbytes != status.nbytes:
            continue
        if are_same(inventory.dataset, path, original, status.nbytes):
            yield path, original


def _spoilt(inventory: Inventory) -> list[str]:
    """Return the file of the newest record, or its mark, if the other one is whole; none while the record is not applied."""
    record, dataset = inventory.record, inventory.dataset
    if record is None or inventory.is_pending:
        return []
    data, spoilt = record.to_bytes(), []
    for path in (dataset.record(record.seq), dataset.done_mark(record.seq)):
        with suppress(FileNotFoundError):  # pruned, as jobs have gone on
            try:
                is_spoilt = dataset.storage.read(path, MAX_RECORD_NBYTES) != data
            except (LimitError, UnsupportedError):
                is_spoilt = True
            spoilt += [relative(path, dataset.root)] if is_spoilt else []
    return spoilt


def _paths_of(dataset: DatasetDirectory, is_meant: Callable[[int], bool]) -> list[str]:
    """Return the records, marks and kept records of some numbers, relative to the dataset, the newest first."""
    numbered: list[tuple[int, str]] = []
    for directory in (dataset.commits, log_directory(dataset)):
        with suppress(FileNotFoundError):
            for status in dataset.storage.list(directory):
                parsed = parse_name(name_of(status.path))
                if parsed is not None and is_meant(parsed[0]):
                    numbered.append((parsed[0], relative(status.path, dataset.root)))
    # A mark after its record: a record without its mark would be a pending job.
    return [path for _, path in sorted(numbered, key=lambda each: (-each[0], not each[1].endswith(".json"), each[1]))]


def _written_again(inventory: Inventory, path: str) -> Finding:
    """Replace a damaged copy of the newest record in one step, as without it another job would take its number."""
    dataset, storage = inventory.dataset, inventory.dataset.storage
    aside = _free_place(dataset, path)
    storage.make_directory(parent(aside))
    storage.put(aside, storage.read(dataset.path(path), MAX_RECORD_NBYTES), durable=True)
    storage.put(dataset.path(path), inventory.chain[0].to_bytes(), durable=True)
    return Finding(dataset.path(path), f"is written again; what it was is in {aside}")


def _free_place(dataset: DatasetDirectory, path: str) -> str:
    """Return the path below `ASIDE_DIRECTORY`, with a number where it is taken."""
    aside = join(dataset.path(ASIDE_DIRECTORY), path)
    places = (f"{aside}{f'.{number}' if number else ''}{STAGED_SUFFIX}" for number in count())
    return next(place for place in places if dataset.storage.status(place, follow_links=False) is None)


def _set_aside(dataset: DatasetDirectory, paths: Iterable[str]) -> list[Finding]:
    """Move files to the same paths below `ASIDE_DIRECTORY`."""
    done: list[Finding] = []
    storage = dataset.storage
    for path in paths:
        aside = _free_place(dataset, path)
        storage.make_directory(parent(aside))
        with suppress(FileNotFoundError):  # another process took it
            publisher_of(dataset).move(dataset.path(path), aside)
            done.append(Finding(dataset.path(path), f"moved to {aside}"))
    return done
