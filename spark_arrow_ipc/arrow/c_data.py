"""Export and import arrays, batches and streams without a copy, through the Arrow PyCapsule interface.

pyarrow makes and reads the capsules (docs/adr/0025-arrow-c-data-interface.md has the reasons). Programs that share
nothing import neither this module nor pyarrow.
https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.pyarrow_bridge import (
    LONE_INTERVALS,
    exact_schema_to_pyarrow,
    exact_type_to_pyarrow,
    field_from_pyarrow,
    from_pyarrow_as,
    metadata_to_pyarrow,
    pairs_of,
    to_pyarrow,
    type_to_pyarrow,
)
from spark_arrow_ipc.arrow.unseen import tolerate_unseen
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidArrowError,
    InvalidBodyError,
    InvalidMetadataError,
    LimitError,
    SchemaMismatchError,
    UnsupportedError,
    cut_repr,
    join_texts,
    printable,
)

import pyarrow as pa  # isort: skip - after pyarrow_bridge, whose error names the missing package

_A = TypeVar("_A", bound=ArrayData)


class ArrowArrayExportable(Protocol):
    """An array or a record batch of any library: pyarrow, nanoarrow, polars, arro3 ..."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return capsules of the type and of the array."""


class ArrowStreamExportable(Protocol):
    """A table, data frame or reader of any library: polars, pandas, DuckDB, pyarrow ..."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of the stream."""


# ---- export


def export_type(type_: t.DataType) -> pa.DataType:
    """Return pyarrow's type, which has ``__arrow_c_schema__``."""
    _has_lone_intervals(type_)
    return exact_type_to_pyarrow(type_)


def export_schema(fields: tuple[t.Field, ...], custom_metadata: t.CustomMetadata) -> pa.Schema:
    """Return pyarrow's schema, which has ``__arrow_c_schema__``."""
    _has_lone_intervals(t.Struct(fields))
    return exact_schema_to_pyarrow(fields, custom_metadata)


@tolerate_unseen
def export_array(array: ArrayData) -> pa.Array:
    """Return pyarrow's array over the same memory, which has ``__arrow_c_array__`` and ``__arrow_c_device_array__``."""
    is_lone = _has_lone_intervals(array.type)
    try:
        theirs = to_pyarrow(array)
    except pa.ArrowInvalid as error:
        raise InvalidBodyError(printable(str(error))) from None
    return _as_type(theirs, exact_type_to_pyarrow(array.type)) if is_lone else theirs


def export_batch(structs: ArrayData, custom_metadata: t.CustomMetadata) -> pa.RecordBatch:
    """Return pyarrow's record batch of structs over the same memory, which exports as an array and as a stream."""
    batch = pa.RecordBatch.from_struct_array(export_array(structs))
    return batch.replace_schema_metadata(metadata_to_pyarrow(custom_metadata)) if custom_metadata else batch


def export_stream(
    fields: tuple[t.Field, ...], custom_metadata: t.CustomMetadata, batches: Iterable[ArrayData]
) -> object:
    """Return a capsule of struct arrays, each made on demand in the consumer's thread."""
    exported = (pa.RecordBatch.from_struct_array(export_array(structs)) for structs in batches)
    reader = pa.RecordBatchReader.from_batches(export_schema(fields, custom_metadata), _WithErrorsOfC(exported))
    capsule: object = reader.__arrow_c_stream__()
    return capsule


def _has_lone_intervals(type_: t.DataType) -> bool:
    """Return whether pyarrow lacks arrays of a type or of one inside it; refuse texts that C strings cannot hold."""
    texts = [field.name for field in type_.children]
    if isinstance(type_, t.Timestamp):
        texts.append(type_.timezone or "")
    elif isinstance(type_, t.Dictionary):
        return _has_lone_intervals(type_.value)
    for text in texts:
        if "\0" in text:  # pyarrow would cut the text at the zero byte
            raise UnsupportedError(f"the Arrow C data interface has no strings with a zero byte, as {text!r} has one")
    inside = [_has_lone_intervals(field.type) for field in type_.children if type(field.type) not in _PLAIN]
    return type(type_) in LONE_INTERVALS or any(inside)


# Type classes without texts and children: the types of most columns
_PLAIN: Final = frozenset({t.Bool, t.Int, t.FloatingPoint, t.Utf8, t.Binary, t.Date, t.Decimal})


