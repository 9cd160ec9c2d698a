"""Decompress LZ4 frames into memory of the caller (LZ4 frame format, 1.6).

The Python functions of the lz4 library return new bytes: a copy of every buffer, a fifth of the time of a scan and a
third for a wide batch. The library's extension module exports the C functions below them, which ctypes calls here. They
are the documented interface of ``lz4frame.h``: bounded by the two lengths among their arguments, and safe on any bytes.
Without them, the Python functions give the same results and errors; a test compares both.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NoReturn

import lz4.frame
import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.ipc.constants import Int64s

_SPEC: Final = "Message.fbs, BodyCompressionMethod.BUFFER"
_API_VERSION: Final = 100  # ``LZ4F_VERSION`` of lz4frame.h since 1.0, an argument of creating a context

# Bytes of output of one call of the library's Python functions: two usual blocks, which stay in the CPU's cache
_PIECE_NBYTES: Final = 128 << 10


class _Options(ctypes.Structure):
    """``LZ4F_decompressOptions_t``; a stable destination lets later blocks refer to earlier output."""

    _fields_ = (("stable_destination", ctypes.c_uint), ("reserved", ctypes.c_uint * 3))


_STABLE: Final = _Options(1)


@dataclass(frozen=True, slots=True)
class _Functions:
    """The functions of lz4frame.h that decompress."""

    create: Callable[..., int]
    free: Callable[..., int]
    reset: Callable[..., None]
    decompress: Callable[..., int]
    is_error: Callable[..., int]
    error_name: Callable[..., bytes]


def _open_library() -> ctypes.CDLL | None:
    """Open the extension module of the lz4 wheel as a C library; None if that fails."""
    # The module is private to the wheel, whose public functions cannot write to existing memory. cramjam's can: 2.14
    # decompresses 512 KiB as fast (149 us, 141 here), but compresses it in 1.5 times the time (1,050 us, 690 here).
    try:
        return ctypes.CDLL(lz4.frame._frame.__spec__.origin)  # noqa: SLF001
    except (AttributeError, OSError):
        return None


_LIBRARY: Final = _open_library()


def _bind() -> _Functions | None:
    """Return the C functions that decompress, or None if the wheel does not export them."""
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library = _LIBRARY
    if library is None:
        return None
    try:
        create, free = library.LZ4F_createDecompressionContext, library.LZ4F_freeDecompressionContext
        reset, decompress = library.LZ4F_resetDecompressionContext, library.LZ4F_decompress
        is_error, error_name = library.LZ4F_isError, library.LZ4F_getErrorName
    except AttributeError:
        return None
    for function, result, arguments in (
        (create, size, (pointer, ctypes.c_uint)),
        (free, size, (pointer,)),
        (reset, None, (pointer,)),
        (decompress, size, (pointer,) * 6),
        (is_error, ctypes.c_uint, (size,)),
        (error_name, ctypes.c_char_p, (size,)),
    ):
        function.restype, function.argtypes = result, arguments
    return _Functions(create, free, reset, decompress, is_error, error_name)


_FUNCTIONS: Final = _bind()


class _Context:
    """A decompression context, whose memory the library uses again for each buffer."""

    def __init__(self, functions: _Functions) -> None:
        self._functions = functions
        self._pointer = ctypes.c_void_p()
        self._is_clean = True  # true if the last frame ended
        self._written, self._read = ctypes.c_size_t(), ctypes.c_size_t()
        self._arguments = (ctypes.addressof(self._written), ctypes.addressof(self._read), ctypes.addressof(_STABLE))
        self._create()

    def _create(self) -> None:
        if self._functions.is_error(self._functions.create(ctypes.addressof(self._pointer), _API_VERSION)):
            raise MemoryError("there is no memory for an LZ4 decompression context")

    def _begin(self) -> None:
        """Forget the previous frame."""
        if not self._is_clean:
            # Up to LZ4 1.9.4 a reset retains the number of bytes that a broken frame still promised, and then refuses a
            # next frame that promises none.
            self._functions.free(self._pointer)
            self._pointer.value = None
            self._create()
        self._functions.reset(self._pointer)
        self._is_clean = False

    def decompress_into(self, frame: memoryview, output: memoryview) -> tuple[int, int, bool]:
        """Decompress; return the bytes read, the bytes written, and whether the frame ended."""
        functions, (written, read, options) = self._functions, self._arguments
        self._begin()
        source, destination = np.asarray(frame).ctypes.data, np.asarray(output).ctypes.data
        consumed = produced = 0
        while True:
            self._read.value, self._written.value = len(frame) - consumed, len(output) - produced
            left = functions.decompress(
                self._pointer, destination + produced, written, source + consumed, read, options
            )
            if functions.is_error(left):
                _refuse(functions.error_name(left).decode())
            consumed, produced = consumed + self._read.value, produced + self._written.value
            if not left or not (self._read.value or self._written.value):
                self._is_clean = not left
                return consumed, produced, not left

    def decompress_all(self, frames: tuple[int, Int64s, Int64s], outputs: tuple[int, Int64s, Int64s]) -> bool:
        """Decompress frames, by the address of a memory with starts and lengths; return True if all ended as declared."""
        source, read = _addresses(*frames)
        destination, written = _addresses(*outputs)
        self._begin()
        # By `map`: a statement of Python for each frame would take as long as the library for one of 16 KiB.
        lefts = map(
            self._functions.decompress, repeat(self._pointer), destination, _addresses_of(written), source,
            _addresses_of(read), repeat(self._arguments[2]),
        )  # fmt: skip
        self._is_clean = not any(lefts)  # otherwise a hint of more bytes, or an error
        return self._is_clean and bool((read == frames[2]).all() and (written == outputs[2]).all())

    def __del__(self) -> None:
        """Free the library's memory."""
        self._functions.free(self._pointer)


