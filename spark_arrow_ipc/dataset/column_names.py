"""How a name stands for a column: the one place that knows Spark's rule of upper and lower case.

The planner cannot see ``spark.sql.caseSensitive``. So the column written exactly so is meant; where there is none,
the only one that differs in case alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_arrow_ipc.errors import ColumnNotFoundError

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
