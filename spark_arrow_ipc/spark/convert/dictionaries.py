"""Convert dictionary columns: at once, or after rows were filtered and grouped.

How it works
------------
1. The values of a dictionary are converted once, as most files have one dictionary for all batches, and gathered by index.
2. A reader that filters or groups asks for pyarrow's dictionary arrays (`Conversion.encode`): a predicate is evaluated once
   for each value (`by_values`), rows are grouped by index (`spark.functions.partial_aggregates`), and `expand`
   gathers the values of what is left. A dictionary may have nulls, equal values, and values that no row has.
3. Indices that the decoder has not checked are gathered at once, with a check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.errors import InvalidBodyError, OptionError
from spark_arrow_ipc.ipc.constants import Validation
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert.conversion import Conversion, Mask, Refusal, Site


def dictionary(field: t.Field, target: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of Dictionary, which gathers converted values by index."""
    type_ = field.type
    assert isinstance(type_, t.Dictionary)
    values = site.compile(replace(field, type=type_.value), target, site.path, nullable=True)
    memo = _LastDictionary(values, site)
    index_type = bridge.type_to_pyarrow(type_.index)
    # A mapped file may have changed since the decoder checked its indices.
    checked = site.options.validation is Validation.FULL and not site.options.memory_map

    def split(array: Array) -> tuple[pa.Array, pa.Array]:
        assert array.dictionary is not None
        buffers = bridge.buffers_of(array)
        indices = pa.Array.from_buffers(index_type, array.length, buffers, array.null_count, array.offset)
        return memo.convert(array.dictionary), indices

    def convert(array: Array, _live: Mask) -> pa.Array:
        return _take(*split(array), site.path, checked=checked)

    def encode(array: Array) -> pa.Array:
        converted, indices = split(array)
        return pa.DictionaryArray.from_arrays(indices, converted, safe=False)

    # Values that no row has are converted too, so the extremes of the rows do not tell whether one is refused.
    return Conversion(convert, refusal=Refusal.of_parts([values]), encode=encode if checked else None)


def expand(array: pa.Array) -> pa.Array:
    """Return the values of a dictionary array by index, and any other array as it is."""
    if not pa.types.is_dictionary(array.type):
        return array
    from pyarrow import compute

    return compute.take(array.dictionary, array.indices, boundscheck=False)


_REFUSED: Final = object()
"""Stands for the truths of values of which one has none: upper() refuses letters beyond ASCII, and no row may have them."""


class _Values(NamedTuple):
    """Stands for a batch of one column: the values of a dictionary, and null."""

    array: pa.Array

    def column(self, _position: int) -> pa.Array:
        return self.array


def by_values(mask: Callable[[Any], Any], position: int) -> Callable[[Any], Any]:
    """Return a predicate on one dictionary column of a batch that evaluates `mask` once for each value, if these are few."""
    from pyarrow import compute

    last: pa.Array | None = None  # the dictionary of the batch before
    rows = 0  # with this dictionary
    truths: Any = None  # of its values

    def by_index(batch: pa.RecordBatch) -> Any:
        nonlocal last, rows, truths
        array = batch.column(position)
        values = array.dictionary
        if last is None or not is_same(last, values):
            last, rows, truths = values, 0, None
        rows += len(array)
        if truths is None and len(values) <= rows:
            try:
                truths = mask(_Values(pa.concat_arrays([values, pa.nulls(1, values.type)])))
            except OptionError:
                truths = _REFUSED
        if truths is None or truths is _REFUSED:
            return mask(batch)
        if isinstance(truths, pa.Scalar):
            return truths
        indices = array.indices
        if array.null_count:
            indices = compute.fill_null(indices.cast(pa.int64()), bridge.scalar(len(values), pa.int64()))
        return compute.take(truths, indices, boundscheck=False)

    return by_index


def is_same(one: pa.Array, other: pa.Array) -> bool:
    """Return True if two arrays have the same slots in memory."""
    # pyarrow makes a new object of a dictionary at each access.
    return (one.type, len(one), one.offset, _addresses(one)) == (
        other.type,
        len(other),
        other.offset,
        _addresses(other),
    )


def _addresses(array: pa.Array) -> list[int]:
    return [0 if buffer is None else buffer.address for buffer in array.buffers()]


def expanded_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of `expand`."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _take(values: pa.Array, indices: pa.Array, path: str, *, checked: bool) -> pa.Array:
    """Gather values by index; bounds are checked unless the decoder has `checked` them."""
    # Imported late: it takes long, and most tables do not need it.
    from pyarrow import compute

    try:
        return compute.take(values, indices, boundscheck=not checked)
    except (pa.ArrowIndexError, IndexError) as error:
        raise InvalidBodyError(
            expected=f"dictionary indices below {len(values):,}", found=str(error), field_path=path
        ) from error


class _LastDictionary:
    """Caches one dictionary and its converted values."""

    def __init__(self, conversion: Conversion, site: Site) -> None:
        self._conversion = conversion
        self._site = site
        self._last: tuple[Array, pa.Array] | None = None

    def convert(self, dictionary: Array) -> pa.Array:
        """Return the converted values of a dictionary, cached if the last call had the same one."""
        if self._last is None or self._last[0] is not dictionary:
            self._site.dictionaries.hold(self, dictionary, self._site.path)
            self._last = None  # frees the old values before the new ones are made
            self._last = (dictionary, self._conversion.convert(dictionary, None))
        return self._last[1]
