"""`Inventory`: all that lies in a dataset's directory, beside what its records say of it.

The records that can be read are followed from the newest one back, as long as each names the one before it. The files are
listed between two equal looks at the chain, the staged ones first, as they move to their names and not back. Unlike a reader,
which gets one state or an error, this corrects nothing. Links are not followed, nor are hidden directories.

`states` tells which states the directory holds whole. The tally of a record tells the files that were there after it: the
directory holds that state if its files have that tally without some others. These are looked for among the files that
records name, among names that are there twice, and among the youngest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    NO_FILES,
    STAGED_SUFFIX,
    DatasetDirectory,
    NameKind,
    RemovedFile,
    Tally,
    has_own_name,
    parse_name,
)
from spark_arrow_ipc.dataset.commit_log.log import KEPT_RECORDS, Head, read_head
from spark_arrow_ipc.dataset.commit_log.record import COPIED, WITHDRAWN, Record
from spark_arrow_ipc.dataset.commit_log.stored_record import read_record, settled
from spark_arrow_ipc.dataset.listing.directory import is_hidden, walk_levels
from spark_arrow_ipc.dataset.write.nested import is_dataset
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError
from spark_arrow_ipc.storage.paths import join, name_of, parent
from spark_arrow_ipc.storage.storage import Kind, Status

_ATTEMPTS: Final = 20
"""The number of times that the directory is listed anew because a job was committed meanwhile."""

_RECORDS: Final = KEPT_RECORDS + 2
"""Most records that are read; older ones are of no use."""

_PIECE_NBYTES: Final = 4 << 20

_CHOICES: Final = 1024
"""Most ways to tell names that are there twice apart."""


@dataclass(frozen=True, slots=True)
class State:
    """A state that a directory holds whole, if some files were not there."""

    record: Record  # after which it was the state
    others: tuple[str, ...]  # the files that are not of it, relative to the dataset's directory


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that lies in a directory, by relative paths."""

    dataset: DatasetDirectory
    head: Head  # the newest record's number, and whether it is applied
    chain: tuple[Record, ...]  # the records from the newest one back, or from the first that can be read
    damaged: str  # why the newest record cannot be read; empty if it can
    strays: tuple[int, ...]  # numbers of other records that can be read: of another chain
    files: Mapping[str, Status]  # those that are visible
    staged: Mapping[str, int]  # the files of the pending job that have not their names yet, and their sizes
    inner: tuple[str, ...]  # visible directories that are datasets of their own (`nested`)
    dangling: tuple[str, ...]  # links that lead to nothing, which readers refuse
    links: tuple[str, ...]  # to directories, which are not looked into

    @property
    def record(self) -> Record | None:
        """The newest record, if it can be read."""
        return self.chain[0] if self.chain and self.chain[0].seq == self.head.seq else None

    @property
    def is_pending(self) -> bool:
        """True if the newest record is not applied, as far as is known."""
        return not self.head.done and self.record is not None

    @property
    def own(self) -> dict[str, int]:
        """The files with names that our writers make, those without their names included, and their sizes."""
        own = {path: status.nbytes for path, status in self.files.items() if has_own_name(path)}
        return own | {path: nbytes for path, nbytes in self.staged.items() if path not in own}

    def removed(self) -> set[str]:
        """Return the files that are there although a record of the chain has removed them."""
        return self._there({file.path: file for record in self.chain for file in record.removes})

    def due(self) -> set[str]:
        """Return the files that the pending job is still to remove, and that readers do not see any more."""
        if not self.is_pending:
            return set()
        return self._there({file.path: file for file in self.chain[0].removes})

    def missing(self) -> dict[str, int | None]:
        """Return the files that records have added and none has removed, and that are not there: with the size of what is.

        None is of a file that is gone altogether.
        """
        own, later = self.own, set[str]()
        gone: dict[str, int | None] = {}
        for record in self.chain:
            gone |= {
                add.final: own.get(add.final)
                for add in record.adds
                if add.final not in later and has_own_name(add.final) and own.get(add.final) != add.nbytes
            }
            later |= {file.path for file in record.removes}
        return gone

    def way_back(self) -> str:
        """Return the command that gives up the pending job; empty if it can be put in place, or the state before is lost.

        The process that has claimed the old files may be removing them; then the command has another age.
        """
        record = self.record
        if record is None or not self.is_pending or not record.is_of_job or record.mode == COPIED:
            return ""
        missing, adds = self.missing().keys(), {add.final for add in record.adds}
        if not missing or not missing <= adds or self.due() != {file.path for file in record.removes}:
            return ""
        before = record.taken_back("", "").tally
        if before not in (None, NO_FILES.changed(file for file in self.own.items() if file[0] not in adds)):
            return ""
        claim = self.dataset.storage.status(self.dataset.claim(record.seq))
        return f"vacuum --give-up {record.jobid}{'' if claim is None else ' --older-than 0'}"

    def doubled(self) -> dict[str, list[str]]:
        """Return the paths of names that only one file can have, and several do."""
        paths: dict[str, list[str]] = {}
        for path in sorted(self.files):
            if has_own_name(path):
                paths.setdefault(name_of(path), []).append(path)
        return {name: found for name, found in paths.items() if len(found) > 1}

    def _there(self, removes: Mapping[str, RemovedFile]) -> set[str]:
        return {path for path, file in removes.items() if path in self.files and file.is_same(self.files[path])}


