"""Group rows by their partition columns, and name the directory of each group.

How it works: a key column is converted to one or more columns of 64-bit words that are equal exactly if the values are: the
bits of a fixed-width value, or eight bytes of a string at a time. Their ranks are combined into one number for each row.
Python code runs once for each distinct key, to name its directory; keys with the same name (null and the empty string, two
NaNs with different bits) are one partition.

Each name is parsed again as a reader parses it, and refused if that gives another value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.order import dense_ranks
from spark_arrow_ipc.arrow.kernels.take import Slots, take
from spark_arrow_ipc.dataset.listing.partition_values import (
    PartitionValue,
    cast,
    partition_directory,
    unescape_path_name,
)
from spark_arrow_ipc.dataset.time_zones import is_certain, zone
from spark_arrow_ipc.errors import ArrowIpcError, LimitError, OptionError, UnsupportedError, cut_repr, error_context

Words: TypeAlias = npt.NDArray[np.uint64]

MAX_NAME_NBYTES: Final = 255
"""Maximum length of a name in the usual file systems."""


def check_partition_columns(fields: Sequence[t.Field], positions: Sequence[int]) -> None:
    """Raise if columns cannot be the partition columns of a table, by Spark's rules."""
    names = [fields[i].name for i in positions]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise OptionError(expected="each partition column once in partitionBy", found=", ".join(twice))
    if len(positions) == len(fields):
        raise OptionError(
            expected="a column that stays in the files", found=f"all columns in partitionBy ({', '.join(names)})"
        )
    for i in positions:
        type_ = fields[i].type
        nanoseconds = isinstance(type_, t.Time) and type_.unit is t.TimeUnit.NANOSECOND
        if type(type_) not in PARTITIONABLE or nanoseconds:
            raise UnsupportedError(
                f"a column of type {type_} cannot be a partition column; cast it to string, or leave it out of "
                "partitionBy",
                field_path=fields[i].name,
            )


