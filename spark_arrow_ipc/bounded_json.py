"""`parse_json` reads all JSON that the package did not make in the same process.

How it works
------------
Footers, schema metadata, log entries, offsets, peers and options contain JSON that is not trusted. A short text may
take a hundred times its size as Python objects, and have more levels than Python can walk. Both are bounded before or right
after parsing. Every fault is a `ValueError`, which callers turn into their own errors; callers check the values.
"""

from __future__ import annotations

import json
from typing import Any, Final

MOST_LEVELS: Final = 160
"""Levels of lists and objects: fields nest 64 levels deep at most, each an object in a list, and code recurses over them."""

_MOST_MEMORY: Final = 384 << 20  # bytes that the parsed values may take

_OBJECT_NBYTES: Final = 240
_LIST_NBYTES: Final = 72
# About the bytes of an object with a key, of a list, and of one more value in either (CPython 3.11, measured)
_VALUE_NBYTES: Final = 96


def parse_json(text: str | bytes, *, most_levels: int = MOST_LEVELS, most_memory: int = _MOST_MEMORY) -> Any:
    """Return the value of a JSON document of unknown origin; bytes are UTF-8.

    ValueError if the text is not JSON (Python's ``NaN`` and ``Infinity`` are taken), has more than `most_levels` of
    lists and objects, or values that may take more than `most_memory` bytes, by a count of brackets and commas.
    """
    text = text if isinstance(text, str) else text.decode()
    objects, lists = text.count("{"), text.count("[")
    memory = 2 * len(text) + _OBJECT_NBYTES * objects + _LIST_NBYTES * lists + _VALUE_NBYTES * text.count(",")
    if memory > most_memory:
        raise ValueError(
            f"{len(text):,} characters of JSON would take {memory:,} bytes of memory, above {most_memory:,}"
        )
    try:
        value = json.loads(text)
    except RecursionError:  # by brackets in brackets, a thousand or more
        raise ValueError(f"JSON of more than {most_levels} levels") from None
    except MemoryError:
        raise ValueError(f"{len(text):,} characters of JSON take more memory than there is") from None
    # Fewer brackets than levels cannot nest too deep: most documents are not walked.
    if objects + lists > most_levels and _is_deeper(value, most_levels):
        raise ValueError(f"JSON of more than {most_levels} levels")
    return value


def _is_deeper(value: object, levels: int) -> bool:
    """Return True if a value has lists and objects in more than `levels` levels."""
    nested = [value]  # by level: recursion could exceed the stack that this check protects
    for _ in range(levels):
        nested = [
            child
            for parent in nested
            if isinstance(parent, (list, dict))
            for child in (parent if isinstance(parent, list) else parent.values())
            if isinstance(child, (list, dict))
        ]
        if not nested:
            return False
    return True
