"""Compare a table's log with its files, and say what is wrong and what repairs it; nothing is changed.

The log is read from its oldest retained entry on: each entry is checked, names the one before it, and leads to the
checkpoints. The files of the newest state are compared by size and by the checksum of their ends, which have the footers;
with `deep` all of their bytes are read and checked, too. A finding is one fault, with its path and the command that repairs
it. A note is only good to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from shlex import quote
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.write.nested import check_none_above, check_none_below
from spark_arrow_ipc.dataset.write.staged_file import tail_crc32
from spark_arrow_ipc.errors import ArrowIpcError, CommitError, NoFilesError, UnsupportedError
from spark_arrow_ipc.storage.paths import name_of
from spark_arrow_ipc.storage.storage import Kind, Status, each
from spark_arrow_ipc.table.checkpoint import MAX_CHECKPOINT_NBYTES, decode_checkpoint, encode_checkpoint
from spark_arrow_ipc.table.checks import without_log
from spark_arrow_ipc.table.documents import of_other_programs
from spark_arrow_ipc.table.log import read_entry, read_newer, read_state, read_table_id
from spark_arrow_ipc.table.log_listing import Listing, list_log
from spark_arrow_ipc.table.names import TableDirectory, is_table_id
from spark_arrow_ipc.table.snapshot import Snapshot, list_missing
from spark_arrow_ipc.table.state import Replay, State
from spark_arrow_ipc.table.vacuum import DEFAULT_AGE_SECONDS, vacuum

_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, or with `is_note` something that is good to know.

    Parameters
    ----------
    path
        Of a file or directory.
    what
        What is wrong with it.
    fix
        A command that repairs it, or what else to do; empty if there is nothing to do.
    is_note
        Whether it is no fault.
    """

    path: str
    what: str
    fix: str = ""
    is_note: bool = False


@dataclass(frozen=True, slots=True)
class FsckReport:
    """The content of a table as readers see it, and the findings, faults first.

    Parameters
    ----------
    path, table, number
        The directory, the table's id, and the number of its newest entry; empty and 0 without a log, 0 if it cannot be read.
    files, rows, nbytes
        What the log counts.
    findings
        What was found.
    """

    path: str
    table: str
    number: int
    files: int
    rows: int
    nbytes: int
    findings: tuple[Finding, ...]

    @property
    def is_sound(self) -> bool:
        """True if there are no faults."""
        return all(finding.is_note for finding in self.findings)


def check_table(
    directory: TableDirectory, *, deep: bool = False, checked: Callable[[], None] = lambda: None
) -> FsckReport:
    """Compare the log with the files. A read of each entry, some listings of the table, and a read of each file.

    `checked` is called for each file.
    """
    findings: list[Finding] = []
    state = table = None
    try:
        table = read_table_id(directory)
        if table is None:
            findings += _lost_id(directory)
        else:
            findings += _check_log(directory, table)
            state = read_state(directory)
    except UnsupportedError:
        raise
    except (CommitError, NoFilesError) as error:
        path = error.path or directory.log
        if path not in {finding.path for finding in findings}:
            findings.append(Finding(path, error.message or str(error)))
    if state is not None:
        missing, state = _find_missing(directory, state)
        findings += missing or _check_files(directory, state, deep=deep, checked=checked)
        findings += [] if missing else _findings_of(directory, _check_unmanaged)
        findings += _findings_of(directory, _list_garbage)
    for check in (check_none_above, check_none_below):
        with suppress(UnsupportedError):
            try:
                check(directory)
            except CommitError as error:
                findings.append(Finding(error.path or directory.root, error.message or str(error)))
    faults_first = tuple(sorted(findings, key=lambda finding: finding.is_note))
    if state is None:
        return FsckReport(directory.root, table or "", 0, 0, 0, 0, faults_first)
    files = state.files
    return FsckReport(
        directory.root,
        state.table,
        state.number,
        len(files),
        int(files.rows.sum()),
        int(files.nbytes.sum()),
        faults_first,
    )