def _addresses(memory: int, starts: Int64s, nbytes: Int64s) -> tuple[list[int], npt.NDArray[np.uintp]]:
    """Return the address of each start, and the lengths in the type of the library."""
    addresses: list[int] = (starts + memory).tolist()
    return addresses, nbytes.astype(np.uintp)


def _addresses_of(sizes: npt.NDArray[np.uintp]) -> range:
    """Return the address of each item."""
    address = sizes.ctypes.data
    return range(address, address + sizes.nbytes, sizes.itemsize)


class _Local(threading.local):
    """One context a thread, as a context decompresses one frame at a time."""

    context: _Context | None = None


_LOCAL: Final = _Local()


def _context(functions: _Functions) -> _Context:
    if _LOCAL.context is None:
        _LOCAL.context = _Context(functions)
    return _LOCAL.context


def _decompress_in_pieces(frame: memoryview, output: memoryview) -> tuple[int, int, bool]:
    """Decompress as `_Context.decompress_into`, by the library's Python functions."""
    context = lz4.frame.create_decompression_context()
    consumed = produced = 0
    try:
        while True:
            # One byte more than the room, which only a frame that is too long fills.
            room = min(_PIECE_NBYTES, len(output) - produced + 1)
            piece, read, ended = lz4.frame.decompress_chunk(context, frame[consumed:], max_length=room)
            consumed += read
            if produced + len(piece) > len(output):
                return consumed, len(output), False
            output[produced : produced + len(piece)] = piece
            produced += len(piece)
            if ended or not (read or piece):
                return consumed, produced, ended
    except (RuntimeError, ValueError, EOFError) as error:
        _refuse(str(error))


def decompress_into(frame: memoryview, output: memoryview) -> None:
    """Decompress an LZ4 frame into `output`, which it must fill, without a copy."""
    if _FUNCTIONS is not None:
        consumed, produced, ended = _context(_FUNCTIONS).decompress_into(frame, output)
    else:
        consumed, produced, ended = _decompress_in_pieces(frame, output)
    if not ended or produced != len(output):
        actual = f"{produced:,}" if ended else f"{produced:,}, and the frame goes on"
        raise InvalidBodyError(expected=f"{len(output):,} uncompressed bytes", found=actual, spec=_SPEC)
    if consumed < len(frame):
        surplus = f"{len(frame) - consumed:,} bytes after it"
        raise InvalidBodyError(expected="one LZ4 frame", found=surplus, spec=_SPEC)


def decompress_all(source: memoryview, frames: Int64s, memory: memoryview, outputs: Int64s) -> bool:
    """Decompress many LZ4 frames of one memory into another, each as `decompress_into`; return True if all are sound."""
    # False also for a frame that needs more than one call of the library, which callers decompress again one by one.
    if _FUNCTIONS is not None:
        places = [(np.asarray(data).ctypes.data, *rows.T) for data, rows in ((source, frames), (memory, outputs))]
        return _context(_FUNCTIONS).decompress_all(*places)
    try:
        for (start, nbytes), (to, size) in zip(frames.tolist(), outputs.tolist(), strict=True):
            decompress_into(source[start : start + nbytes], memory[to : to + size])
    except InvalidBodyError:
        return False
    return True


def _refuse(why: str) -> NoReturn:
    raise InvalidBodyError(f"the LZ4 frame is broken: {why}", spec=_SPEC)
