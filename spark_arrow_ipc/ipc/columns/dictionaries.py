"""The dictionaries of a file or stream by id, for readers and writers.

How it works
------------
Higher layers have no dictionary ids. A reader indexes the dictionaries of a file by their headers on first use, and reads
only the dictionaries of decoded columns; those in a stream come in order (`FileDictionaries`, `StreamDictionaries`). Readers
of streams differ in the source of messages and bodies (a file, a pipe, a network, shared memory), and share `StreamDecoder`.

In a writer each batch may have another dictionary. A file can have only one for each field, which later batches extend:
`UnifiedDictionaries` collects the distinct values so far, inner dictionaries before outer ones, and remaps the indices of
a batch unless one of both begins with the other. In a stream a dictionary may also be replaced (`ReplacedDictionaries`).
Batches need not be validated: dictionaries are compared and joined in full, so `SoundDictionaries` first makes broken
values harmless that no row uses.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import NamedTuple

from spark_arrow_ipc.arrow import equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import Doubt
from spark_arrow_ipc.arrow.equality import as_bits
from spark_arrow_ipc.arrow.kernels.concat import concat
from spark_arrow_ipc.arrow.kernels.growing_dictionary import GrowingDictionary, most_values, remap_indices
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.unseen import clear_unseen
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.errors import InvalidBodyError, InvalidDictionaryError, UnsupportedError, error_context
from spark_arrow_ipc.ipc.bytes.body import AnyPlace
from spark_arrow_ipc.ipc.columns.plan import Plan, Step, nested_dictionaries, walk_arrays
from spark_arrow_ipc.ipc.columns.projection import SelectedColumns
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.message import DictionaryBatchHeader, Message, expect

_SPEC = 'Columnar.rst "Dictionary Messages"'

DecodeBlock = Callable[[int, Plan], Array]
"""Decodes the values of a dictionary block, by its number and the plan of its values."""


@dataclass(slots=True)
class _InForce:
    """The values of one id: a dictionary and its deltas, joined on use; and the bytes of memory."""

    parts: list[Array]
    nbytes: int

    def append(self, dictionary_id: int, values: Array) -> None:
        """Append a delta."""
        self.parts.append(values)
        # Each part stays longer than the next: ten thousand small deltas cost joins of small arrays, not of all values.
        while len(self.parts) > 1 and self.parts[-2].length <= self.parts[-1].length:
            self.parts[-2:] = [_join_deltas(dictionary_id, self.parts[-2:])]

    def join(self, dictionary_id: int) -> Array:
        """Return all values as one array."""
        if len(self.parts) > 1:
            self.parts = [_join_deltas(dictionary_id, self.parts)]
        return self.parts[0]


class StreamDictionaries:
    """The dictionaries in force at the current point of a stream."""

    def __init__(self) -> None:
        self._in_force: dict[int, _InForce] = {}

    def find(self, dictionary_id: int, _: Plan) -> Array | None:
        """Return the values in force, or None."""
        in_force = self._in_force.get(dictionary_id)
        return None if in_force is None else in_force.join(dictionary_id)

    def has(self, dictionary_id: int) -> bool:
        """Return True if values of this id are in force."""
        return dictionary_id in self._in_force

    def held_nbytes(self, dictionary_id: int, *, is_delta: bool) -> int:
        """Return the bytes of all dictionaries that stay in force when a batch of this id comes."""
        total = sum(in_force.nbytes for in_force in self._in_force.values())
        replaced = None if is_delta else self._in_force.get(dictionary_id)
        return total if replaced is None else total - replaced.nbytes

    def bring(self, dictionary_id: int, values: Array, *, is_delta: bool, nbytes: int = 0) -> None:
        """Put new values in force, or append a delta."""
        if not is_delta:
            self._in_force[dictionary_id] = _InForce([values], nbytes)
            return
        in_force = self._in_force.get(dictionary_id)
        if in_force is None:
            raise InvalidDictionaryError(
                expected=f"dictionary {dictionary_id} before a delta to it", found="none", spec=_SPEC
            )
        in_force.nbytes += nbytes
        in_force.append(dictionary_id, values)


def _join_deltas(dictionary_id: int, parts: list[Array]) -> Array:
    """Return a dictionary and its deltas as one array."""
    for part in parts:
        if part.doubt is not None:
            # A broken index or view could point to a value once the parts are joined.
            raise part.doubt.error
    try:
        return concat(parts)
    except ValueError as error:
        raise UnsupportedError(f"dictionary {dictionary_id} cannot be joined with its deltas: {error}") from error


@dataclass(frozen=True, slots=True)
class DictionaryBlock:
    """The header of a dictionary batch of a file: its id, and whether it is a delta."""

    id: int
    is_delta: bool


@dataclass(slots=True)
class FileDictionaries:
    """The dictionaries of a file, decoded on first use."""

    # Reads the id and the delta flag of every dictionary block, in the order of the footer.
    read_headers: Callable[[], tuple[DictionaryBlock, ...]]
    decode_block: DecodeBlock  # reads and decodes one block's values
    _blocks: dict[int, list[int]] | None = None
    _values: dict[int, Array] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)
    # Threads that decode batches need a dictionary at the same time: one decodes it
    _lock: RLock = field(default_factory=RLock)

    def find(self, dictionary_id: int, plan: Plan) -> Array | None:
        """Return the values of an id with all its deltas, in the order of the footer, or None."""
        values = self._values.get(dictionary_id)
        if values is not None:
            return values
        with self._lock:
            values = self._values.get(dictionary_id)  # another thread may have read it in between
            return values if values is not None else self._read(dictionary_id, plan)

    def _read(self, dictionary_id: int, plan: Plan) -> Array | None:
        if self._blocks is None:
            self._blocks = self._index()
        numbers = self._blocks.get(dictionary_id)
        if numbers is None:
            return None
        if dictionary_id in self._open:
            # Its values need it, through a dictionary of their own: without this the reader would recurse for ever.
            raise InvalidDictionaryError(f"dictionary {dictionary_id} is encoded by itself", spec=_SPEC)
        self._open.add(dictionary_id)
        try:
            parts = [self.decode_block(number, plan) for number in numbers]
        finally:
            self._open.discard(dictionary_id)
        values = parts[0] if len(parts) == 1 else _join_deltas(dictionary_id, parts)
        self._values[dictionary_id] = values
        return values

    def _index(self) -> dict[int, list[int]]:
        blocks: dict[int, list[int]] = {}
        for number, block in enumerate(self.read_headers()):
            with error_context(block_kind="dictionary batch", block_number=number):
                of_id = blocks.setdefault(block.id, [])
                if block.is_delta != bool(of_id):
                    raise InvalidDictionaryError(
                        expected=f"one dictionary of id {block.id} in the file, and deltas after it",
                        found="a delta first" if block.is_delta else "a second one, which would replace the first",
                        spec='Columnar.rst "IPC File Format"',
                    )
                of_id.append(number)
        return blocks


class DueDictionary(NamedTuple):
    """The next dictionary batch to write."""

    id: int
    plan: Plan
    values: Array
    is_delta: bool = False


class SoundDictionaries:
    """Checks the dictionaries of batches to write, each once."""

    def __init__(self) -> None:
        self._checked: dict[int, Array] = {}
        self._doubts: dict[int, Doubt] = {}

    def columns(self, plan: Plan, columns: Sequence[Array]) -> tuple[Array, ...]:
        """Return columns whose dictionaries have no broken values that rows do not use."""
        columns, are_sound = tuple(columns), True
        for step, array in walk_arrays(plan, columns):
            values = array.dictionary
            if step.dictionary_id is not None and values is not None:
                are_sound &= self._is_sound(step.dictionary_id, values)
        return columns if are_sound else tuple(map(clear_unseen, columns))

    def _is_sound(self, dictionary_id: int, values: Array) -> bool:
        if self._checked.get(dictionary_id) is not values:
            try:
                validate.check_values(values, "")
            except InvalidBodyError as error:
                self._doubts.setdefault(dictionary_id, Doubt(error)).spend(values)
                return False
            self._checked[dictionary_id] = values
        return True


class UnifiedDictionaries:
    """The dictionaries of one file or stream as they grow."""

    def __init__(self) -> None:
        self._growing: dict[int, GrowingDictionary] = {}
        self._written: dict[int, int] = {}  # the number of values of each id that `due` has yielded

    def due(self, plan: Plan) -> Iterator[DueDictionary]:
        """Yield the dictionaries that have grown, inner ones before outer ones: complete at first, then as deltas."""
        nested = nested_dictionaries(plan)  # which have no deltas, because pyarrow refuses them
        for dictionary_id, growing in ((i, self._growing[i]) for i in plan.dictionaries if i in self._growing):
            written = self._written.get(dictionary_id)
            if written == growing.length:
                continue
            is_delta = written is not None and dictionary_id not in nested
            values = growing.since(written or 0) if is_delta else growing.values
            self._written[dictionary_id] = growing.length
            yield DueDictionary(dictionary_id, plan.dictionaries[dictionary_id], values, is_delta)

    def nbytes_due(self) -> tuple[int, int]:
        """Return the number of dictionaries that have grown, and the approximate bytes of their new values."""
        written = ((growing, self._written.get(i, 0)) for i, growing in self._growing.items())
        nbytes = [growing.nbytes_since(length) for growing, length in written if growing.length > length]
        return len(nbytes), sum(nbytes)

    def lengths(self) -> dict[int, int]:
        """Return the number of values of all ids so far, for `forget`."""
        return {dictionary_id: growing.length for dictionary_id, growing in self._growing.items()}

    def forget(self, lengths: dict[int, int]) -> None:
        """Restore the values that `lengths` counted before a batch that is not written."""
        self._growing = {
            dictionary_id: GrowingDictionary(self._growing[dictionary_id].values.slice(0, length), _join_parts)
            for dictionary_id, length in lengths.items()
        }

    def unify(self, plan: Plan, columns: Sequence[Array]) -> tuple[Array, ...]:
        """Return the columns with indices into the unified dictionaries, at every depth.

        The arrays still have their old dictionaries; `due` yields the unified ones.
        """
        lengths = self.lengths()
        try:
            return self._unify_columns(plan, columns)
        except IndexError:
            # An index below a null parent may be anything.
            self.forget(lengths)
            return self._unify_columns(plan, tuple(map(clear_unseen, columns)))

    def _unify_columns(self, plan: Plan, columns: Sequence[Array]) -> tuple[Array, ...]:
        steps = iter(plan.steps)
        return tuple(self._unify(plan, steps, column, is_inner=False) for column in columns)

    def _unify(self, plan: Plan, steps: Iterator[Step], array: Array, *, is_inner: bool) -> Array:
        step = next(steps)
        children = tuple(self._unify(plan, steps, child, is_inner=is_inner) for child in array.children)
        if children != array.children:
            array = replace(array, children=children)
        if step.dictionary_id is None:
            return array
        assert array.dictionary is not None
        assert isinstance(step.type, t.Dictionary)
        values = plan.dictionaries[step.dictionary_id]
        dictionary = array.dictionary
        if values.dictionaries:
            dictionary = self._unify(values, iter(values.steps), dictionary, is_inner=True)
        growing = self._growing.get(step.dictionary_id)
        if growing is None:
            growing = self._growing[step.dictionary_id] = GrowingDictionary(dictionary, _join_parts)
        try:
            positions = growing.add(dictionary, most_values(step.type), keeps_order=step.type.ordered)
        except ValueError as error:
            raise UnsupportedError(str(error), field_path=step.path) from None
        if positions is not None:
            array = remap_indices(array, positions)
        # Values of an outer dictionary are compared by the values of their indices, and need the unified dictionary.
        return replace(array, dictionary=growing.values) if is_inner else array


class ReplacedDictionaries:
    """The dictionaries of a stream as last written."""

    def __init__(self) -> None:
        self._written: dict[int, Array] = {}

    def due(self, plan: Plan, columns: Iterable[Array]) -> Generator[DueDictionary, None, bool]:
        """Yield the new or changed dictionaries of some columns, inner ones before outer ones."""
        replaces = False
        for step, array in walk_arrays(plan, columns):
            if step.dictionary_id is not None:
                assert array.dictionary is not None
                values = plan.dictionaries[step.dictionary_id]
                replaces |= yield from self._due(step.dictionary_id, values, array.dictionary)
        return replaces

    def _due(self, dictionary_id: int, plan: Plan, values: Array) -> Generator[DueDictionary, None, bool]:
        before = self._written.get(dictionary_id)
        if before is values:
            return False
        # Equal values have other indices once an inner dictionary is replaced.
        replaces = yield from self.due(plan, (values,))
        if before is not None:
            shared = min(before.length, values.length)
            ours, theirs = (as_bits(side.slice(0, shared)) for side in (before, values))
            if not replaces and values.length <= before.length and equality.difference(ours, theirs) is None:
                return False
            replaces = True
        self._written[dictionary_id] = values
        yield DueDictionary(dictionary_id, plan, values)
        return replaces


def _join_parts(parts: Sequence[Array]) -> Array:
    """Return parts of a dictionary as one array."""
    # The inner dictionaries of the last part begin with the earlier ones, so that indices of all parts fit them.
    return concat([*(_with_dictionaries_of(parts[-1], part) for part in parts[:-1]), parts[-1]])


def _with_dictionaries_of(last: Array, part: Array) -> Array:
    children = tuple(map(_with_dictionaries_of, last.children, part.children))
    return replace(part, children=children, dictionary=last.dictionary)


@dataclass(frozen=True, slots=True, eq=False)
class _Arrived:
    """A dictionary batch of a stream, with its number and byte offset."""

    header: DictionaryBatchHeader
    plan: Plan
    body_place: AnyPlace
    number: int
    byte_offset: int | None


class StreamDecoder:
    """Decodes the record batches of a stream, with the dictionaries in force."""

    def __init__(self, columns: SelectedColumns, path: str | None) -> None:
        self._columns = columns
        self._path = path
        self._dictionaries = StreamDictionaries()
        # Dictionary batches that wait for the inner ones they need: arrow-java writes the outer first
        self._early: list[_Arrived] = []

    def find(self, dictionary_id: int, plan: Plan) -> Array | None:
        """Return the values in force, or None."""
        return self._dictionaries.find(dictionary_id, plan)

    def decode(
        self, message: Message, body_place: AnyPlace, number: int, byte_offset: int | None = None
    ) -> RecordBatch | None:
        """Return the record batch of a message, or None after a dictionary batch."""
        if message.kind is MessageHeader.RecordBatch:
            # If a dictionary is still missing now, no slot needs it, or its error is right.
            self.flush()
            return self._columns.read_batch(message, body_place, self._dictionaries.find)
        header = expect(message, MessageHeader.DictionaryBatch, DictionaryBatchHeader)
        plan = self._columns.plan(message.version).dictionaries.get(header.id)
        if plan is None:
            # It belongs to a column that is not read, or to none.
            return None
        arrived = _Arrived(header, plan, body_place, number, byte_offset)
        if not self._is_ready(arrived):
            waiting = sum(other.body_place.nbytes for other in self._early) + message.body_nbytes
            self._columns.limits.check("max_dictionary_bytes", waiting, "the sum of dictionaries that wait for others")
            # Read now, because a pipe cannot go back
            self._early.append(replace(arrived, body_place=body_place.held()))
            return None
        self._take_in(arrived)
        while (ready := next(filter(self._is_ready, self._early), None)) is not None:
            self._early.remove(ready)
            self._take_in(ready)
        return None

    def prepare(
        self, message: Message, body_place: AnyPlace, number: int, byte_offset: int | None = None
    ) -> Callable[[], RecordBatch] | None:
        """Return a callback that decodes the record batch of a message in any thread, or None after a dictionary batch.

        Parameters and errors are as in `decode`.
        """
        if message.kind is not MessageHeader.RecordBatch:
            self.decode(message, body_place, number, byte_offset)
            return None
        self.flush()
        plans = self._columns.plan(message.version).dictionaries
        # The dictionaries of this moment: a later batch may replace them before the callback runs.
        in_force = {id_: self._dictionaries.find(id_, plan) for id_, plan in plans.items()}
        # Here, because the body is read before `read_batch` checks the header.
        self._columns.limits.check("max_batch_bytes", message.body_nbytes, "the body of a batch")
        held = body_place.held()

        def decode() -> RecordBatch:
            with error_context(
                path=self._path, block_kind=message.kind.noun, block_number=number, byte_offset=byte_offset
            ):
                return self._columns.read_batch(message, held, lambda id_, _: in_force.get(id_))

        return decode

    def begin_stream(self) -> None:
        """Forget the dictionaries before another stream, which has its own."""
        self.flush()
        self._dictionaries = StreamDictionaries()

    def flush(self) -> None:
        """Decode the waiting dictionary batches, ready or not."""
        while self._early:
            self._take_in(self._early.pop(0))

    def _is_ready(self, arrived: _Arrived) -> bool:
        """Return True if neither earlier batches of its id nor its inner dictionaries wait."""
        position = self._early.index(arrived) if arrived in self._early else len(self._early)
        early = {other.header.id for other in self._early[:position]}
        needed = arrived.plan.dictionaries
        return arrived.header.id not in early and all(map(self._dictionaries.has, needed)) and early.isdisjoint(needed)

    def _take_in(self, arrived: _Arrived) -> None:
        header = arrived.header
        at = error_context(
            path=self._path, block_kind="dictionary batch", block_number=arrived.number, byte_offset=arrived.byte_offset
        )
        with at:
            dictionaries = self._dictionaries
            held = dictionaries.held_nbytes(header.id, is_delta=header.is_delta)
            values, nbytes = self._columns.read_dictionary(
                header.data, arrived.plan, arrived.body_place, dictionaries.find, held=held, at=at
            )
            dictionaries.bring(header.id, values, is_delta=header.is_delta, nbytes=nbytes)