def _findings_of(directory: TableDirectory, check: Callable[[TableDirectory], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield the findings of a check; its error is the last one of them."""
    try:
        yield from check(directory)
    except CommitError as error:
        yield Finding(error.path or directory.root, error.message or str(error))


def _command(directory: TableDirectory, command: str) -> str:
    return f"arrowipc {command} {quote(directory.root)}"


# ---- the log


def _lost_id(directory: TableDirectory) -> Iterator[Finding]:
    """Yield that the id is lost, if there are entries of a table."""
    tables: list[str] = []
    with suppress(FileNotFoundError):
        names = (name_of(status.path) for status in directory.storage.list(directory.log))
        tables = [name for name in names if is_table_id(name) and list_log(directory, name).newest]
    if not tables:
        yield Finding(directory.root, "there is no log here: no job of this package has written to it", is_note=True)
        return
    yield Finding(
        directory.id_file,
        "the id of the table is lost, and without it all rows of removed files would come back with the next job",
        f'put it back: a file with {{"format": 1, "table": "{tables[0]}"}}'
        + (f"; or with one of {', '.join(tables[1:])}" if tables[1:] else ""),
    )


def _check_log(directory: TableDirectory, table: str) -> Iterator[Finding]:
    """Yield what is wrong with entries and checkpoints, from the oldest on."""
    listing = list_log(directory, table)
    replay: Replay | None = Replay(State(table)) if 1 in listing.entries else None
    newest_checkpoint = max(listing.checkpoints, default=0)
    for number in range(min((*listing.entries, *listing.checkpoints), default=1), listing.newest + 1):
        if replay is not None:
            finding = _follow(directory, replay, number)
            if finding is not None:
                replay = None
                covered = number <= newest_checkpoint
                yield replace(
                    finding, fix=f"restore it from a copy; without one, {_without(directory, listing, number, covered)}"
                )
        if number not in listing.checkpoints:
            continue
        path = directory.checkpoint(table, number)
        try:
            state = decode_checkpoint(directory.storage.read(path, MAX_CHECKPOINT_NBYTES), table, number)
        except UnsupportedError:
            raise
        except (ArrowIpcError, FileNotFoundError) as error:
            yield Finding(
                path, f"the checkpoint cannot be read: {error}", f"delete it: entries stand for it: rm {quote(path)}"
            )
            continue
        if replay is not None and encode_checkpoint(replay.state()) != encode_checkpoint(state):
            yield Finding(path, "the checkpoint is not the state after its entry", f"delete it: rm {quote(path)}")
            continue
        replay = Replay(state)


def _without(directory: TableDirectory, listing: Listing, number: int, is_covered: bool) -> str:
    """Return the advice for a damaged entry that has no copy."""
    if is_covered:
        return "time travel and streams begin after it"
    if number == 1:
        return without_log(directory)
    return (
        f"delete the entries {number:,} to {listing.newest:,}, which takes the table back to entry {number - 1:,}. Nobody reads "
        "the files that these entries added; those that they removed may be deleted already, and then they are missing"
    )


def _follow(directory: TableDirectory, replay: Replay, number: int) -> Finding | None:
    """Apply an entry, or return what is wrong with it."""
    path = directory.entry(replay.table, number)
    try:
        entry = read_entry(directory, replay.table, number)
    except FileNotFoundError:
        return Finding(path, "the entry is missing")
    except CommitError as error:
        return Finding(path, f"the entry is damaged: {error.message or error}")
    if entry.previous != replay.entry:
        return Finding(path, "the entry does not follow the one before it: two logs were mixed")
    replay.apply(entry)
    return None


# ---- files


def _find_missing(directory: TableDirectory, state: State) -> tuple[list[Finding], State]:
    """Return the faults of files that are missing or of another size, and the state that has them."""
    for _ in range(_ATTEMPTS):
        missing = list_missing(directory, state)
        newer = read_newer(directory, state)
        # A later entry may have removed them.
        if not missing or newer is None or newer.entry == state.entry:
            break
        state = newer
    files = state.files
    return [
        Finding(
            directory.path(files.paths[i]),
            f"entry {files.numbers[i]:,} added this file of {files.rows[i]:,} rows and {files.nbytes[i]:,} bytes, and it "
            f"{'is missing' if status is None else f'has {status.nbytes:,} bytes'}",
            _remedy(directory, directory.path(files.paths[i]), int(files.numbers[i]), is_there=status is not None),
        )
        for i, status in missing.items()
    ], state


def _remedy(directory: TableDirectory, path: str, number: int, *, is_there: bool) -> str:
    """Return what to do about a file that an entry added, the best first: what loses no rows, then what loses some."""
    ways = ["restore it from a copy"]
    if is_there:
        ways.append(f"save what can be read by 'arrowipc repair {quote(path)} saved.arrow' before you go on")
    if number > 1:
        ways.append(
            f"{_command(directory, 'fsck --back-to N')} with an entry before {number:,}, which is without later rows, too"
        )
    ways.append(f"if its rows are lost, {_command(directory, 'fsck --forget-missing')}")
    return "; or ".join(ways)


def _check_files(directory: TableDirectory, state: State, *, deep: bool, checked: Callable[[], None]) -> list[Finding]:
    """Return the faults of what is in the files."""
    storage, files = directory.storage, state.files
    findings: list[Finding] = []

    def check(i: int) -> None:
        path = directory.path(files.paths[i])
        what, fix = "", f"restore it from a copy; 'arrowipc repair {quote(path)}' copies what can be read"
        try:
            with closing(storage.open(path, listed=Status(path, Kind.FILE, int(files.nbytes[i])))) as source:
                if tail_crc32(source) != files.crc32[i]:
                    what = "its last bytes are not those that the job wrote"
                elif deep:
                    with ipc.open(source) as reader:
                        rows = sum(batch.num_rows for batch in reader)
                    what = (
                        f"it has {rows:,} rows, and the log counts {files.rows[i]:,}" if rows != files.rows[i] else ""
                    )
        except FileNotFoundError:
            return  # removed by a job since
        except PermissionError as error:
            what, fix = str(error), "let this user read it, and run fsck again"
        except (ArrowIpcError, OSError) as error:
            status = storage.status(path, follow_links=False)
            what = str(error)
            if status is not None and status.is_link:
                what, fix = "it is a link, and nothing is read through it", "put the file in the place of the link"
        checked()
        if what:
            findings.append(Finding(path, what, fix))

    each(check, range(len(files)), waits=storage.traits.waits)
    return sorted(findings, key=lambda finding: finding.path)


def _check_unmanaged(directory: TableDirectory) -> Iterator[Finding]:
    """Yield copies of our own files under other names, and how many files are of other programs."""
    snapshot = Snapshot.open(directory)
    if snapshot.state is None:
        return
    unmanaged = of_other_programs(snapshot)
    files = snapshot.state.files
    of_size: dict[int, list[int]] = {}
    for i, nbytes in enumerate(files.nbytes.tolist()):
        of_size.setdefault(nbytes, []).append(i)
    for _, status in sorted(unmanaged.items()):
        equal = of_size.get(status.nbytes, [])
        crc32 = _end_of(directory, status) if equal else None
        copied = next((files.paths[i] for i in equal if files.crc32[i] == crc32), None)
        if copied is not None:
            yield Finding(
                status.path, f"this is a copy of {copied}: readers see its rows twice", "compare, and delete it"
            )
    if unmanaged:
        what = "a file of another program" if len(unmanaged) == 1 else f"{len(unmanaged):,} files of other programs"
        yield Finding(directory.root, f"{what}, which readers read, such as {min(unmanaged)}", is_note=True)


def _end_of(directory: TableDirectory, status: Status) -> int | None:
    """Return the checksum of a file's end, where its footer is, or None if it cannot be read."""
    with suppress(ArrowIpcError, OSError), closing(directory.storage.open(status.path, listed=status)) as source:
        return tail_crc32(source)
    return None


def _list_garbage(directory: TableDirectory) -> Iterator[Finding]:
    """Yield what jobs have left, dead or alive."""
    report = vacuum(directory, older_than=DEFAULT_AGE_SECONDS, dry_run=True)
    for path in report.unknown:
        yield Finding(
            directory.path(path),
            "the log does not know the job of this file, so that nobody reads it: the newest entries of the log are lost, or it "
            "is from a copy of this table",
            "before the next job, restore the entries from a copy of _ipc_log; without one, compare, and give the file a name "
            "without the table's id to read it, or delete it",
        )
    for job, row in report.young.items():
        words = f"the job has {row.nbytes:,} bytes in staged files, wrote {max(0, int(row.seconds)):,} s ago, and may still run"
        fix = f"if no job runs: {_command(directory, 'vacuum')} --older-than 0"
        yield Finding(directory.staging(job), words, fix, is_note=True)
    if report.deleted:
        kinds = ", ".join(f"{kind}: {amount.files:,}" for kind, amount in report.deleted.items())
        nbytes = sum(amount.nbytes for amount in report.deleted.values())
        yield Finding(directory.root, f"{nbytes:,} bytes can go ({kinds})", _command(directory, "vacuum"), is_note=True)