def _as_type(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return an array as an array of a type with the same buffers."""
    # The C structure of an array does not name its type. A view would not do: it gives arrays without buffers (nulls, run
    # ends) the length of another array, and readers of unions and lists then leave the memory.
    _, data = array.__arrow_c_array__()
    try:
        return pa.array(_CapsuleHolder((type_.__arrow_c_schema__(), data)))
    except KeyError:  # pyarrow's table of array classes, by the number of a type
        raise UnsupportedError(
            f"pyarrow has no arrays of {type_} outside of lists, structs and record batches"
        ) from None


class _WithErrorsOfC:
    """An iterator that raises its first error again, as a class for which pyarrow has an error code."""

    # A generator that failed would end at the next call, which a consumer takes for the end of the stream.

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._error is None:
            try:
                return next(self._items)
            except StopIteration:
                raise
            except BaseException as error:  # noqa: BLE001 - C has no exceptions
                class_ = next((c for classes, c in _CLASSES if isinstance(error, classes)), OSError)
                self._error = class_(printable(str(error)) or type(error).__name__)
        raise self._error


# The errors with a code in pyarrow; all others become OSError
_CLASSES: Final = (
    ((MemoryError, LimitError), MemoryError),
    ((NotImplementedError, UnsupportedError), NotImplementedError),
    ((ValueError, ArrowIpcError), ValueError),
)


def check_requested(fields: Iterable[t.Field], requested: object | None) -> None:
    """Raise SchemaMismatchError if a consumer's ``requested_schema``, a capsule or None, has other columns.

    "Conversion to this schema is best-effort" (the Arrow PyCapsule interface): other types are for the consumer to convert.
    """
    if requested is None:
        return
    requested_field = _field_of(requested)
    names = [field.name for field in fields]
    requested_names = [field.name for field in requested_field.type.children]
    if names != requested_names:
        raise SchemaMismatchError(
            expected=f"a requested schema of the columns {join_texts([*map(cut_repr, names)])}",
            found=join_texts([*map(cut_repr, requested_names)]),
        )


# ---- import


class _CapsuleHolder(NamedTuple):
    """The capsules of another library, as an object that pyarrow imports."""

    capsules: Any

    def __arrow_c_schema__(self) -> object:
        return self.capsules

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self.capsules  # type: ignore[no-any-return]  # pyarrow checks that they are two

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.capsules


def _capsules(source: Any, method: str) -> Any:
    """Return the capsules from a method of another library's object."""
    give = getattr(source, method, None)
    if not callable(give):
        raise TypeError(
            f"expected an object with {method} (the Arrow PyCapsule interface), found {type(source).__name__}"
        )
    return give()


@contextmanager
def _errors_of(method: str, invalid: type[InvalidArrowError]) -> Iterator[None]:
    """Raise our errors for capsules of a method that pyarrow refuses."""
    try:
        yield
    except KeyError as error:
        raise UnsupportedError(f"pyarrow has no arrays of the type number {error} outside of record batches") from None
    except (UnicodeDecodeError, pa.ArrowInvalid) as error:
        raise invalid(f"{method}: {printable(str(error))}") from None
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"{method}: {printable(str(error))}") from None
    except ArrowIpcError:
        raise
    except ValueError as error:
        if any(text in str(error) for text in ("Not an Arrow", "PyCapsule")):
            raise TypeError(f"expected capsules from {method}: {error}") from None
        raise invalid(str(error)) from None  # a parameter that one of our types refuses


def _field_of(capsule: object) -> t.Field:
    with _errors_of("__arrow_c_schema__", InvalidMetadataError):
        return field_from_pyarrow(pa.field(_CapsuleHolder(capsule)))


def import_field(source: Any) -> t.Field:
    """Return the type of an object with ``__arrow_c_schema__``, as a field."""
    return _field_of(_capsules(source, "__arrow_c_schema__"))


def import_array(source: Any, make: Callable[..., _A]) -> tuple[t.Field, _A]:
    """Return the type and the array of an object with ``__arrow_c_array__``, made by `make`."""
    method = "__arrow_c_array__"
    schema, array = _capsules(source, method)
    with _errors_of(method, InvalidMetadataError):
        theirs = pa.field(_CapsuleHolder(schema))
        field = field_from_pyarrow(theirs)
    with _errors_of(method, InvalidBodyError):
        return field, _import(pa.array(_CapsuleHolder((theirs.type.__arrow_c_schema__(), array))), field, make)


def _import(theirs: pa.Array, field: t.Field, make: Callable[..., _A]) -> _A:
    if _has_lone_intervals(field.type):
        theirs = _as_type(theirs, type_to_pyarrow(field.type))
    theirs.validate()  # before a negative length reaches Python
    array = from_pyarrow_as(theirs, field.type, make)
    if array.length > _MOST_FREE_SLOTS and not any(theirs.buffers()):  # buffers bound the slots of all other arrays
        raise InvalidBodyError(
            expected=f"at most {_MOST_FREE_SLOTS:,} slots without memory",
            found=f"{array.length:,}",
            field_path=field.name,
        )
    return array


# Slots of an array without memory (nulls, runs, structs without bitmaps), as `ipc.Limits.max_slots`
_MOST_FREE_SLOTS: Final = 2**31 - 1


class ImportedStream:
    """The arrays of an object with ``__arrow_c_stream__``, in order and once."""

    _METHOD: Final = "__arrow_c_stream__"

    def __init__(self, source: Any) -> None:
        capsule = _capsules(source, self._METHOD)
        self._producer = type(source).__name__
        self._reader: pa.RecordBatchReader | None = self._call(
            pa.RecordBatchReader.from_stream, _CapsuleHolder(capsule)
        )
        with _errors_of(self._METHOD, InvalidMetadataError):
            fields = t.Struct(tuple(map(field_from_pyarrow, self._reader.schema)))
            self.field = t.Field("", fields, nullable=False, custom_metadata=pairs_of(self._reader.schema))

    def next(self, make: Callable[..., _A]) -> _A | None:
        """Return the next array, made by `make`, or None at the end; an error ends the stream."""
        if self._reader is None:
            return None
        batch = self._call(next, self._reader, None)
        if batch is None:
            self.close()
            return None
        with _errors_of(self._METHOD, InvalidBodyError):
            return _import(batch.to_struct_array(), self.field, make)

    def close(self) -> None:
        """Release the stream; earlier arrays stay valid."""
        self._reader = None

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the producer, and raise its errors as ours."""
        try:
            return function(*arguments)
        except (pa.ArrowException, OSError, ValueError) as error:
            self.close()
            if "non-struct" in str(error):
                raise TypeError(f"expected the structs of a record batch, found: {error}") from None
            class_ = UnsupportedError if isinstance(error, NotImplementedError) else ArrowIpcError
            raise class_(f"the Arrow stream of {self._producer}: {error}") from None
