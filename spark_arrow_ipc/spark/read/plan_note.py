"""Notes in the pickles of input partitions, by which the scan of the JVM leaves out partitions and files.

Spark plans a frame once, without conditions, and gives them to the scan of each query (``Planned.java``). A note has what the
scan needs to decide before tasks start:

- the bytes of the files that begin in the partition, and which of its ranges begin one;
- the values of hive partitions, over which Spark's own conditions are evaluated;
- the bounds of columns in each file, from the table's log, and whether the log has all files.

A bound is stored as a key: a 64-bit integer, in the order of Spark's values. Different values may have one key (a string's has
its first 8 bytes), so that keys may only exclude a file. `_KEYS` has a row for each class of types, and `key` in
``Bounds.java`` computes the key of a literal. A file of which nothing is known has all keys between its bounds; in one
without values the least is the greatest key, and the greatest the least.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.types import DataType, Field, bool_, date32, int8, int16, int32, int64, utf8
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.statistics.format import MAX, MIN, NAN_COUNT, NULL_COUNT, Leaf
from spark_arrow_ipc.dataset.statistics.read import path_of
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.read.log_answers import answered_columns, reads_all
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.table.state import State

_Keys: TypeAlias = npt.NDArray[np.int64]

_LEAST: Final = np.iinfo(np.int64).min
_GREATEST: Final = np.iinfo(np.int64).max

_MOST_COLUMNS: Final = 32
"""Columns of a frame that have bounds in notes, the first ones."""

_KEYS_NBYTES: Final = 17
"""Of two keys, and whether there may be nulls, for each column and file."""

_MOST_NBYTES: Final = 64 << 20
"""Of the bounds in all notes of a plan, which the JVM holds as long as the frame: of very many files fewer columns have some."""

_MOST_DIGITS: Final = t.MAX_DECIMAL_PRECISION[64]
"""Of decimals that have keys: as many as 64 bits hold."""

_MOST_PARTITIONS: Final = 64
"""Most partitions of a split whose values are in its note."""

_PARTITION_TYPES: Final[Mapping[DataType, s.DataType]] = {
    utf8: s.StringType(), bool_: s.BooleanType(), date32: s.DateType(),
    int64: s.LongType(), int32: s.IntegerType(), int16: s.ShortType(), int8: s.ByteType(),
}  # fmt: skip
"""Types of partition columns in notes, with Spark's types; a column with another type in the frame is left out."""


def make_notes(
    splits: Sequence[Sequence[FileRange]],
    fields: Sequence[Field],
    data_columns: s.StructType,
    states: Mapping[str, State],
    options: ReadOptions,
) -> list[str]:
    """Return `ArrowIpcInputPartition.note` of each split: ``arrowipc-plan:NOTE:`` with JSON in base64."""
    of_frame = {field.name: field.dataType for field in data_columns}
    types = [_PARTITION_TYPES.get(field.type) for field in fields]
    columns = [
        (i, type_) for i, type_ in enumerate(types) if type_ is not None and type_ == of_frame.get(fields[i].name)
    ]
    bounds = _Bounds(states if reads_all(options) else {}, fields, data_columns)
    # Tasks read the newest log, and a version may have other files.
    is_newest = options.version_as_of is None and options.timestamp_as_of is None
    answered = _answered(states) if is_newest and options.where is None else None
    counted: set[str] = set()  # a file belongs to the split in which it begins
    notes = []
    for ranges in splits:
        starts = []  # positions of the ranges with which a file begins
        for i, part in enumerate(ranges):
            if part.path not in counted:
                counted.add(part.path)
                starts.append(i)
        rows = dict.fromkeys(part.partition for part in ranges) if columns else {}
        names, values = [fields[i].name for i, _ in columns], []
        if len(rows) <= _MOST_PARTITIONS:
            # In Spark's internal form, since the JVM compares them by Spark's classes.
            values = [[type_.toInternal(row[i]) for i, type_ in columns] for row in rows]
        note = {"bytes": sum(ranges[i].nbytes for i in starts), "names": names if values else [], "values": values}
        note |= {"files": len(ranges), "bounds": bounds.of(ranges)}
        if len(starts) < len(ranges):
            note["starts"] = starts
        if answered is not None and bounds.have(ranges):
            note["answered"] = answered
        notes.append(f"arrowipc-plan:{b64encode(json.dumps(note).encode()).decode()}:")
    return notes


