"""The schemes of the URIs of tables that a server offers. Imports nothing: every reader asks whether a path is one."""

from __future__ import annotations

from typing import Final

TCP: Final = "dissociated+tcp"
UNIX: Final = "dissociated+unix"

_STARTS: Final = (f"{TCP}://", f"{UNIX}://")


def is_served(path: str) -> bool:
    """Return whether a path is the URI of a server's table, and no file."""
    return path.lower().startswith(_STARTS)
