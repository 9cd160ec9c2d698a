"""The Arrow PyCapsule interface: what the methods ``__arrow_c_...__`` of our classes give, and what those of others are asked.

https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.c_data.export_arrays import array_capsule, device_array_capsule
from spark_arrow_ipc.arrow.c_data.import_arrays import array_of_capsule
from spark_arrow_ipc.arrow.c_data.schemas import (
    check_requested,
    field_capsule,
    field_of_capsule,
    method_of,
    struct_field,
)
from spark_arrow_ipc.arrow.c_data.streams import ImportedStream, stream_capsule

__all__ = [
    "ArrowArrayExportable",
    "ArrowStreamExportable",
    "array_capsules",
    "array_from",
    "device_array_capsules",
    "field_capsule",
    "requested_struct",
    "stream_capsule",
    "stream_from",
    "struct_field",
]

_A = TypeVar("_A", bound=ArrayData)


class ArrowArrayExportable(Protocol):
    """An array or a record batch of any library: pyarrow, nanoarrow, polars, arro3 ..."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return capsules of the type and of the array."""


class ArrowStreamExportable(Protocol):
    """A table, data frame or reader of any library: polars, pandas, DuckDB, pyarrow ..."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of the stream."""


def requested_struct(
    fields: tuple[t.Field, ...], custom_metadata: t.CustomMetadata, requested_schema: object | None
) -> t.Field:
    """Return the struct field of record batches, for a consumer that may have requested a schema.

    Raises
    ------
    SchemaMismatchError
        The requested schema has other columns.
    """
    check_requested(fields, requested_schema)
    return struct_field(fields, custom_metadata)


def array_capsules(array: ArrayData, field: t.Field) -> tuple[object, object]:
    """Return the capsules of an array and of its type."""
    return field_capsule(field), array_capsule(array)


def device_array_capsules(array: ArrayData, field: t.Field, others: Mapping[str, object]) -> tuple[object, object]:
    """Return the capsules of an array in the memory of the CPU, and of its type.

    Raises
    ------
    NotImplementedError
        `others`, what the consumer asked for by names of later versions of the interface, is not None throughout.
    """
    if any(value is not None for value in others.values()):
        raise NotImplementedError(
            f"expected no other arguments of the Arrow PyCapsule interface, found {', '.join(others)}"
        )
    return field_capsule(field), device_array_capsule(array)


def array_from(source: Any, make: Callable[..., _A]) -> tuple[t.Field, _A]:
    """Return the type and the array that an object gives with ``__arrow_c_array__``, made by `make`.

    Raises
    ------
    TypeError
        It has no such method.
    ArrowIpcError
        It is no array of the format.
    """
    schema, array = method_of(source, "__arrow_c_array__")()
    field = field_of_capsule(schema)
    return field, array_of_capsule(array, field, make)


def stream_from(source: Any) -> ImportedStream:
    """Return the stream that an object gives with ``__arrow_c_stream__``.

    Raises
    ------
    TypeError
        It has no such method.
    ArrowIpcError
        It has an error, or its schema is none of the format.
    """
    return ImportedStream(method_of(source, "__arrow_c_stream__")(), type(source).__name__)
