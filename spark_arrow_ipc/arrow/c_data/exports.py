"""What others hold of ours: memory that stays until it is released.

Strategy
--------
A structure that we hand out has the address of its first home as ``private_data``: a number that no other structure has
while this one lives. `_live` keeps the memory of each structure under it, also after the structure was moved, and the
release takes it out. A child may be moved and outlive its parent, so each has an entry of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any, Final

from spark_arrow_ipc.arrow.c_data.callbacks import release_callback
from spark_arrow_ipc.arrow.c_data.structs import Structure, keep_for_ever, new_capsule

__all__ = ["Exporter", "live_structures"]

_live: Final[dict[int, object]] = keep_for_ever({})
"""By ``private_data`` of each structure that is not released: what it needs."""

_in_capsules: Final[dict[int, object]] = keep_for_ever({})
"""By address: the memory of the structures inside of capsules, also of those that were moved out of them."""

_pointer_of = keep_for_ever(
    ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
)


def live_structures() -> int:
    """Return the number of structures that others hold, children counted, and of capsules."""
    return len(_live) + len(_in_capsules)


class Exporter:
    """The release of one kind of structure, and its capsules. There is one for each kind, and it is never freed."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._live = _live
        self._in_capsules = _in_capsules
        self._pointer_of = _pointer_of
        self.release: int = release_callback(self._release)
        """The address of the function for the structures' ``release``."""
        self._destructor = release_callback(self._destroy)

    def keep(self, addresses: Iterable[int], memory: object) -> None:
        """Keep memory until each of the structures with these addresses is released."""
        _live.update(dict.fromkeys(addresses, memory))

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
            private_data, inner = self._structure.inner(address)
            for part in inner:
                self._release(part)
            self._structure.mark_released(address)
            self._live.pop(private_data, None)

    def _destroy(self, capsule: int) -> None:
        address = self._pointer_of(capsule, self._structure.capsule)
        self._release(address)
        del self._in_capsules[address]