def group_rows(columns: Sequence[Array]) -> tuple[Slots, Slots]:
    """Return the number of each row's distinct key, and the first row of each number."""
    # O(rows) for each word of a key with a small range of values, O(rows log rows) for others.
    numbers: Slots | None = None
    for column in columns:
        for words in _WORDS[type(column.type)](column):
            of_words = dense_ranks(words)
            number = int(of_words.max(initial=0)) + 1
            if numbers is None:
                numbers = of_words
            elif number > 1:  # a constant word, such as validity without nulls, changes nothing
                numbers = dense_ranks(numbers * number + of_words)
    assert numbers is not None, "there is at least one partition column"
    first_rows = np.empty(int(numbers.max(initial=-1)) + 1, np.int64)
    first_rows[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of several rows the last assignment stays
    return numbers, first_rows


def directories_of(
    names: Sequence[str], columns: Sequence[Array], rows: Slots, time_zone: str | None = None
) -> list[str]:
    """Return the relative directory for each of `rows`, one for each distinct key, with instants in the time zone."""
    values = []
    for name, column in zip(names, columns, strict=True):
        with error_context(field_path=name):
            values.append(_values(take(column, rows), time_zone))
    directories = [partition_directory(names, row) for row in zip(*values, strict=True)]
    for directory, row in zip(directories, zip(*values, strict=True), strict=True):
        for column, name, value in zip(columns, directory.split("/"), row, strict=True):
            _check_read_back(name, value, column.type, time_zone or "UTC")
            if len(name.encode()) > MAX_NAME_NBYTES:
                raise LimitError(
                    f"a partition's directory would have a name of {len(name.encode())} bytes, and file systems take "
                    f"{MAX_NAME_NBYTES}: {name[:40]}...; partition by something shorter"
                )
    return directories


def _values(column: Array, time_zone: str | None) -> list[PartitionValue | np.generic]:
    if isinstance(column.type, t.FloatingPoint):  # numpy's scalars, as their width decides the digits
        mask = array_data.validity_mask(column)
        numbers = list(array_data.data_values(column))
        return numbers if mask is None else [v if ok else None for v, ok in zip(numbers, mask, strict=True)]
    values = column.to_pylist()
    if isinstance(column.type, (t.Date, t.Timestamp, t.Time)):
        for value in values:
            if isinstance(value, int):  # not a value of Python's class
                raise UnsupportedError(
                    f"a value of {column.type} that is outside the years 1 to 9999, outside the day or between two "
                    f"microseconds (the count {value:,}) cannot name a partition's directory"
                )
    if isinstance(column.type, t.Timestamp) and column.type.timezone is not None:
        return [_local(value, time_zone or "UTC") if isinstance(value, datetime) else None for value in values]
    return values


def _local(value: datetime, time_zone: str) -> datetime:
    try:
        local = value.astimezone(zone(time_zone))
    except OverflowError as error:
        raise _refusal(value, time_zone, "its local time is outside the years 1 to 9999") from error
    assert local.tzinfo is not None
    if not is_certain(local, local.tzinfo):
        reason = "the tables of Python and of Spark's JVM may differ for that time, so that it could be read as another"
        raise _refusal(value, time_zone, reason)
    if local.fold:
        # Java reads such a local time as the earlier of its two instants.
        reason = (
            f"its local time {local:%Y-%m-%d %H:%M:%S} comes twice when clocks go back, and is read as the earlier one"
        )
        raise _refusal(value, time_zone, reason)
    return local


def _refusal(instant: datetime, time_zone: str, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"the instant {instant:%Y-%m-%d %H:%M:%S%z} cannot name a partition's directory in the time zone {time_zone}, "
        f"because {reason}: set spark.sql.session.timeZone to UTC or to an offset, here and where it is read, or "
        "partition by a date or a string"
    )


def _check_read_back(segment: str, value: PartitionValue | np.generic, type_: t.DataType, time_zone: str) -> None:
    """Raise if a reader with the column's type would parse another value from the name of a directory."""
    escaped, _, raw = segment.partition("=")
    try:
        read = cast(raw, type_, time_zone)
    except (ArrowIpcError, ValueError):
        read = cut_repr(raw)
    if _is_same(value, read):
        return
    raise UnsupportedError(
        f"the value {cut_repr(value)} of type {type_} cannot name a partition's directory: it would be read back as "
        f"{'null' if read is None else cut_repr(read)}; change it, or leave this column out of partitionBy",
        field_path=unescape_path_name(escaped),
    )


def _is_same(value: object, read: object) -> bool:
    if isinstance(value, datetime) and isinstance(read, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC) == read  # aware times of two zones are never equal where clocks go back
    if isinstance(value, (float, np.floating)) and isinstance(read, float):
        return float(value).hex() == read.hex()  # unlike the sign of zero, the bits of NaN do not count
    return value in ("", b"") if read is None and value is not None else value == read


def _validity(column: Array) -> list[Words]:
    mask = array_data.validity_mask(column)
    return [] if mask is None else [mask.astype(np.uint64)]


def _of_numbers(column: Array) -> list[Words]:
    values = np.ascontiguousarray(array_data.data_values(column))
    nbytes = values.dtype.itemsize
    if nbytes < 8:
        words = [values.view(f"u{nbytes}").astype(np.uint64)]
    else:
        table = values.view(np.uint64).reshape(len(values), nbytes // 8)
        words = [np.ascontiguousarray(table[:, i]) for i in range(nbytes // 8)]
    return _without_nulls(column, words)


def _without_nulls(column: Array, words: list[Words]) -> list[Words]:
    mask = array_data.validity_mask(column)
    if mask is not None:
        # The value of a null slot is arbitrary, and would make groups of its own.
        words = [np.where(mask, word, np.uint64(0)) for word in words]
    return [*_validity(column), *words]


_BYTE_MASKS: Final = np.array([(1 << 8 * n) - 1 for n in range(8)] + [2**64 - 1], np.uint64)
"""Masks that keep the first 0 to 8 bytes of a little-endian word."""


def _of_strings(column: Array) -> list[Words]:
    offsets = array_data.value_offsets(column).astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    mask = array_data.validity_mask(column)
    if mask is not None:
        lengths = np.where(mask, lengths, 0)
    most = int(lengths.max(initial=0))
    if most > MAX_NAME_NBYTES:
        raise LimitError(
            f"a value of {most:,} bytes cannot name a partition's directory: file systems take {MAX_NAME_NBYTES}; "
            "partition by something shorter"
        )
    # Padded, so that a word can begin at the last byte.
    data = np.frombuffer(bytes(column.buffers[2] or b"") + bytes(8), np.uint8)
    # A word begins at every byte; bytes after the end of a string are masked.
    all_words = np.lib.stride_tricks.as_strided(np.frombuffer(data, "<u8", 1), (len(data) - 7,), (1,), writeable=False)
    words = [lengths.astype(np.uint64)]
    for i in range(0, most, 8):
        left = np.clip(lengths - i, 0, 8)
        words.append(all_words[np.where(left > 0, starts + i, 0)] & _BYTE_MASKS[left])
    return [*_validity(column), *words]


_WORDS: Final[Mapping[type[t.DataType], Callable[[Any], list[Words]]]] = {
    t.Bool: lambda column: _without_nulls(column, [array_data.data_values(column).astype(np.uint64)]),
    **dict.fromkeys((t.Int, t.FloatingPoint, t.Decimal, t.Date, t.Time, t.Timestamp), _of_numbers),
    **dict.fromkeys((t.Utf8, t.LargeUtf8, t.Binary, t.LargeBinary), _of_strings),
}

PARTITIONABLE: Final = frozenset(_WORDS)
"""Type classes of partition columns; of times, only those without nanoseconds."""
