"""The three structures of the C data interface, and the capsules that carry them.

Strategy
--------
A structure is read into a tuple with names, and written with `struct.Struct`, whose native mode has the sizes and
alignment of the machine's C compiler. Addresses are numbers.

A structure is *moved*, never shared: who takes it copies its bytes and sets ``release`` of the original to NULL. One whose
``release`` is NULL holds nothing.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

_POINTER_NBYTES: Final = struct.calcsize("P")


class ArrowSchema(NamedTuple):
    """``struct ArrowSchema``: a type with a name, and those of its children."""

    format: int
    name: int
    metadata: int
    flags: int
    n_children: int
    children: int
    dictionary: int
    release: int
    private_data: int


class ArrowArray(NamedTuple):
    """``struct ArrowArray``: the memory of an array, and of its children."""

    length: int
    null_count: int
    offset: int
    n_buffers: int
    n_children: int
    buffers: int
    children: int
    dictionary: int
    release: int
    private_data: int


class ArrowArrayStream(NamedTuple):
    """``struct ArrowArrayStream``: functions that give a schema, and one array after the other."""

    get_schema: int
    get_next: int
    get_last_error: int
    release: int
    private_data: int


class Structure:
    """The layout of one structure.

    What runs when something is released uses the attributes of objects and no global names: when the interpreter ends,
    those of the modules are gone before the last object is.
    """

    def __init__(self, layout: str, fields: tuple[str, ...], capsule: bytes) -> None:
        self.layout = struct.Struct(layout)
        self.fields = fields
        self.nbytes = self.layout.size
        self.release_at = self.nbytes - 2 * _POINTER_NBYTES
        self.private_data_at = self.nbytes - _POINTER_NBYTES
        self.capsule = capsule
        self._children = fields.index("n_children") if "n_children" in fields else None
        self._bytes = ctypes.c_char * self.nbytes
        self._pointer = ctypes.c_void_p
        self._word = ctypes.c_size_t

    def pack_many(self, values: Sequence[int], memory: bytearray) -> None:
        """Write structures one after the other to the start of a memory, given the values of all fields of all."""
        count = len(values) // len(self.fields)
        struct.pack_into("@" + self.layout.format.removeprefix("@") * count, memory, 0, *values)

    def at(self, address: int) -> Any:
        """Return the bytes at an address, to be read and written."""
        return self._bytes.from_address(address)

    def is_released(self, address: int) -> bool:
        """Return whether the structure at an address holds nothing."""
        return self._pointer.from_address(address + self.release_at).value is None

    def mark_released(self, address: int) -> None:
        """Set ``release`` of the structure at an address to NULL."""
        self._pointer.from_address(address + self.release_at).value = None

    def private_data(self, address: int) -> int:
        """Return ``private_data`` of the structure at an address."""
        return int(self._word.from_address(address + self.private_data_at).value)

    def inner(self, address: int) -> list[int]:
        """Return the addresses of the children and the dictionary of the structure at an address."""
        values = self.layout.unpack_from(self.at(address))
        if self._children is None:
            return []
        addresses = (self._word * values[self._children]).from_address(values[-4])[:] if values[-4] else []
        return [*addresses, values[-3]] if values[-3] else addresses


SCHEMA_CAPSULE: Final = b"arrow_schema"
ARRAY_CAPSULE: Final = b"arrow_array"
STREAM_CAPSULE: Final = b"arrow_array_stream"

SCHEMA: Final = Structure("@3P2q4P", ArrowSchema._fields, SCHEMA_CAPSULE)
ARRAY: Final = Structure("@5q5P", ArrowArray._fields, ARRAY_CAPSULE)
STREAM: Final = Structure("@5P", ArrowArrayStream._fields, STREAM_CAPSULE)
DEVICE_ARRAY: Final = Structure("@5q5P", ArrowArray._fields, b"arrow_device_array")
"""The array at the beginning of ``struct ArrowDeviceArray``; `DEVICE` is the rest."""
DEVICE: Final = struct.Struct("@qiP3q")
"""The number and kind of a device, an event to wait for, and what is reserved."""


def read_schema(address: int) -> ArrowSchema:
    """Return the structure at an address."""
    return ArrowSchema(*SCHEMA.layout.unpack_from(SCHEMA.at(address)))


def read_array(address: int) -> ArrowArray:
    """Return the structure at an address."""
    return ArrowArray(*ARRAY.layout.unpack_from(ARRAY.at(address)))


def read_stream(address: int) -> ArrowArrayStream:
    """Return the structure at an address."""
    return ArrowArrayStream(*STREAM.layout.unpack_from(STREAM.at(address)))


_WORDS: Final = ctypes.c_size_t


def pointers(address: int, count: int) -> list[int]:
    """Return the pointers at an address; a NULL is 0."""
    return list((_WORDS * count).from_address(address)) if count else []


def c_string(address: int) -> bytes:
    """Return the bytes at an address up to the first zero."""
    return ctypes.string_at(address)


_BYTE: Final = ctypes.c_char


def address_of(memory: bytearray) -> int:
    """Return the address of the bytes of a bytearray whose size does not change any more."""
    return ctypes.addressof(_BYTE.from_buffer(memory))


class _PyBuffer(ctypes.Structure):
    """``Py_buffer`` of CPython's stable ABI."""

    _fields_ = (
        ("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_void_p), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    )  # fmt: skip


_get_buffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)(
    ("PyObject_GetBuffer", ctypes.pythonapi)
)
_release_buffer = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("PyBuffer_Release", ctypes.pythonapi))


