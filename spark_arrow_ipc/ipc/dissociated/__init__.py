"""Dissociated IPC: metadata and bodies of a stream on two channels, or bodies in shared memory.

``docs/dissociated.md`` says how to use it, ``docs/adr/0020-dissociated-ipc.md`` what the document leaves open and how it
is decided here.
The schemes of URIs are here: every reader asks whether a path is one, and imports no more for it.
"""

from __future__ import annotations

from typing import Final

TCP: Final = "dissociated+tcp"
UNIX: Final = "dissociated+unix"

_STARTS: Final = (f"{TCP}://", f"{UNIX}://")


def is_served(path: str) -> bool:
    """Return whether a path is the URI of a server's table, and no file."""
    return path.lower().startswith(_STARTS)
