"""The record batches of an Arrow IPC stream, in order and once (Columnar.rst, "IPC Streaming Format")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import (
    InvalidFramingError,
    error_context,
)
from spark_arrow_ipc.ipc.batch_reader import BatchReader, Window, expect, inside
from spark_arrow_ipc.ipc.body import BodyPlace
from spark_arrow_ipc.ipc.constants import Format, HeaderKind
from spark_arrow_ipc.ipc.dictionaries import StreamDictionaries
from spark_arrow_ipc.ipc.framing import read_stream_message
from spark_arrow_ipc.ipc.metadata import (
    DictionaryBatchHeader,
    Message,
    decode_message,
)
from spark_arrow_ipc.ipc.plan import Plan
from spark_arrow_ipc.ipc.selected_columns import SelectedColumns
from spark_arrow_ipc.ipc.source import ByteSource


@dataclass(frozen=True, slots=True, eq=False)
class _Arrived:
    """A dictionary batch of a stream, and where it was."""

    header: DictionaryBatchHeader
    plan: Plan
    place: BodyPlace
    number: int
    byte_offset: int


class StreamReader(BatchReader):
    """The record batches of an Arrow IPC stream, in order and once. Made by `open`."""

    format = Format.STREAM.value

    def __init__(self, source: ByteSource, columns: SelectedColumns, byte_offset: int) -> None:
        super().__init__(source, columns)
        self._byte_offset = byte_offset
        self._dictionaries = StreamDictionaries()
        self._early: list[_Arrived] = []
        """Dictionary batches that came before the ones that their values need: arrow-java writes the outer first."""
        self._ended = False
        self._counts = dict.fromkeys((HeaderKind.RECORD_BATCH, HeaderKind.DICTIONARY_BATCH), 0)

    def __iter__(self) -> Iterator[RecordBatch]:
        return self

    def __next__(self) -> RecordBatch:
        """Return the next record batch; dictionary batches before it are taken in.

        Raises
        ------
        ArrowIpcError
            The bytes are broken, or end inside a message.
        """
        while not self._ended:
            batch = self._read_message()
            if batch is not None:
                return batch
        raise StopIteration

    def _read_message(self) -> RecordBatch | None:
        """Read one message: a record batch is returned, a dictionary batch is taken in; None also at the end."""
        limits = self._columns.limits
        with error_context(path=self.path, byte_offset=self._byte_offset):
            found = read_stream_message(self._source, self._byte_offset, limits)
            if found is None:
                self._ended = True
                return None
            flatbuffer, body_offset = found
            with inside(body_offset - len(flatbuffer)):
                message = decode_message(flatbuffer, limits)
        kind = message.kind
        if kind not in self._counts:
            raise InvalidFramingError(
                expected="one schema, at the start of the stream", found="another one",
                path=self.path, byte_offset=self._byte_offset, spec='Columnar.rst "IPC Streaming Format"',
            )  # fmt: skip
        number = self._counts[kind]
        with error_context(path=self.path, block_kind=kind.noun, block_number=number, byte_offset=self._byte_offset):
            batch = self._decode(message, body_offset)
            self._pass_body(body_offset, message.body_nbytes)
        self._counts[kind] += 1
        self._byte_offset = body_offset + message.body_nbytes
        return batch

    def _pass_body(self, byte_offset: int, nbytes: int) -> None:
        """Prove that a body is there to its end, read or not: behind a cut, batches would be missing silently."""
        known, end = self._source.nbytes, byte_offset + nbytes
        if known is None:
            self._source.read_up_to(end, 0)
        elif known < end:
            raise InvalidFramingError(
                expected=f"a body of {nbytes:,} bytes",
                found=f"{known - byte_offset:,}: the file ends at byte {known:,}, it is truncated",
                byte_offset=byte_offset,
            )

    def _decode(self, message: Message, body_offset: int) -> RecordBatch | None:
        place = BodyPlace(self._source, body_offset, message.body_nbytes)
        if message.kind is HeaderKind.RECORD_BATCH:
            # What is still missing now has no slot that needs it, or its error is the right one.
            while self._early:
                self._take_in(self._early.pop(0))
            return self._columns.read_batch(message, place, self._dictionaries.find)
        header = expect(message, HeaderKind.DICTIONARY_BATCH, DictionaryBatchHeader)
        plan = self._columns.plan(message.version).dictionaries.get(header.id)
        if plan is None:
            # Of a column that is not read, or of none at all: nothing can refer to it.
            return None
        arrived = _Arrived(header, plan, place, self._counts[message.kind], self._byte_offset)
        if not self._is_ready(arrived):
            data = self._source.read_at(body_offset, message.body_nbytes)
            window = Window(self._source, body_offset, data)
            self._early.append(replace(arrived, place=replace(place, source=window)))
            return None
        self._take_in(arrived)
        while (ready := next(filter(self._is_ready, self._early), None)) is not None:
            self._early.remove(ready)
            self._take_in(ready)
        return None

    def _is_ready(self, arrived: _Arrived) -> bool:
        """Return whether all before it with its id are taken in, and the dictionaries that its values need."""
        early = {other.header.id for other in self._early[: self._position(arrived)]}
        needed = arrived.plan.dictionaries
        return arrived.header.id not in early and all(map(self._dictionaries.has, needed)) and early.isdisjoint(needed)

    def _position(self, arrived: _Arrived) -> int:
        return self._early.index(arrived) if arrived in self._early else len(self._early)

    def _take_in(self, arrived: _Arrived) -> None:
        header = arrived.header
        with error_context(
            path=self.path, block_kind="dictionary batch", block_number=arrived.number, byte_offset=arrived.byte_offset
        ):
            values = self._columns.read_dictionary(header.data, arrived.plan, arrived.place, self._dictionaries.find)
            self._dictionaries.bring(header.id, values, is_delta=header.is_delta)

    def __repr__(self) -> str:
        return f"<Arrow IPC stream {self.path or 'in memory'}>\n{self.schema}"