def _answered(states: Mapping[str, State]) -> list[str]:
    """Return the names of columns of which each table's log answers aggregates, where it has the bounds of all files."""
    names = [answered_columns(state, root) for root, state in states.items()]
    return sorted(set.intersection(*names)) if names else []


class _Bounds:
    """The keys of bounds in the files of tables, of the first columns of a frame that have any."""

    def __init__(self, states: Mapping[str, State], fields: Sequence[Field], data_columns: s.StructType) -> None:
        self._slots: dict[str, int] = {}
        for root, state in states.items():
            prefix = join(root, "x")[:-1]  # once: a join of each of 100,000 paths takes a quarter of a second
            self._slots.update(
                zip((prefix + path for path in state.files.paths), count(len(self._slots)), strict=False)
            )
        of_frame = _names(data_columns, fields)
        most = min(_MOST_COLUMNS, _MOST_NBYTES // (_KEYS_NBYTES * max(1, len(self._slots))))
        of_tables = [dict(islice(_keys_of_columns(state, of_frame), most)) for state in states.values()]
        lengths = [len(state.files) for state in states.values()]
        names = [field.name for field in of_frame.values() if any(field.name in columns for columns in of_tables)]
        self._columns = {
            name: np.hstack(
                [columns.get(name, _all_keys(n)) for columns, n in zip(of_tables, lengths, strict=True)]
                + [_all_keys(1)]
            )
            for name in names[:most]
        }

    def have(self, ranges: Sequence[FileRange]) -> bool:
        """Return True if the log has all files, and each is read as a whole."""
        return all(r.path in self._slots and r.start is None and r.rows is None and r.grows is None for r in ranges)

    def of(self, ranges: Sequence[FileRange]) -> dict[str, str]:
        """Return what is known of each column, in base64: the least key of each range, the greatest, and if it may have nulls."""
        if not self._columns:
            return {}
        slots = [self._slots.get(r.path, -1) for r in ranges]
        return {
            name: b64encode(
                keys[:2, slots].astype("<i8").tobytes() + keys[2, slots].astype(np.uint8).tobytes()
            ).decode()
            for name, keys in self._columns.items()
        }


def _names(data_columns: s.StructType, fields: Sequence[Field]) -> dict[str, s.StructField]:
    """Return the columns of files that one name means, by the folded name."""
    times = Counter(name.casefold() for name in [*data_columns.names, *(field.name for field in fields)])
    return {field.name.casefold(): field for field in data_columns if times[field.name.casefold()] == 1}


def _all_keys(files: int) -> _Keys:
    """Return the rows of files of which nothing is known: all keys are between the bounds, and there may be nulls."""
    return np.repeat(np.array([[_LEAST], [_GREATEST], [1]], np.int64), files, axis=1)


def _keys_of_columns(state: State, of_frame: Mapping[str, s.StructField]) -> Iterator[tuple[str, _Keys]]:
    """Yield the names of columns in the order of a frame, and the bounds of each in a table's files.

    Their shape is ``(3, files)``: the least key, the greatest, 1 if there may be nulls.
    """
    statistics = state.files.statistics
    if statistics is None:
        return
    structs: dict[str, list[tuple[str, Field, Array]]] = {}
    for field, array in zip(statistics.schema.fields, statistics.columns, strict=True):
        try:
            path = path_of(field)
        except (ValueError, KeyError):
            continue
        if len(path) == 1:
            structs.setdefault(path[0].casefold(), []).append((path[0], field, array))
    for name, column in of_frame.items():
        # Names that differ in case, and types of one name, each have a struct; a column without statistics has none, so
        # that the struct of another case may be of another column.
        if len(structs.get(name, ())) != 1 or structs[name][0][0] != column.name:
            continue
        keys = _keys(*structs[name][0][1:], column.dataType, state.files.rows)
        if keys is not None:
            yield column.name, keys


def _keys(field: Field, array: Array, type_: s.DataType, rows: npt.NDArray[np.int64]) -> _Keys | None:
    """Return the bounds of a column from its structs; None for types without keys, and if they contradict each other."""
    children = {} if not isinstance(field.type, t.Struct) else {f.name: f.type for f in field.type.fields}
    stored = children.get(MIN[0])
    convert = None if stored is None else _key_function(stored, type_)
    if stored is None or convert is None or field.type != Leaf(path_of(field), (), stored).field().type:
        return None
    arrays = dict(zip(children, array.children, strict=True))
    is_known, nulls = _valid(array) & _valid(arrays[NULL_COUNT]), array_data.data_values(arrays[NULL_COUNT])
    keys = _all_keys(len(rows))
    for bound, names in zip(keys[:2], (MIN, MAX), strict=True):
        for name in reversed(names):  # the exact bound last
            if name in arrays:
                chosen = is_known & _valid(arrays[name])
                bound[chosen] = convert(arrays[name])[chosen]
    has_values = is_known & (nulls < rows)
    if (keys[0] > keys[1])[has_values].any():
        return None
    if NAN_COUNT in arrays:
        # NaN is above all numbers, and no bound.
        may_be_nan = ~_valid(arrays[NAN_COUNT]) | (array_data.data_values(arrays[NAN_COUNT]) != 0)
        keys[1, may_be_nan] = _GREATEST
    keys[:2, is_known & (nulls == rows)] = [[_GREATEST], [_LEAST]]
    keys[2, is_known & (nulls == 0)] = 0
    return keys


def _valid(array: Array) -> npt.NDArray[np.bool_]:
    mask = array_data.validity_mask(array)
    return np.ones(array.length, np.bool_) if mask is None else mask


def _integers(array: Array) -> _Keys:
    return array_data.data_values(array).astype(np.int64)


def _floats(array: Array) -> _Keys:
    """Return the bits of doubles in the order of numbers: those of negative ones are inverted, but for the sign."""
    bits = array_data.comparable_floats(array_data.data_values(array).astype(np.float64)).view(np.int64)
    return bits ^ ((bits >> 63) & _GREATEST)


def _decimals(array: Array) -> _Keys:
    """Return the unscaled values; one that its precision does not allow, and 64 bits cannot hold, has the last key."""
    values = array_data.data_values(array)
    if values.dtype.names is None:
        return values.astype(np.int64)
    low, high = values["w0"].view(np.int64), values["w1"]
    return np.where(high == low >> 63, low, np.where(high < 0, _LEAST, _GREATEST))


def _prefixes(array: Array) -> _Keys:
    """Return the first eight bytes of strings as numbers, with zeros behind shorter ones."""
    offsets, data = array_data.value_offsets(array), array_data.value_bytes(array)
    at, lengths = offsets[:-1, None] + np.arange(8), np.diff(offsets)[:, None]
    octets = np.zeros((array.length, 8), np.uint8)
    is_inside = np.arange(8) < lengths
    octets[is_inside] = data[at[is_inside]]
    # The first bit inverted, since keys are signed.
    return (octets.view(">u8")[:, 0].astype(np.uint64) ^ np.uint64(1 << 63)).view(np.int64)


_KEYS: Final[Mapping[type[DataType], tuple[Callable[[Any, s.DataType], bool], Callable[[Array], _Keys]]]] = {
    t.Int: (
        lambda from_, to: from_ != t.uint64 and isinstance(to, s.ByteType | s.ShortType | s.IntegerType | s.LongType),
        _integers,
    ),
    t.Date: (lambda from_, to: from_ == date32 and isinstance(to, s.DateType), _integers),
    t.Timestamp: (
        lambda from_, to: (
            from_.unit is t.TimeUnit.MICROSECOND
            and isinstance(to, s.TimestampNTZType if from_.timezone is None else s.TimestampType)
        ),
        _integers,
    ),
    t.FloatingPoint: (
        lambda from_, to: (from_, type(to)) in {(t.float32, s.FloatType), (t.float64, s.DoubleType)},
        _floats,
    ),
    t.Decimal: (
        lambda from_, to: (
            from_.precision <= _MOST_DIGITS
            and from_.bit_width <= 128
            and to == s.DecimalType(from_.precision, from_.scale)
        ),
        _decimals,
    ),
    t.Utf8: (lambda _, to: to == s.StringType(), _prefixes),
    t.LargeUtf8: (lambda _, to: to == s.StringType(), _prefixes),
    t.Binary: (lambda _, to: isinstance(to, s.BinaryType), _prefixes),
    t.LargeBinary: (lambda _, to: isinstance(to, s.BinaryType), _prefixes),
}
"""By the class of a file's type: whether a type of Spark has the same values, and the keys of an array of it."""


def _key_function(stored: DataType, type_: s.DataType) -> Callable[[Array], _Keys] | None:
    row = _KEYS.get(type(stored))
    return row[1] if row is not None and row[0](stored, type_) else None
