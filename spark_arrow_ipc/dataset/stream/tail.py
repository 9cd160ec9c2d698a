"""`TailMode`: one stream that another process appends to, record batch by record batch.

The offset ``{"v": 1, "mode": "tail", "batch": n, "byte": b, "crc": c}`` says that `n` record batches were read, that the
last one ends at byte `b`, and the checksum of the 64 bytes before it: a file that was replaced has others there.

The index of the stream is kept in memory, without what was read, and goes on where it ended: a look at a file that has
not grown is one system call, and one that has grown costs the messages that came. Only the first look of a process
walks over what was read before it.

Messages that are not whole are not there yet. After the end-of-stream marker nothing comes any more, and the query is
idle; it does not end, as Spark's sources do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.stream.mode import Backlog, Limit, Offset, OffsetValues, StreamBatch, make_offset
from spark_arrow_ipc.errors import FileChangedError, TruncatedError, error_context
from spark_arrow_ipc.ipc.follow import open_growing
from spark_arrow_ipc.ipc.stream_index import StreamIndex
from spark_arrow_ipc.storage.byte_source import ByteSource, mark_before
from spark_arrow_ipc.storage.storage import Status, Storage

TAIL: Final = "tail"

_FROM_THE_END: Final = -1
"""As ``crc``, with no record batch: the beginning of a query that leaves out what is there."""

_NO_STREAM: Final = (
    "tail=true follows the stream format, and this is the file format, which is read by what its writer puts at the end; "
    "read its directory as a stream, where files are complete"
)

_MOST_KEPT: Final = 100_000
"""Record batches that are indexed ahead of those that are read."""


@dataclass(frozen=True, slots=True)
class TailOptions:
    """The options by which a file is followed."""

    from_latest: bool = False  # whether a new query leaves out the record batches that are there
    split_nbytes: int = 128 << 20  # A batch of more bytes is shared by several tasks
    limits: ipc.Limits = field(default_factory=ipc.Limits)  # budgets of memory for what is read of the file


@dataclass(frozen=True, slots=True)
class _State:
    """An offset, read."""

    batch: int = 0
    byte: int = 0
    crc: int = 0

    @classmethod
    def of(cls, offset: Offset) -> _State:
        values = OffsetValues(offset, TAIL, ("batch", "byte", "crc"))
        crc = values.integer("crc", least=_FROM_THE_END, most=0xFFFFFFFF)
        return cls(values.integer("batch"), values.integer("byte"), crc)

    def to_offset(self) -> dict[str, str | int]:
        return make_offset(TAIL, batch=self.batch, byte=self.byte, crc=self.crc)


class TailMode:
    """Reads one stream that grows, on a storage whose files can."""

    def __init__(self, storage: Storage, path: str, options: TailOptions) -> None:
        self._storage = storage
        self._path = path
        self._options = options
        self._index: StreamIndex | None = None
        self._seen: Status | None = None
        """The state of the file when it was indexed."""
        self._known: _State | None = None
        """An offset that is of this file."""
        self._backlog = Backlog()
        self._ends = False
        self._last_byte: int | None = None
        """The end of a query that reads what is there now alone."""
        self._is_whole = True
        """True if the index has all whole messages that were there, and did not end at `_MOST_KEPT`."""

    @property
    def name(self) -> str:
        """The ``mode`` of its offsets."""
        return TAIL

    def initial(self) -> Offset:
        """Return the offset before the first record batch."""
        return _State(crc=_FROM_THE_END if self._options.from_latest else 0).to_offset()

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the offset after the next whole record batches; see `StreamMode.latest`.

        One system call, if the file has not grown. Limits of files count record batches.
        """
        state = _State.of(start)
        index = self._look(state)
        if index is None:
            return start
        assert self._seen is not None
        if self._ends and self._last_byte is None:
            self._last_byte = self._seen.nbytes
        if state.crc == _FROM_THE_END and not state.batch:
            index = self._index = self._to_the_end(index)
            stop = index.num_batches
        else:
            index = self._index = index.forget(state.batch)
            last_byte = self._seen.nbytes if self._last_byte is None else self._last_byte
            sizes = [batch.block.nbytes for batch in index.batches if batch.block.byte_offset < last_byte]
            count = limit.fitting(sizes)
            self._backlog = Backlog(len(sizes) - count, sum(sizes[count:]))
            if not count:
                return start
            stop = state.batch + count
        with self._open() as source:
            end = index.batches[stop - 1 - index.num_batches].block if stop else None
            byte = 0 if end is None else end.byte_offset + end.nbytes
            self._known = _State(stop, byte, mark_before(source, byte))
        return self._known.to_offset()

    def batch(self, start: Offset, end: Offset) -> StreamBatch:
        """Return the parts of the file between two offsets; see `StreamMode.batch`."""
        first, last = _State.of(start), _State.of(end)
        if first == last or (first.crc == _FROM_THE_END and not first.batch):
            return StreamBatch()
        index = self._look(first)
        if index is None or last.batch < first.batch or index.num_batches < last.batch:
            raise self._replaced(f"it has {0 if index is None else index.num_batches} record batches, not {last.batch}")
        self._check(last, index)
        assert self._seen is not None
        ranges = []
        for start_at, stop in self._parts(index, first.batch, last.batch):
            position = index.start(start_at)
            ranges.append(
                FileRange(self._path, last.byte, self._seen.mtime_ns, start_at, stop, stream_start=position, grows=True)
            )
        return StreamBatch(ranges=tuple(ranges), ranges_nbytes=last.byte - first.byte)

    def _parts(self, index: StreamIndex, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the record batches of each task."""
        first, nbytes = start, 0
        offset = index.num_batches - len(index.batches)
        for number in range(start, stop):
            size = index.batches[number - offset].block.nbytes
            if nbytes and nbytes + size > self._options.split_nbytes:
                yield first, number
                first, nbytes = number, 0
            nbytes += size
        if first < stop:
            yield first, stop

    def _look(self, state: _State) -> StreamIndex | None:
        """Return the index from the record batch before an offset on; None while there is no schema."""
        status = self._storage.status(self._path)
        if status is None:
            raise self._replaced("it is gone")
        if self._seen is not None and status.identity != self._seen.identity:
            raise self._replaced("another file has its place")
        if status.nbytes < max(state.byte, 0 if self._seen is None else self._seen.nbytes):
            raise self._replaced(f"it was cut to {status.nbytes:,} bytes")
        index = self._index
        if index is not None and index.num_batches - len(index.batches) > state.batch:
            index = None  # an offset of before, which this process has not made
        is_current = self._seen is not None and status.nbytes == self._seen.nbytes
        if index is None or not is_current or not self._is_whole:
            # The batch before the offset is kept, to compare where it ends.
            index = self._walk(state, index, max(0, state.batch - 1))
            if index is None:
                return None
            self._index, self._seen = index, status
        self._check(state, index)
        return index

    def _walk(self, state: _State, index: StreamIndex | None, first_batch: int) -> StreamIndex | None:
        with self._open() as source:
            self._check_mark(source, state)
            with error_context(path=self._path):
                reader = open_growing(source, partial(ipc.open_stream, limits=self._options.limits), refusal=_NO_STREAM)
                if reader is None:
                    return None
                index_found = reader.index(keeps_broken=True, after=index, first_batch=first_batch, most=_MOST_KEPT)
                self._is_whole = len(index_found.batches) < _MOST_KEPT
                if index_found.broken is not None and not isinstance(index_found.broken, TruncatedError):
                    raise index_found.broken
                return index_found

    def _to_the_end(self, index: StreamIndex) -> StreamIndex:
        """Return the index of the last record batch that is there."""
        while not self._is_whole:
            last = max(0, index.num_batches - 1)
            index = self._walk(_State(), index.forget(last), last) or index
        return index

    def _check(self, state: _State, index: StreamIndex) -> None:
        """Raise if an offset is of another file."""
        if not state.batch or state == self._known:
            return
        if index.num_batches < state.batch:
            raise self._replaced(f"it has {index.num_batches} record batches, not {state.batch}")
        first = index.num_batches - len(index.batches)
        if state.batch > first:
            block = index.batches[state.batch - 1 - first].block
            if block.byte_offset + block.nbytes != state.byte:
                raise self._replaced(f"no record batch ends at byte {state.byte:,}")
        with self._open() as source:
            self._check_mark(source, state)
        self._known = state

    def _check_mark(self, source: ByteSource, state: _State) -> None:
        if state.batch and mark_before(source, state.byte) != state.crc:
            raise self._replaced(f"the bytes before byte {state.byte:,} are others")

    @contextmanager
    def _open(self) -> Iterator[ByteSource]:
        with closing(self._storage.open(self._path)) as source:
            yield source

    def _replaced(self, how: str) -> FileChangedError:
        return FileChangedError(
            f"the file is not the one that the stream has read: {how}. A file that is followed is only appended to; give "
            "its followers a new file with a new checkpoint",
            path=self._path,
        )

    def committed(self, end: Offset) -> None:
        """Do nothing: what was read is forgotten at the next look."""

    @staticmethod
    def words(offset: Offset) -> str:
        """Return for people how far an offset is."""
        state = _State.of(offset)
        return f"{state.batch:,} record batches, up to byte {state.byte:,}" if state.batch else "nothing is read yet"

    def backlog(self) -> Backlog:
        """Return the whole record batches that wait."""
        return self._backlog

    def only_available_now(self) -> None:
        """Read nothing that is written after the next look."""
        self._ends = True
