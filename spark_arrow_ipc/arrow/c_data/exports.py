"""What others hold of ours: memory that stays until it is released.

Strategy
--------
A structure that we hand out has the address of its first home as ``private_data``: a number that no other structure has
while this one lives. `_live` keeps the memory of each structure under it, also after the structure was moved, and the
release takes it out. A child may be moved and outlive its parent, so each has an entry of its own.

All structures of an array lie in one `Block`, each followed by those below it. So a release that finds none of them
moved away or released takes out all at once, and looks at no structure but its own.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, Final

from spark_arrow_ipc.arrow.c_data.callbacks import release_callback
from spark_arrow_ipc.arrow.c_data.structs import Structure, address_of, keep_for_ever, new_capsule

_WORD_NBYTES: Final = struct.calcsize("P")

_live: Final[dict[int, Any]] = keep_for_ever({})
"""By ``private_data`` of each structure that is not released: what it needs."""

_in_capsules: Final[dict[int, object]] = keep_for_ever({})
"""By address: the memory of the structures inside of capsules, also of those that were moved out of them."""

_pointer_of = keep_for_ever(
    ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
)


def live_structures() -> int:
    """Return the number of structures that others hold, children counted, and of capsules."""
    return len(_live) + len(_in_capsules)


class Block:
    """Structures of one kind in one piece of memory, each followed by those below it.

    Parameters
    ----------
    memory
        Begins with the structures; its size does not change any more.
    stops
        For each structure: the number of the first one that is not below it.
    needs
        What else is needed until the last of them is released.
    """

    __slots__ = ("base", "memory", "needs", "stops", "words")

    def __init__(self, memory: bytearray, stops: Sequence[int], needs: object = None) -> None:
        self.memory, self.stops, self.needs = memory, stops, needs
        self.base = address_of(memory)
        """The address of the first structure, which all others are below."""
        self.words = memoryview(memory).cast("P")


class Exporter:
    """The release of one kind of structure, and its capsules. There is one for each kind, and it is never freed."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._live = _live
        self._in_capsules = _in_capsules
        self._pointer_of = _pointer_of
        self._is_nested = "n_children" in structure.fields
        self._words = structure.nbytes // _WORD_NBYTES
        self._release_word = structure.release_at // _WORD_NBYTES
        self.release: int = release_callback(self._release)
        """The address of the function for the structures' ``release``."""
        self._destructor = release_callback(self._destroy)

    def keep(self, address: int, memory: object) -> None:
        """Keep memory until the structure at an address is released, which has no children."""
        _live[address] = memory

    def keep_block(self, block: Block) -> None:
        """Keep a block until each of its structures is released."""
        nbytes = self._structure.nbytes
        _live.update(dict.fromkeys(range(block.base, block.base + len(block.stops) * nbytes, nbytes), block))

    def capsule(self, address: int, memory: object) -> object:
        """Return a capsule of the structure at an address. Its end releases the structure, unless a consumer took it."""
        _in_capsules[address] = memory
        return new_capsule(self._structure, address, self._destructor)

    def move(self, source: int, target: int) -> None:
        """Move the structure at an address to memory of the consumer's."""
        ctypes.memmove(target, source, self._structure.nbytes)
        self._structure.mark_released(source)

    def memory_of(self, private_data: int) -> Any:
        """Return the memory that `keep` was given for a structure."""
        return self._live[private_data]

    def _release(self, address: int) -> None:
        if not self._structure.is_released(address):
            private_data = self._structure.private_data(address)
            if not self._release_below(private_data):
                for part in self._structure.inner(address):
                    self._release(part)
            self._structure.mark_released(address)
            self._live.pop(private_data, None)

    def _release_below(self, private_data: int) -> bool:
        """Release all structures below one, if none of them was moved away or released; return whether they were."""
        block = self._live.get(private_data)
        if not self._is_nested or block is None:
            return False
        nbytes, width = self._structure.nbytes, self._words
        number = (private_data - block.base) // nbytes
        stop = block.stops[number]
        releases = block.words[(number + 1) * width + self._release_word : stop * width : width]
        if 0 in releases:
            return False
        for i in range(len(releases)):
            releases[i] = 0
        for key in range(private_data + nbytes, block.base + stop * nbytes, nbytes):
            self._live.pop(key, None)
        return True

    def _destroy(self, capsule: int) -> None:
        address = self._pointer_of(capsule, self._structure.capsule)
        self._release(address)
        del self._in_capsules[address]