def take_inventory(dataset: DatasetDirectory) -> Inventory:
    """List a dataset's directory, and read its newest records; `CommitError` if a directory of the commit is a link."""
    for _ in range(_ATTEMPTS):
        dataset.check()
        head = read_head(dataset)
        chain, done, damaged, strays = _records(dataset, head)
        staged = {} if done or damaged or not chain else _staged(dataset, chain[0])
        names = _Names(dataset)
        names.list_all()
        if read_head(dataset).seq == head.seq:
            return Inventory(
                dataset, Head(head.seq, done=done, keeps=head.keeps, copies=head.copies), tuple(chain), damaged, tuple(strays), names.files,
                staged, tuple(sorted(names.inner)), tuple(sorted(names.dangling)), tuple(sorted(names.links)),
            )  # fmt: skip
    raise ConcurrentWriteError(
        f"jobs were committed while the directory was listed, {_ATTEMPTS} times; look at it while fewer run, or at a copy of "
        "it ('arrowipc copy')",
        path=dataset.root,
    )


def _records(dataset: DatasetDirectory, head: Head) -> tuple[list[Record], bool, str, list[int]]:
    """Return the chain, whether its newest record is applied, why that cannot be read, and the numbers of other records."""
    chain: list[Record] = []
    done, damaged, strays = head.done, "", list[int]()
    try:
        parsed = [parse_name(name_of(status.path)) for status in dataset.storage.list(dataset.commits)]
    except FileNotFoundError:
        return chain, done, damaged, strays
    numbers = sorted({each[0] for each in parsed if each is not None and each[1] is NameKind.RECORD}, reverse=True)
    for seq in numbers[:_RECORDS]:
        try:
            if seq == head.seq:
                record, done = settled(dataset, seq, has_mark=head.done)
            else:
                record = read_record(dataset, seq)
        except FileNotFoundError:
            continue  # pruned
        except CommitError as error:
            damaged = str(error) if seq == head.seq else damaged
            continue
        if not chain or _is_before(record, chain[-1]):
            chain.append(record)
        elif record.mode != WITHDRAWN and (record.seq == chain[-1].seq - 1 or record.chain != chain[-1].chain):
            strays.append(
                seq
            )  # a withdrawal says nothing of files: vacuum makes one where a copy was begun and given up
    return chain, done, damaged, strays


def _is_before(record: Record, after: Record) -> bool:
    is_copied = after.mode == COPIED and (after.seq, after.previous) == (record.seq + 1, record.jobid)
    return is_copied or after.follows(record)


def _staged(dataset: DatasetDirectory, record: Record) -> dict[str, int]:
    """Return the files of a pending job that lie in its staging directory, by the paths that they will have."""
    with suppress(FileNotFoundError):
        there = {name_of(status.path): status.nbytes for status in dataset.storage.list(dataset.staging(record.jobid))}
        return {add.final: there[add.staged] for add in record.adds if add.staged in there}
    return {}


