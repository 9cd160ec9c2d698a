"""How the place of a nested field is written: ``a.b[]``."""

from __future__ import annotations

from collections.abc import Iterator

from spark_arrow_ipc.arrow import types as t

_ELEMENTS = (t.List, t.LargeList, t.FixedSizeList, t.ListView, t.LargeListView, t.Map)


_LONGEST_PATH = 500
"""Characters of a path. Every field below has its own copy: a name of megabytes over many fields would fill memory."""


def child_path(parent: t.DataType, path: str, child: t.Field) -> str:
    """Return the path of a child: ``path[]`` for elements and map entries, ``path.name`` for all else.

    Paths are for people to read: of a long one the beginning is cut off.
    """
    return shortened(f"{path}[]" if isinstance(parent, _ELEMENTS) else f"{path}.{child.name}")


def shortened(path: str) -> str:
    """Return a path whose beginning is cut off where it is too long to be read."""
    return path if len(path) <= _LONGEST_PATH else f"...{path[-_LONGEST_PATH:]}"


def walk_fields(fields: tuple[t.Field, ...]) -> Iterator[tuple[str, t.Field]]:
    """Yield (path, field) for fields and all below them, in the pre-order of the format.

    A dictionary-encoded field is followed by the children of its *values*, which lie in the dictionary batch.
    """
    pending = [(field.name, field) for field in reversed(fields)]
    while pending:
        path, field = pending.pop()
        yield path, field
        type_ = field.type.value if isinstance(field.type, t.Dictionary) else field.type
        pending.extend((child_path(type_, path, child), child) for child in reversed(type_.children))
