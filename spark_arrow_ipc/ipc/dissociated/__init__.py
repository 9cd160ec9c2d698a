"""Dissociated IPC: metadata and bodies of a stream on two channels, or bodies in shared memory.

``docs/dissociated.md`` describes its use, ``docs/adr/0020-dissociated-ipc.md`` the decisions that the document leaves
open. The schemes of URIs are here, as every reader checks paths for them without other imports.
"""

from __future__ import annotations

from typing import Final

TCP: Final = "dissociated+tcp"
UNIX: Final = "dissociated+unix"

_STARTS: Final = (f"{TCP}://", f"{UNIX}://")


def is_served(path: str) -> bool:
    """Return True for the URI of a server's table."""
    return path.lower().startswith(_STARTS)
