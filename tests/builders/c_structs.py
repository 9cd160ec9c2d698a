"""The structures of Arrow's C data interface as some producer might write them, for tests of what we take."""

import ctypes
import struct

import numpy as np

SCHEMA = struct.Struct("@3P2q4P")
ARRAY = struct.Struct("@5q5P")
_RELEASE_AT = {SCHEMA: SCHEMA.size - 16, ARRAY: ARRAY.size - 16}
_NAMES = {SCHEMA: ctypes.c_char_p(b"arrow_schema"), ARRAY: ctypes.c_char_p(b"arrow_array")}

_NUMBERS = np.arange(8, dtype=np.int32)

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def address_of(memory):
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def capsule(structure, address):
    """Return a capsule that releases nothing when it goes: who takes it does."""
    return _new(address, ctypes.cast(_NAMES[structure], ctypes.c_void_p), None)


class Producer:
    """Makes structures, and counts their releases."""

    def __init__(self):
        self.released = 0
        self.kept = []

        def releasing(structure):
            @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
            def release(address):
                self.released += structure is ARRAY
                ctypes.c_void_p.from_address(address + _RELEASE_AT[structure]).value = None

            return release

        self._functions = {structure: releasing(structure) for structure in (SCHEMA, ARRAY)}

    def _made(self, structure, values, *, released, kept):
        memory = bytearray(structure.size)
        release = 0 if released else ctypes.cast(self._functions[structure], ctypes.c_void_p).value
        structure.pack_into(memory, 0, *values, release, 0)
        self.kept.append((memory, kept))
        return address_of(memory)

    def array(
        self, length=2, null_count=0, offset=0, buffers=(None, _NUMBERS), children=(), n_buffers=None, n_children=None,
        dictionary=None, released=False,
    ):  # fmt: skip
        """Return the address of an array; `buffers` are arrays of numpy."""
        addresses = [0 if buffer is None else buffer.ctypes.data for buffer in buffers]
        lists = [(ctypes.c_size_t * max(len(part), 1))(*part) for part in (addresses, children)]
        values = (
            length, null_count, offset, len(buffers) if n_buffers is None else n_buffers,
            len(children) if n_children is None else n_children,
            *(ctypes.addressof(part) if given else 0 for part, given in zip(lists, (buffers, children), strict=True)),
            dictionary or 0,
        )  # fmt: skip
        return self._made(ARRAY, values, released=released, kept=(buffers, lists))

    def schema(
        self, format_=b"i", name=b"a", metadata=None, flags=2, children=(), n_children=None, dictionary=None, released=False
    ):  # fmt: skip
        """Return the address of a schema."""
        texts = [None if text is None else ctypes.create_string_buffer(text) for text in (format_, name, metadata)]
        below = (ctypes.c_size_t * max(len(children), 1))(*children)
        values = (
            *(0 if text is None else ctypes.addressof(text) for text in texts), flags,
            len(children) if n_children is None else n_children, ctypes.addressof(below) if children else 0,
            dictionary or 0,
        )  # fmt: skip
        return self._made(SCHEMA, values, released=released, kept=(texts, below))


class Gives:
    """An object with the methods of the interface."""

    def __init__(self, schema, array=None):
        self.schema, self.array = schema, array

    def __arrow_c_schema__(self):
        return self.schema

    def __arrow_c_array__(self, requested_schema=None):
        return self.schema, self.array
