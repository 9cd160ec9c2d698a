"""Column paths: parse a string, resolve against a schema, project to a selection.

How it works
------------
A `ColumnPath` addresses a column by name or position, and a field of a struct by a name or position for each level. Names
have two rules. In the codec a name is exact. On Spark's side (`find_columns`) the planner cannot see
``spark.sql.caseSensitive``: an exact name wins, otherwise the only name that differs just in case. A task sees the setting
(`IsCaseSensitive`): if it is off, fields that differ just in case are selected together, or one by its position. By both
rules a name that is absent or stands for several fields is a `ColumnNotFoundError`. A path addresses only fields of structs;
errors name other nested fields as `child_path` writes them (``a.b[]``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import ColumnNotFoundError, absent_name, cut_repr, join_texts

ColumnPath: TypeAlias = int | str | tuple[int | str, ...]
"""A column by position or name, or a path into structs."""

Positions: TypeAlias = tuple[int, ...]
"""A resolved path: a position for each level."""

Selection: TypeAlias = Mapping[int, "Selection | None"]
"""Positions of the selected fields, each with a selection of its own children or None for all children."""

IsCaseSensitive: TypeAlias = Callable[[], bool]
"""Callback that returns True if names that differ just in case are two names. Called only for schemas with such names."""

WORDS = ("auto", "none", "all")
"""Words with a meaning of their own in options: as the name of a column, each is written in backticks."""

_PART = re.compile(r"`((?:[^`]|``)*)`|([^`.,\s]+)")
_ELEMENTS = (t.List, t.LargeList, t.FixedSizeList, t.ListView, t.LargeListView, t.Map)


# Characters of a path. Each field below has its own copy: a name of megabytes above many would fill the memory.
_LONGEST_PATH = 500


def child_path(parent: t.DataType, path: str, child: t.Field) -> str:
    """Return the path of a child: ``path[]`` for elements and map entries, ``path.name`` for other fields."""
    return shorten(f"{path}[]" if isinstance(parent, _ELEMENTS) else f"{path}.{child.name}")


def shorten(path: str) -> str:
    """Return a path without its beginning if it is too long to read."""
    return path if len(path) <= _LONGEST_PATH else f"...{path[-_LONGEST_PATH:]}"


def walk_fields(fields: tuple[t.Field, ...]) -> Iterator[tuple[str, t.Field]]:
    """Yield (path, field) for fields and all below them, in the pre-order of the format."""
    # A dictionary-encoded field is followed by the children of its *values*, which are in the dictionary batch.
    pending = [(field.name, field) for field in reversed(fields)]
    while pending:
        path, field = pending.pop()
        yield path, field
        type_ = field.type.value if isinstance(field.type, t.Dictionary) else field.type
        pending.extend((child_path(type_, path, child), child) for child in reversed(type_.children))


def parse_paths(string: str) -> tuple[ColumnPath, ...]:
    """Return the column paths in a string; ValueError for none, or if it is not such a list.

    ``a, b.c, `x,y`, #0``: a comma separates, a dot addresses a field of a struct, backticks keep commas, dots and
    blanks in a name (a backtick in one is doubled), ``#n`` is a position. A string that begins with ``[`` is a JSON
    array of such paths, where a number is a position too.
    """
    string = string.strip()
    if string.startswith("["):
        return tuple(map(_json_path, _json_list(string)))
    paths = []
    at = 0
    while True:
        path, at = _path_at(string, at)
        paths.append(path)
        if at == len(string):
            return tuple(paths)
        at += 1


def path_string(path: ColumnPath) -> str:
    """Write a path as `parse_paths` reads it."""
    parts = path if isinstance(path, tuple) else (path,)
    return ".".join(f"#{part}" if isinstance(part, int) else _quote(part) for part in parts)


def _quote(part: str) -> str:
    plain = _PART.fullmatch(part) and not part.startswith("#") and "`" not in part
    # Options read these words in any case
    return part if plain and part.lower() not in WORDS else "`" + part.replace("`", "``") + "`"


def _path_at(string: str, at: int) -> tuple[ColumnPath, int]:
    """Return one path and its end: the position of a comma, or the end of the string."""
    parts: list[str] = []
    is_quoted = False
    while True:
        at = _skip_blanks(string, at)
        match = _PART.match(string, at)
        if match is None:
            raise ValueError(string)
        is_quoted = is_quoted or match[1] is not None
        parts.append(match[1].replace("``", "`") if match[1] is not None else match[2])
        at = _skip_blanks(string, match.end())
        if at == len(string) or string[at] == ",":
            break
        if string[at] != ".":
            raise ValueError(string)
        at += 1
    if not all(parts):
        raise ValueError(string)
    if len(parts) > 1:
        return tuple(parts), at
    if parts[0].startswith("#") and not is_quoted:
        digits = parts[0][1:]
        if not digits.isascii() or not digits.isdigit():  # `int` takes signs, blanks and underscores as well
            raise ValueError(digits)
        return int(digits), at
    return parts[0], at


def _json_list(string: str) -> list[object]:
    values = parse_json(string)
    if not isinstance(values, list) or not values:
        raise ValueError(string)
    return values


def _json_path(value: object) -> ColumnPath:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:  # True is an int to Python
        return value
    if not isinstance(value, str):
        raise ValueError(value)  # noqa: TRY004 - the string that holds it is at fault
    path, end = _path_at(value, 0)
    if end != len(value):
        raise ValueError(value)
    return path


def _skip_blanks(string: str, at: int) -> int:
    while at < len(string) and string[at].isspace():
        at += 1
    return at


def find_columns(
    names: Sequence[str],
    requested: Iterable[str],
    above: str | None = None,
    *,
    absent: int | None = None,
    is_case_sensitive: IsCaseSensitive | None = None,
    others: Sequence[str] = (),
) -> list[int]:
    """Return the position of each requested name among `names`. O(names + requested).

    An absent name has the position `absent`; without `absent` it is a ColumnNotFoundError, like a name that stands for
    several columns. The message lists the names or positions, below the struct `above`, and `others`, the names of
    columns from elsewhere. Without `is_case_sensitive` an exact name wins.
    """
    index = _Names(names, others)
    if absent is None:
        positions: list[int | None] = [index.position(name, above) for name in requested]
    else:
        positions = [index.find(name, above) for name in requested]
    if is_case_sensitive is not None:
        index.check_case({position for position in positions if position is not None}, above, is_case_sensitive)
    return [absent if position is None else position for position in positions]  # type: ignore[misc]  # absent names raised


def resolve(fields: Sequence[t.Field], path: ColumnPath, type_name: Callable[[t.DataType], str] = str) -> Positions:
    """Resolve a path to positions, by names in any case; `type_name` names types in errors. O(fields) a level.

    ColumnNotFoundError if a name or position does not exist, a name stands for several fields, or the path enters a
    type that is not a struct.
    """
    positions = _resolve(fields, path, _AnyCase(), type_name)
    assert positions is not None
    return positions


def resolve_all(
    fields: Sequence[t.Field],
    paths: Iterable[ColumnPath],
    *,
    skips_absent: bool = False,
    is_case_sensitive: IsCaseSensitive | None = None,
    others: Sequence[str] = (),
) -> list[Positions]:
    """Resolve several paths as `resolve` does, or skip those with absent names. O(fields + paths).

    Errors also name `others`, the columns from elsewhere. A path into a column that is not a struct selects the complete
    column.
    """
    # To Spark a union, or runs of structs, are structs too, and a path names columns as Spark sees them.
    find = _AnyCase(skips_absent=skips_absent, others=others)
    resolved = (_resolve(fields, path, find, ends_below=False) for path in paths)
    present = [positions for positions in resolved if positions is not None]
    if is_case_sensitive is not None:
        find.check_case(fields, present, is_case_sensitive)
    return present


def resolve_exactly(fields: Sequence[t.Field], paths: Iterable[ColumnPath]) -> list[Positions]:
    """Resolve several paths by exact names, with the errors of `resolve`. O(fields + paths)."""
    find = _Exact()
    resolved = (_resolve(fields, path, find) for path in paths)
    return [positions for positions in resolved if positions is not None]


def fields_along(fields: Sequence[t.Field], positions: Positions) -> tuple[t.Field, ...]:
    """Return the field of each level of a resolved path."""
    along = [fields[positions[0]]]
    for position in positions[1:]:
        along.append(along[-1].type.children[position])
    return tuple(along)


def project(paths: Iterable[Positions]) -> Selection:
    """Return the selection of several resolved paths, its top-level positions in the order of the paths."""
    selection: dict[int, Selection | None] = {}
    for positions in paths:
        level = selection
        for position in positions[:-1]:
            below = level.setdefault(position, {})
            if below is None:  # an earlier path selects the complete field
                break
            assert isinstance(below, dict)
            level = below
        else:
            level[positions[-1]] = None
    return selection


# From the fields of a level, a name or position, and the positions and path above, to a position or None
_Find: TypeAlias = Callable[[Sequence[t.Field], int | str, Positions, str | None], int | None]


def _resolve(
    fields: Sequence[t.Field],
    path: ColumnPath,
    find: _Find,
    type_name: Callable[[t.DataType], str] = str,
    *,
    ends_below: bool = True,
) -> Positions | None:
    steps = path if isinstance(path, tuple) else (path,)
    positions: Positions = ()
    above: str | None = None
    for level, step in enumerate(steps):
        if level:
            type_ = fields[positions[-1]].type
            if not isinstance(type_, t.Struct):
                if not ends_below:
                    break
                raise ColumnNotFoundError(
                    expected=f"{above} to be a struct, so that {step!r} can be one of its fields",
                    found=type_name(type_),
                )
            fields = type_.fields
        try:
            position = find(fields, step, positions, above)
        except ColumnNotFoundError as error:
            # Names may have dots: the path may be one name without its backticks.
            raise with_dotted(error, [field.name for field in fields], steps[level:]) from None
        if position is None:
            return None
        positions = (*positions, position)
        above = _join_path(fields[position].name, above)
    return positions


def with_dotted(error: ColumnNotFoundError, names: Sequence[str], steps: Sequence[int | str]) -> ColumnNotFoundError:
    """Return the error of a path, which suggests a name with dots among `names` that its steps may mean."""
    by_folded_name = {name.casefold(): name for name in names}
    # The longest name first, because it is the most specific
    meant = (by_folded_name.get(".".join(map(str, steps[:end])).casefold()) for end in range(len(steps), 1, -1))
    dotted = next((name for name in meant if name is not None), None)
    if dotted is not None:
        error.message, error.expected = f"a name with a dot stands in backticks: {_quote(dotted)}", None
    return error


class _AnyCase:
    """Finds the fields of one schema by name in any case; remembers the names of each level."""

    def __init__(self, *, skips_absent: bool = False, others: Sequence[str] = ()) -> None:
        self._skips_absent = skips_absent
        self._others = others
        self._levels: dict[Positions, _Names] = {}
        self._by_position: set[Positions] = set()

    def check_case(
        self, fields: Sequence[t.Field], resolved: Sequence[Positions], is_case_sensitive: IsCaseSensitive
    ) -> None:
        """Raise ColumnNotFoundError if a path selects by name one of several fields that differ just in case."""
        for above, names in self._levels.items():
            chosen = {path[len(above)] for path in resolved if path[: len(above)] == above and len(path) > len(above)}
            context = ".".join(field.name for field in fields_along(fields, above)) if above else None
            chosen -= {position for position in chosen if (*above, position) in self._by_position}
            names.check_case(chosen, context, is_case_sensitive)

    def __call__(
        self, fields: Sequence[t.Field], step: int | str, positions: Positions, above: str | None
    ) -> int | None:
        if isinstance(step, int):
            if 0 <= step < len(fields):
                self._by_position.add((*positions, step))
                return step
            raise ColumnNotFoundError(expected=f"a column position below {len(fields)}", found=f"#{step}")
        names = self._levels.get(positions)  # once for each level: wide tables have many paths
        if names is None:
            names = self._levels[positions] = _Names([field.name for field in fields], self._others)
        return names.find(step, above) if self._skips_absent else names.position(step, above)


class _Exact:
    """Finds the fields of one schema by their exact names; remembers the names of each level."""

    def __init__(self) -> None:
        self._levels: dict[Positions, dict[str, int]] = {}

    def __call__(self, fields: Sequence[t.Field], step: int | str, positions: Positions, _above: str | None) -> int:
        by_name = self._levels.get(positions)
        if by_name is None:
            by_name = {field.name: i for i, field in enumerate(fields)}
            # If names occur twice, `Schema.position` below searches each time, and refuses those.
            by_name = self._levels[positions] = by_name if len(by_name) == len(fields) else {}
        position = by_name.get(step) if isinstance(step, str) else None
        return Schema(tuple(fields)).position(step) if position is None else position


class _Names:
    """The positions of names, looked up in any case."""

    def __init__(self, names: Sequence[str], others: Sequence[str] = ()) -> None:
        self._names = names
        self._others = others  # names from elsewhere, for errors
        self._exact: dict[str, list[int]] = {}
        self._folded: dict[str, list[int]] = {}
        for i, name in enumerate(names):
            self._exact.setdefault(name, []).append(i)
            self._folded.setdefault(name.casefold(), []).append(i)

    def find(self, name: str, above: str | None) -> int | None:
        """Return the position of a name, or None if absent; errors name the struct `above`."""
        positions = self._exact.get(name) or self._folded.get(name.casefold(), [])
        if len(positions) > 1:
            raise self._ambiguous(name, positions, above)
        return positions[0] if positions else None

    def check_case(self, chosen: Collection[int], above: str | None, is_case_sensitive: IsCaseSensitive) -> None:
        """Raise ColumnNotFoundError if a name that is not chosen differs just in case from a chosen one."""
        # The setting is asked last, because the answer may take a call to the driver.
        if len(self._folded) == len(self._names):
            return
        for position in chosen:
            name = self._names[position]
            alike = self._folded[name.casefold()]
            if not set(alike) <= set(chosen) and not is_case_sensitive():
                raise self._ambiguous(name, alike, above, " without spark.sql.caseSensitive=true")

    def _ambiguous(
        self, name: str, positions: Sequence[int], above: str | None, unless: str = ""
    ) -> ColumnNotFoundError:
        likely = join_texts([f"#{i} {cut_repr(self._names[i])}" for i in positions])
        way = "choose by position with the option columns" if above is None else "read the struct as a whole"
        return ColumnNotFoundError(
            f"the name {cut_repr(_join_path(name, above))} may stand for {likely}{unless}; {way}"
        )

    def position(self, name: str, above: str | None) -> int:
        """Return the position of a name, or raise ColumnNotFoundError."""
        position = self.find(name, above)
        if position is not None:
            return position
        raise ColumnNotFoundError(absent_name(name, [*(self._others if above is None else ()), *self._names], above))


def _join_path(name: str, above: str | None) -> str:
    return shorten(name if above is None else f"{above}.{name}")