class Addresses:
    """Tells the addresses of buffers, in half the time of numpy's ``__array_interface__``. Not for two threads at once."""

    __slots__ = ("_address", "_buffer", "_first")

    def __init__(self) -> None:
        self._buffer = _PyBuffer()
        self._address = ctypes.addressof(self._buffer)
        self._first = ctypes.c_size_t.from_buffer(self._buffer)

    def of(self, memory: memoryview) -> int:
        """Return the address of the first byte."""
        _get_buffer(memory, self._address, 0)
        address = self._first.value
        _release_buffer(self._address)
        return address


_RELEASE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Moved:
    """A structure that was taken from its producer. It is released when the last reference goes.

    Parameters
    ----------
    structure
        Its layout.
    source
        The address of the producer's, which is marked as released: the memory is that of this object from now on.
    """

    def __init__(self, structure: Structure, source: int) -> None:
        self._memory = bytearray(structure.at(source).raw)
        self._structure = structure
        self._function = _RELEASE(structure.layout.unpack_from(self._memory)[-2])
        self.address = address_of(self._memory)
        structure.mark_released(source)

    def release(self) -> None:
        """Call the producer's release. The second call does nothing."""
        if not self._structure.is_released(self.address):
            self._function(self.address)
            self._structure.mark_released(self.address)

    def __del__(self) -> None:
        self.release()


# Capsules

_T = TypeVar("_T")

_inc_ref = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def keep_for_ever(value: _T) -> _T:
    """Return a value that is never freed: others may call it or read it until the process ends."""
    _inc_ref(value)
    return value


_NAMES: Final = keep_for_ever({s.capsule: ctypes.c_char_p(s.capsule) for s in (SCHEMA, ARRAY, STREAM, DEVICE_ARRAY)})


def new_capsule(structure: Structure, address: int, destructor: int) -> object:
    """Return a capsule of the structure at an address.

    Parameters
    ----------
    structure
        It has the name of the capsule.
    address
        Memory that stays until the destructor runs.
    destructor
        The address of a function that takes the capsule.
    """
    return _new(address, ctypes.cast(_NAMES[structure.capsule], ctypes.c_void_p), destructor)


def capsule_address(capsule: object, structure: Structure, method: str) -> int:
    """Return the address of the structure in a capsule.

    Raises
    ------
    TypeError
        It is no capsule of the structure's name.
    ValueError
        The structure was already taken out of it.
    """
    if not _is_valid(capsule, structure.capsule):
        name = structure.capsule.decode()
        raise TypeError(f"expected a capsule {name!r} from {method}, found {type(capsule).__name__}")
    address = int(_get_pointer(capsule, structure.capsule))
    if structure.is_released(address):
        raise ValueError(f"expected a capsule from {method} that nobody has used, found one that is empty")
    return address
