"""Column paths: how the place of a nested field is written (``a.b[]``), and which column a name stands for.

The planner cannot see ``spark.sql.caseSensitive``. So the column written exactly so is meant; where there is none,
the only one that differs in case alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ColumnNotFoundError

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


_NAMES_SHOWN = 20


def find_columns(
    names: Sequence[str], asked: Iterable[str], above: str | None = None, *, absent: int | None = None
) -> list[int]:
    """Return the position of each name that is asked for among `names`. O(names + asked).

    Parameters
    ----------
    names
        Of the columns of a file, or of the fields of a struct.
    asked
        Names to find.
    above
        Path of the struct whose fields these are, for errors.
    absent
        What stands for a name that is not there; without it that is an error.

    Raises
    ------
    ColumnNotFoundError
        A name is not there (unless `absent` is given), or stands for several columns; the text shows the names, or the positions.
    """
    exact: dict[str, list[int]] = {}
    folded: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        exact.setdefault(name, []).append(i)
        folded.setdefault(name.casefold(), []).append(i)
    found = ((name, exact.get(name) or folded.get(name.casefold(), [])) for name in asked)
    return [absent if not at and absent is not None else _only(at, name, names, above) for name, at in found]


def _only(found: list[int], name: str, names: Sequence[str], above: str | None) -> int:
    if len(found) == 1:
        return found[0]
    place = name if above is None else f"{above}.{name}"
    what = "column" if above is None else "field"
    if not found:
        shown = ", ".join(map(repr, names[:_NAMES_SHOWN])) + (", ..." if len(names) > _NAMES_SHOWN else "")
        raise ColumnNotFoundError(
            f"there is no {what} {name!r} in the file; it has {shown or 'none'}", field_path=place
        )
    likely = ", ".join(f"#{i} {names[i]!r}" for i in found)
    way = "choose by position with the option columns" if above is None else "read the struct as a whole"
    raise ColumnNotFoundError(f"the name {name!r} may stand for {likely}; {way}", field_path=place)
