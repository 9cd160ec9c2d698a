"""`look`: what the checkpoint of a streaming query, or its source log, says of its batches, and what keeps it from going on.

Spark writes ``offsets/N`` before it runs batch N, and ``commits/N`` when the sink has it, so the next start runs the batch
that has the one and not the other again, with the files that its offset or the entries of the source log name. Those files
are looked at: one that is gone, is another one by now, or has broken headers ends the query at each start. Nothing here is
trusted, and nothing is changed.

An offset is lines of text: ``v1``, a JSON object of Spark's, and for each source its offset, or ``-``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.listing.data_file import DataFile, has_sample
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataOptions, read_metadata
from spark_arrow_ipc.dataset.stream.bad_files import BadFile
from spark_arrow_ipc.dataset.stream.log import LOG, LogMode, owner_of, read_number
from spark_arrow_ipc.dataset.stream.mode import TABLE, Offset, StreamBatch, mode_of_offset
from spark_arrow_ipc.dataset.stream.source_log import SourceLog
from spark_arrow_ipc.dataset.stream.table import TableMode
from spark_arrow_ipc.dataset.stream.tail import TAIL, TailMode
from spark_arrow_ipc.dataset.stream.window import WINDOW, WindowMode, batch_of
from spark_arrow_ipc.errors import ArrowIpcError, FileChangedError, OptionError, StreamOffsetError, cut_repr
from spark_arrow_ipc.storage.paths import join, name_of
from spark_arrow_ipc.storage.storage import Kind, Storage

OFFSETS: Final = "offsets"
_COMMITS: Final = "commits"
_LOG_OF_INGEST: Final = ("sources", "0", "arrowipc")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_MOST_NBYTES: Final = 16 << 20
_MOST_LOOKED_AT: Final = 10_000
"""Files of a batch that are looked at."""

_SAME: Final = "a batch reads the files that it was made of"
_GONE: Final = f"put it back, as {_SAME}, or start the query once with ignoreMissingFiles=true, which leaves it out"
_CHANGED: Final = (
    f"put it back as it was, as {_SAME}; or give it another name, by which it is read as a new file, and start the query once "
    "with ignoreMissingFiles=true, which leaves out the one of the old name"
)
_WORDS: Final = {WINDOW: WindowMode.words, TABLE: TableMode.words, TAIL: TailMode.words}

_BROKEN: Final = (
    "start the query once with ignoreCorruptFiles=true, which skips the rest of a broken file, with a warning"
)


@dataclass(frozen=True, slots=True)
class SourcePart:
    """The part that one source has in a batch; its files are unknown (None) where only the source says them."""

    source: int  # number of the source in the query
    mode: str | None  # of its offset; None for another source than this one, or one without data
    position: str  # in the source, for people
    files: int | None = None
    nbytes: int | None = None


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """One batch of a query, or one entry of a source log."""

    number: int
    planned_ns: int | None  # nanoseconds since 1970; None where nothing says it
    committed_ns: int | None  # None for a batch that the sink does not have, and for entries
    parts: tuple[SourcePart, ...]


@dataclass(frozen=True, slots=True)
class Stuck:
    """A reason for which the next start ends with an error, and what to do."""

    what: str
    mend: str


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of a stream by its checkpoint or source log."""

    path: str
    kind: str  # checkpoint or log
    query: str | None  # id of the query, as the checkpoint says, or the owner of a log
    batches: tuple[SeenBatch, ...]  # the newest ones
    waiting_files: int | None  # files of the batch that the next start runs again; None where they are not known
    waiting_nbytes: int | None
    bad: tuple[BadFile, ...]
    stuck: tuple[Stuck, ...]


def look(directory: str, storage: Storage, opens: Callable[[str], Storage], log: str | None, most: int) -> Seen:
    """Describe the newest batches of a checkpoint or a source log, at most `most` of them.

    `log` is the source log of the checkpoint's query; without it, that of `ingest`, if it is there. `opens` returns the
    storage of a path.
    """
    root = storage.resolve(directory)
    if storage.status(join(root, OFFSETS)) is not None:
        return _Checkpoint(storage, root, opens, log).look(most)
    if log is not None:
        raise OptionError("this is no checkpoint, so that it has no source log beside it; leave one out", path=root)
    return _look_at_log(SourceLog.at(storage, root), root, most)


