"""The dictionaries of a file or stream by id, with their deltas appended.

Higher layers know no dictionary ids. A file's dictionaries are indexed by their headers when the first is needed, and
only those of decoded columns are read. A stream's dictionaries come in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import RLock

from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels import concat
from spark_arrow_ipc.errors import InvalidDictionaryError, UnsupportedError, error_context
from spark_arrow_ipc.ipc.columns.plan import Plan

_SPEC = 'Columnar.rst "Dictionary Messages"'

DecodeBlock = Callable[[int, Plan], Array]
"""Decodes the values of a dictionary block, given its number and the plan of its values."""


@dataclass(slots=True)
class _InForce:
    """The values of one id: a dictionary and its deltas, joined on use; and the bytes that they take."""

    parts: list[Array]
    nbytes: int

    def append(self, dictionary_id: int, values: Array) -> None:
        """Append a delta. Ten thousand small ones cost as many joins of small arrays, and not of the whole."""
        self.parts.append(values)
        while len(self.parts) > 1 and self.parts[-2].length <= self.parts[-1].length:
            self.parts[-2:] = [_joined(dictionary_id, self.parts[-2:])]

    def joined(self, dictionary_id: int) -> Array:
        """Return all values as one array."""
        if len(self.parts) > 1:
            self.parts = [_joined(dictionary_id, self.parts)]
        return self.parts[0]


class StreamDictionaries:
    """The dictionaries in force at the current point of a stream."""

    def __init__(self) -> None:
        self._in_force: dict[int, _InForce] = {}

    def find(self, dictionary_id: int, _: Plan) -> Array | None:
        """Return the values in force, or None."""
        known = self._in_force.get(dictionary_id)
        return None if known is None else known.joined(dictionary_id)

    def has(self, dictionary_id: int) -> bool:
        """Return whether values of this id are in force."""
        return dictionary_id in self._in_force

    def held_nbytes(self, dictionary_id: int, *, is_delta: bool) -> int:
        """Return the bytes of all dictionaries that stay in force when a batch of this id comes."""
        total = sum(known.nbytes for known in self._in_force.values())
        replaced = None if is_delta else self._in_force.get(dictionary_id)
        return total if replaced is None else total - replaced.nbytes

    def bring(self, dictionary_id: int, values: Array, *, is_delta: bool, nbytes: int = 0) -> None:
        """Put new values in force, or append a delta."""
        if not is_delta:
            self._in_force[dictionary_id] = _InForce([values], nbytes)
            return
        known = self._in_force.get(dictionary_id)
        if known is None:
            raise InvalidDictionaryError(
                expected=f"dictionary {dictionary_id} before a delta to it", found="none", spec=_SPEC
            )
        known.nbytes += nbytes
        known.append(dictionary_id, values)


def _joined(dictionary_id: int, parts: list[Array]) -> Array:
    """Return a dictionary and its deltas as one array."""
    try:
        return concat.concat(parts)
    except ValueError as error:
        raise UnsupportedError(f"dictionary {dictionary_id} cannot be joined with its deltas: {error}") from error


@dataclass(frozen=True, slots=True)
class DictionaryBlock:
    """The header of a dictionary batch of a file: its id, and whether it is a delta."""

    id: int
    is_delta: bool


@dataclass(slots=True)
class FileDictionaries:
    """The dictionaries of a file, decoded on first need and kept.

    Parameters
    ----------
    read_headers
        Reads the id and the delta flag of every dictionary block, in the order of the footer.
    decode_block
        Reads and decodes one block's values.
    """

    read_headers: Callable[[], tuple[DictionaryBlock, ...]]
    decode_block: DecodeBlock
    _blocks: dict[int, list[int]] | None = None
    _values: dict[int, Array] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)
    _lock: RLock = field(default_factory=RLock)
    """Threads that decode batches need a dictionary at the same time: one decodes it."""

    def find(self, dictionary_id: int, plan: Plan) -> Array | None:
        """Return the values of an id with all its deltas, in the order of the footer, or None."""
        known = self._values.get(dictionary_id)
        if known is not None:
            return known
        with self._lock:
            known = self._values.get(dictionary_id)  # another thread may have read it meanwhile
            return known if known is not None else self._read(dictionary_id, plan)

    def _read(self, dictionary_id: int, plan: Plan) -> Array | None:
        if self._blocks is None:
            self._blocks = self._index()
        numbers = self._blocks.get(dictionary_id)
        if numbers is None:
            return None
        if dictionary_id in self._open:
            raise InvalidDictionaryError(f"dictionary {dictionary_id} is encoded by itself", spec=_SPEC)
        self._open.add(dictionary_id)
        try:
            parts = [self.decode_block(number, plan) for number in numbers]
        finally:
            self._open.discard(dictionary_id)
        values = parts[0] if len(parts) == 1 else _joined(dictionary_id, parts)
        self._values[dictionary_id] = values
        return values

    def _index(self) -> dict[int, list[int]]:
        blocks: dict[int, list[int]] = {}
        for number, block in enumerate(self.read_headers()):
            with error_context(block_kind="dictionary batch", block_number=number):
                known = blocks.setdefault(block.id, [])
                if block.is_delta != bool(known):
                    raise InvalidDictionaryError(
                        expected=f"one dictionary of id {block.id} in the file, and deltas after it",
                        found="a delta first" if block.is_delta else "a second one, which would replace the first",
                        spec='Columnar.rst "IPC File Format"',
                    )
                known.append(number)
        return blocks