class _Names:
    """The visible names of a directory and of those in it."""

    def __init__(self, dataset: DatasetDirectory) -> None:
        self._dataset = dataset
        self.files: dict[str, Status] = {}
        self.inner: list[str] = []
        self.dangling: list[str] = []
        self.links: list[str] = []

    def list_all(self) -> None:
        walk_levels([""], self._list, waits=self._dataset.storage.traits.waits)

    def _list(self, directory: str) -> list[str]:
        below: list[str] = []
        dataset = self._dataset
        commits = name_of(dataset.commits)
        with suppress(FileNotFoundError):  # it was deleted with its last file
            for status in dataset.storage.list(dataset.path(directory)):
                name = name_of(status.path)
                path = join(directory, name)
                if name == commits and directory and is_dataset(dataset.storage, dataset.path(directory)):
                    self.inner.append(directory)
                elif is_hidden(name) or name.endswith(STAGED_SUFFIX):
                    continue
                elif status.kind is Kind.DANGLING:
                    self.dangling.append(path)
                elif status.kind is Kind.DIRECTORY:
                    (self.links if status.is_link else below).append(path)
                elif status.kind is Kind.FILE:
                    self.files[path] = status
        return below


def states(inventory: Inventory) -> Iterator[State]:
    """Yield the states that the directory holds whole, the newest first; none if no record has a tally that fits."""
    own, removed, later = inventory.own, inventory.removed(), set[str]()
    doubled = list(_choices(inventory))
    for i, record in enumerate(inventory.chain):
        if record.tally is not None:
            gone = {file.path for before in inventory.chain[i:] for file in before.removes if file.path in removed}
            others = _others(inventory, own, (later | gone) & own.keys(), doubled, record.tally)
            if others is not None:
                yield State(record, tuple(sorted(others | gone)))
        later |= {add.final for add in record.adds}


def _choices(inventory: Inventory) -> Iterator[set[str]]:
    """Yield the sets of paths without which each name is there once; those of one pair of directories are of one kind."""
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for paths in inventory.doubled().values():
        groups.setdefault(tuple(map(parent, paths)), []).append(paths)
    yield set()
    if groups and prod(map(len, groups)) <= _CHOICES:
        for kept in product(*(range(len(directories)) for directories in groups)):
            yield {
                path
                for i, names in zip(kept, groups.values(), strict=True)
                for paths in names
                for path in (*paths[:i], *paths[i + 1 :])
            }


def _others(
    inventory: Inventory, own: Mapping[str, int], gone: set[str], doubled: Iterable[set[str]], wanted: Tally
) -> set[str] | None:
    """Return the files without which the others have a tally; None if they are not tally."""
    for twice in doubled:
        others = gone | twice
        rest = {path: nbytes for path, nbytes in own.items() if path not in others}
        tally = NO_FILES.changed(rest.items())
        if tally == wanted:
            return others
        unknown = _few(rest, tally, wanted) or _youngest(inventory, rest, tally, wanted)
        if unknown is not None:
            return others | unknown
    return None


def _few(rest: Mapping[str, int], tally: Tally, wanted: Tally) -> set[str] | None:
    """Return the one file, or the two, that are too much."""
    few, digest = tally.files - wanted.files, tally.digest ^ wanted.digest
    if few not in (1, 2):
        return None
    by_digest = {NO_FILES.changed([file]).digest: file[0] for file in rest.items()}
    pairs = ({by_digest[one], by_digest[one ^ digest]} for one in by_digest if one ^ digest in by_digest)
    one = {by_digest[digest]} if few == 1 and digest in by_digest else None
    some = next(pairs, None) if few == 2 else one
    is_it = some is not None and len(some) == few and tally.nbytes - wanted.nbytes == sum(rest[path] for path in some)
    return some if is_it else None


def _youngest(inventory: Inventory, rest: Mapping[str, int], tally: Tally, wanted: Tally) -> set[str] | None:
    """Return the youngest files, if they are what is too much: whoever copied them may have kept their times."""
    if tally.files <= wanted.files:
        return None
    ages = sorted(rest, key=lambda path: inventory.files[path].mtime_ns if path in inventory.files else 0, reverse=True)
    some = set(islice(ages, tally.files - wanted.files))
    return some if tally.changed(((path, rest[path]) for path in some), -1) == wanted else None


def are_same(dataset: DatasetDirectory, one: str, other: str, nbytes: int) -> bool:
    """Return whether two files of a size, absolute or relative to the dataset, have the same bytes. Reads both."""
    storage = dataset.storage
    with closing(storage.open(dataset.path(one))) as first, closing(storage.open(dataset.path(other))) as second:
        pieces = ((at, min(_PIECE_NBYTES, nbytes - at)) for at in range(0, nbytes, _PIECE_NBYTES))
        return first.nbytes == second.nbytes == nbytes and all(
            first.read_at(*piece) == second.read_at(*piece) for piece in pieces
        )
