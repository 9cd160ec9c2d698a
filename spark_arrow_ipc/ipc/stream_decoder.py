"""Decodes the messages of a stream in their order: record batches, and the dictionaries in force before each.

Readers differ in how messages and bodies reach them (a file, a pipe, a network, shared memory), and share this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.ipc.bytes.body import AnyPlace
from spark_arrow_ipc.ipc.columns.dictionaries import StreamDictionaries
from spark_arrow_ipc.ipc.columns.plan import Plan
from spark_arrow_ipc.ipc.columns.projection import SelectedColumns
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.message import DictionaryBatchHeader, Message, expect


@dataclass(frozen=True, slots=True, eq=False)
class _Arrived:
    """A dictionary batch of a stream, and its place."""

    header: DictionaryBatchHeader
    plan: Plan
    place: AnyPlace
    number: int
    byte_offset: int | None


class StreamDecoder:
    """Decodes record batches, and keeps the dictionaries in force.

    Parameters
    ----------
    columns
        The columns to read.
    path
        For errors.
    """

    def __init__(self, columns: SelectedColumns, path: str | None) -> None:
        self._columns = columns
        self._path = path
        self._dictionaries = StreamDictionaries()
        self._early: list[_Arrived] = []
        """Dictionary batches that wait for the inner ones they need: arrow-java writes the outer first."""

    def find(self, dictionary_id: int, plan: Plan) -> Array | None:
        """Return the values in force, or None."""
        return self._dictionaries.find(dictionary_id, plan)

    def decode(
        self, message: Message, place: AnyPlace, number: int, byte_offset: int | None = None
    ) -> RecordBatch | None:
        """Return the record batch of a message, or None after a dictionary batch."""
        if message.kind is MessageHeader.RecordBatch:
            # A dictionary that is still missing has no slot that needs it, or its error is the right one.
            self.flush()
            return self._columns.read_batch(message, place, self._dictionaries.find)
        header = expect(message, MessageHeader.DictionaryBatch, DictionaryBatchHeader)
        plan = self._columns.plan(message.version).dictionaries.get(header.id)
        if plan is None:
            # It belongs to a column that is not read, or to none: nothing refers to it.
            return None
        arrived = _Arrived(header, plan, place, number, byte_offset)
        if not self._is_ready(arrived):
            waiting = sum(other.place.nbytes for other in self._early) + message.body_nbytes
            self._columns.limits.check("max_dictionary_bytes", waiting, "the sum of dictionaries that wait for others")
            self._early.append(replace(arrived, place=place.held()))
            return None
        self._take_in(arrived)
        while (ready := next(filter(self._is_ready, self._early), None)) is not None:
            self._early.remove(ready)
            self._take_in(ready)
        return None

    def prepare(
        self, message: Message, place: AnyPlace, number: int, byte_offset: int | None = None
    ) -> Callable[[], RecordBatch] | None:
        """Return a callback that decodes the record batch of a message in any thread, or None after a dictionary batch.

        The body is read now, all of it, and the dictionaries are those that are in force now. Parameters and errors are
        those of `decode`.
        """
        if message.kind is not MessageHeader.RecordBatch:
            self.decode(message, place, number, byte_offset)
            return None
        self.flush()
        plans = self._columns.plan(message.version).dictionaries
        in_force = {id_: self._dictionaries.find(id_, plan) for id_, plan in plans.items()}
        # Before any of it is read: where reads wait, a body is read before its header is checked.
        self._columns.limits.check("max_batch_bytes", message.body_nbytes, "the body of a batch")
        held = place.held()

        def decode() -> RecordBatch:
            with error_context(
                path=self._path, block_kind=message.kind.noun, block_number=number, byte_offset=byte_offset
            ):
                return self._columns.read_batch(message, held, lambda id_, _: in_force.get(id_))

        return decode

    def begin_stream(self) -> None:
        """Forget the dictionaries: another stream follows, which has its own."""
        self.flush()
        self._dictionaries = StreamDictionaries()

    def flush(self) -> None:
        """Decode the dictionary batches that wait, whatever they wait for."""
        while self._early:
            self._take_in(self._early.pop(0))

    def _is_ready(self, arrived: _Arrived) -> bool:
        """Return whether nothing it depends on waits: its id's earlier batches, and inner dictionaries."""
        early = {other.header.id for other in self._early[: self._position(arrived)]}
        needed = arrived.plan.dictionaries
        return arrived.header.id not in early and all(map(self._dictionaries.has, needed)) and early.isdisjoint(needed)

    def _position(self, arrived: _Arrived) -> int:
        return self._early.index(arrived) if arrived in self._early else len(self._early)

    def _take_in(self, arrived: _Arrived) -> None:
        header = arrived.header
        with error_context(
            path=self._path, block_kind="dictionary batch", block_number=arrived.number, byte_offset=arrived.byte_offset
        ):
            known = self._dictionaries
            held = known.held_nbytes(header.id, is_delta=header.is_delta)
            values, nbytes = self._columns.read_dictionary(
                header.data, arrived.plan, arrived.place, known.find, held=held
            )
            known.bring(header.id, values, is_delta=header.is_delta, nbytes=nbytes)
