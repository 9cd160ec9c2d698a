"""`in_zone`: label the timestamps of batches with a time zone.

Strategy
--------
A Python data source gives Spark timestamps in UTC, and ``DataFrame.mapInArrow`` gives functions timestamps in the
session's zone. The instants are the same numbers; what a function computes of them (`hour`, `strftime`) is not. So
that a function gives the same answer here, its input carries the session's zone. A label is a part of the type: batches
with another one share all memory. (pyarrow's own cast refuses a struct whose null slots have null in a field that says
NOT NULL below them, as variants do.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.spark import bridge


def in_zone(batches: Iterable[pa.RecordBatch], zone: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches with all timestamps that have a zone in `zone`; those without one stay."""
    was: Any = None
    wanted: Any = None
    changed: list[int] = []
    for batch in batches:
        if was is None or not batch.schema.equals(was, check_metadata=True):
            was = batch.schema
            wanted = pa.schema([field.with_type(_labelled(field.type, zone)) for field in was], was.metadata)
            changed = [i for i, field in enumerate(was) if wanted.field(i).type != field.type]
        if not changed:
            yield batch
            continue
        columns = batch.columns
        for i in changed:
            type_ = bridge.type_from_pyarrow(wanted.field(i).type)
            columns[i] = bridge.to_pyarrow(_retyped(bridge.from_pyarrow(columns[i]), type_))
        yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _retyped(array: Array, type_: t.DataType) -> Array:
    children = tuple(_retyped(child, field.type) for child, field in zip(array.children, type_.children, strict=True))
    return replace(array, type=type_, children=children)


def _labelled(type_: pa.DataType, zone: str) -> pa.DataType:
    """Return a type of Spark's with the zone in its timestamps."""
    if pa.types.is_timestamp(type_):
        return type_ if type_.tz is None else pa.timestamp(type_.unit, zone)
    if pa.types.is_list(type_):
        return pa.list_(_field(type_.value_field, zone))
    if pa.types.is_map(type_):
        return pa.map_(_field(type_.key_field, zone), _field(type_.item_field, zone))
    if pa.types.is_struct(type_):
        return pa.struct([_field(field, zone) for field in type_])
    return type_


def _field(field: pa.Field, zone: str) -> pa.Field:
    return field.with_type(_labelled(field.type, zone))
