"""Record batches as ``struct ArrowArrayStream``, one after the other, and back.

A stream that we hand out takes a batch from its iterator when the consumer asks for one. An error of the iterator becomes the
error code of the call, and its text what ``get_last_error`` returns; it ends the stream, and further calls repeat it.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.c_data.callbacks import callback
from spark_arrow_ipc.arrow.c_data.export_arrays import export_array
from spark_arrow_ipc.arrow.c_data.exports import Exporter
from spark_arrow_ipc.arrow.c_data.import_arrays import import_array
from spark_arrow_ipc.arrow.c_data.schemas import export_field, import_field
from spark_arrow_ipc.arrow.c_data.structs import (
    ARRAY,
    SCHEMA,
    STREAM,
    Moved,
    address_of,
    capsule_address,
    read_array,
    read_stream,
)
from spark_arrow_ipc.errors import ArrowIpcError, LimitError, UnsupportedError, printable

_A = TypeVar("_A", bound=ArrayData)

_CODES: Final = (
    (MemoryError, errno.ENOMEM),
    (LimitError, errno.ENOMEM),
    (NotImplementedError, errno.ENOSYS),
    (ValueError, errno.EINVAL),
    (ArrowIpcError, errno.EINVAL),
    (KeyboardInterrupt, errno.ECANCELED),
)
"""Error codes by class; EIO for all others. `pyarrow` makes MemoryError, NotImplementedError, ValueError and OSError of them."""


class _Source:
    """The batches of a stream that we hand out, and its last error."""

    def __init__(self, field: t.Field, batches: Iterator[ArrayData]) -> None:
        self.field = field
        self.batches = batches
        self.structure = bytearray(STREAM.nbytes)
        self.code = 0
        self.message: Any = None

    def call(self, write: Callable[[int], None], target: int) -> int:
        """Call a function with the address of a structure that it writes; return its error code."""
        if not self.code:
            try:
                write(target)
            except BaseException as error:  # noqa: BLE001 - C has no exceptions
                self.code = next((code for class_, code in _CODES if isinstance(error, class_)), errno.EIO)
                text = printable(str(error)) or type(error).__name__
                self.message = ctypes.create_string_buffer(text.encode(errors="replace"))
        return self.code

    def write_schema(self, target: int) -> None:
        """Write the schema."""
        export_field(self.field, target)

    def write_next(self, target: int) -> None:
        """Write the next array, or one that is released at the end."""
        batch = next(self.batches, None)
        if batch is None:
            ARRAY.mark_released(target)
        else:
            export_array(batch, target)


def _source(address: int) -> _Source:
    source: _Source = _EXPORTER.memory_of(read_stream(address).private_data)
    return source


def _get_schema(address: int, target: int) -> int:
    source = _source(address)
    return source.call(source.write_schema, target)


def _get_next(address: int, target: int) -> int:
    source = _source(address)
    return source.call(source.write_next, target)


def _get_last_error(address: int) -> int | None:
    message = _source(address).message
    return None if message is None else ctypes.addressof(message)


_Get: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_GetText: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

_EXPORTER: Final = Exporter(STREAM)
_FUNCTIONS: Final = (
    callback(_Get, _get_schema),
    callback(_Get, _get_next),
    callback(_GetText, _get_last_error),
    _EXPORTER.release,
)


def stream_capsule(field: t.Field, batches: Iterator[ArrayData]) -> object:
    """Return a capsule named ``arrow_array_stream``. Takes no batch yet.

    Parameters
    ----------
    field
        The schema, as `struct_field` makes it of one.
    batches
        Struct arrays, each taken when the consumer asks for it, in the consumer's thread.
    """
    source = _Source(field, batches)
    address = address_of(source.structure)
    STREAM.layout.pack_into(source.structure, 0, *_FUNCTIONS, address)
    _EXPORTER.keep(address, source)
    return _EXPORTER.capsule(address, source.structure)


class ImportedStream:
    """The arrays of another library's stream, in order and once.

    Parameters
    ----------
    capsule
        Of ``__arrow_c_stream__``; it is empty afterwards, also after an error.
    producer
        The name of the library's class, for errors.

    Raises
    ------
    TypeError, ValueError
        It is no such capsule, or an empty one.
    ArrowIpcError
        The producer has an error, or a schema that is none.
    """

    def __init__(self, capsule: object, producer: str) -> None:
        self._producer = producer
        self._moved: Moved | None = Moved(STREAM, capsule_address(capsule, STREAM, "__arrow_c_stream__"))
        self._functions = read_stream(self._moved.address)
        schema = self._call(self._functions.get_schema, SCHEMA)
        try:
            self.field = import_field(schema.address)
        finally:
            schema.release()

    def next(self, make: Callable[..., _A]) -> _A | None:
        """Return the next array, made by `make`, or None at the end.

        Raises
        ------
        ArrowIpcError
            The producer has an error, whose text is the message, or gives no array of the schema.
        """
        if self._moved is None:
            return None
        moved = self._call(self._functions.get_next, ARRAY)
        if read_array(moved.address).release:
            return import_array(moved, self.field, make)
        self.close()
        return None

    def close(self) -> None:
        """Release the stream. Arrays that were taken stay valid."""
        if self._moved is not None:
            moved, self._moved = self._moved, None
            moved.release()

    def _call(self, function: int, structure: Any) -> Moved:
        assert self._moved is not None
        target = bytearray(structure.nbytes)
        address = address_of(target)
        code = _Get(function)(self._moved.address, address)
        if not code:
            return Moved(structure, address)
        text = _GetText(self._functions.get_last_error)(self._moved.address)
        message = ctypes.string_at(text).decode(errors="replace") if text else errno.errorcode.get(code, str(code))
        self.close()
        raise _error_of(code)(f"the Arrow stream of {self._producer}: {message}")


def _error_of(code: int) -> type[ArrowIpcError]:
    return UnsupportedError if code == errno.ENOSYS else ArrowIpcError