def _look_at_log(log: SourceLog, root: str, most: int) -> Seen:
    batches = []
    for number in log.entries()[-most:]:
        files = log.entry(number).batch
        part = SourcePart(0, LOG, f"entry {number:,}", len(files.files), files.nbytes)
        batches.append(SeenBatch(number, log.written_ns(number), None, (part,)))
    return Seen(root, "log", log.owner(), tuple(batches), None, None, tuple(log.bad_files.read()), ())


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    storage: Storage
    root: str
    opens: Callable[[str], Storage]
    given_log: str | None

    def look(self, most: int) -> Seen:
        planned, committed = self._numbers(OFFSETS), self._numbers(_COMMITS)
        done = max(committed, default=-1)
        log, stuck = None, list[Stuck]()
        try:
            log = self._log()
        except StreamOffsetError as error:
            stuck.append(Stuck(str(error), ""))
        batches, again = [], list[StreamBatch]()
        for number in sorted(planned)[-most:]:
            found, errors = self._batch(number, log, again if number > done else None)
            batches.append(found)
            stuck += errors if number == max(planned) else ()
        files = [file for batch in again for file in batch.files]
        is_ahead = done < max(planned, default=-1) and all(
            part.files is not None or part.mode is None for part in batches[-1].parts
        )
        bad = () if log is None else tuple(log.bad_files.read())
        return Seen(
            self.root,
            "checkpoint",
            self._query(),
            tuple(batches),
            len(files) if is_ahead else None,
            sum(file.nbytes for file in files) if is_ahead else None,
            bad,
            (*stuck, *self._stuck(files)),
        )

    def _numbers(self, name: str) -> list[int]:
        directory = join(self.root, name)
        if self.storage.status(directory) is None:
            return []
        names = (name_of(status.path) for status in self.storage.list(directory))
        return [int(name) for name in names if _NUMBER.fullmatch(name)]

    def _query(self) -> str | None:
        try:
            value = parse_json(self.storage.read(join(self.root, "metadata"), _MOST_NBYTES))
        except (FileNotFoundError, ValueError):
            return None
        query_id = value.get("id") if isinstance(value, dict) else None
        return query_id if isinstance(query_id, str) else None

    def _log(self) -> SourceLog | None:
        directory = self.given_log or join(self.root, *_LOG_OF_INGEST)
        storage = self.opens(directory) if self.given_log else self.storage
        if self.given_log is None and storage.status(directory) is None:
            return None
        return SourceLog.at(storage, storage.resolve(directory))

    def _batch(
        self, number: int, log: SourceLog | None, again: list[StreamBatch] | None
    ) -> tuple[SeenBatch, list[Stuck]]:
        path = join(self.root, OFFSETS, str(number))
        version, spark, *sources = self._lines(path)
        if version != "v1":
            raise StreamOffsetError(
                expected="v1 in the first line of an offset of Spark's", found=cut_repr(version), path=path
            )
        said = _json(spark, path)
        milliseconds = said.get("batchTimestampMs") if isinstance(said, dict) else None
        commit = self.storage.status(join(self.root, _COMMITS, str(number)))
        parts, stuck = [], []
        for i, text in enumerate(sources):
            try:
                part, batch = _part(i, None if text == "-" else _json(text, path), log)
            except StreamOffsetError as error:
                stuck.append(Stuck(str(error), ""))
                part, batch = SourcePart(i, None, "unknown"), None
            parts.append(part)
            if again is not None and batch is not None:
                again.append(batch)
        planned = milliseconds * 1_000_000 if type(milliseconds) is int else None
        return SeenBatch(number, planned, None if commit is None else commit.mtime_ns, tuple(parts)), stuck

    def _lines(self, path: str) -> list[str]:
        text = self.storage.read(path, _MOST_NBYTES).decode("utf-8", "replace")
        lines = text.rstrip("\n").split("\n")
        if len(lines) < 2:
            raise StreamOffsetError(
                "Spark did not write this offset to its end, so that no batch of it was run; remove the file, and start again",
                path=path,
            )
        return lines

    def _stuck(self, files: Sequence[DataFile]) -> list[Stuck]:
        stuck = []
        storage = self.opens(files[0].path) if files else self.storage
        for file in files[:_MOST_LOOKED_AT]:
            try:
                why = _why_stuck(file, storage)
            except (ArrowIpcError, OSError) as error:
                why = str(error), ""
            if why is not None:
                stuck.append(Stuck(f"{file.path}: {why[0]}", why[1]))
        return stuck


def _why_stuck(file: DataFile, storage: Storage) -> tuple[str, str] | None:
    """Return what is wrong with a file of a batch that is run again, and what to do; None if it can be read."""
    status = storage.status(file.path)
    if status is None:
        return "it is gone", _GONE
    if status.kind is not Kind.FILE:
        return "it is no file any more", _CHANGED
    if status.nbytes != file.nbytes:
        return f"it has {status.nbytes:,} bytes, it had {file.nbytes:,}", _CHANGED
    if file.version and status.version and file.version != status.version:
        return "another version is there now", _CHANGED
    if status.mtime_ns != file.mtime_ns and not status.version and not has_sample(file, file.path, storage):
        return "its modification time differs", _CHANGED
    error = read_metadata(file, MetadataOptions(cut_above=file.nbytes - 1, storage=storage)).error
    if isinstance(error, FileChangedError):
        return str(error), _CHANGED
    return None if error is None else (str(error), _BROKEN)


def _part(source: int, offset: object, log: SourceLog | None) -> tuple[SourcePart, StreamBatch | None]:
    """Return the part of a source in a batch, and its files where the offset or the log has them."""
    if offset is None or not isinstance(offset, dict) or not {"v", "mode"} <= set(offset):
        return SourcePart(source, None, "no data yet" if offset is None else "of another source"), None
    mode = mode_of_offset(offset)
    if mode == LOG:
        return _part_of_log(source, offset, log)
    position = _WORDS[mode](offset) if mode in _WORDS else "unknown"
    if mode != WINDOW:
        return SourcePart(source, mode, position), None
    batch = batch_of(offset)
    return SourcePart(source, mode, position, len(batch.files), batch.nbytes), batch


def _part_of_log(source: int, offset: Offset, log: SourceLog | None) -> tuple[SourcePart, StreamBatch | None]:
    number, owner = read_number(offset), owner_of(offset)
    position = LogMode.words(offset)
    if log is None or number < 0:
        return SourcePart(source, LOG, position), None
    is_anothers = owner is not None and log.owner() not in (None, owner)
    if is_anothers:
        raise StreamOffsetError(
            "this sourceLog is of another query than the checkpoint; give the log that the query was started with",
            path=log.directory,
        )
    last = log.entry(number)
    entries = [last, *(log.entry(i) for i in range(max(last.after, number - _MOST_LOOKED_AT) + 1, number))]
    files = tuple(file for entry in entries for file in entry.batch.files)
    batch = StreamBatch(files, tuple(root for entry in entries for root in entry.batch.roots))
    return SourcePart(source, LOG, position, len(files), batch.nbytes), batch


def _json(text: str, path: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise StreamOffsetError(expected="JSON in an offset of Spark's", found=str(error), path=path) from error
