"""Print the tables of the documentation and the module ``keywords.py`` from the code.

``python tests/programs/docs_tables.py`` prints ``keywords.py``; a test compares both with what is printed here.

A page holds ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; `refreshed` replaces the lines between
them with the table of that name in `TABLES`.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from spark_arrow_ipc.dataset.predicate import SETTINGS
from spark_arrow_ipc.spark.options.declare import BYTES, FLAG, INTEGER, Option, Use
from spark_arrow_ipc.spark.options.options import READING, STREAMING, WRITING, of_compactions
from spark_arrow_ipc.spark.options.read_options import PATHS
from spark_arrow_ipc.spark.read.columns import METADATA_COLUMNS
from spark_arrow_ipc.spark.read.metadata_only import BLOCK_MEANINGS, BLOCK_SCHEMA
from spark_arrow_ipc.spark.types.arrow_to_spark import MAPPINGS
from spark_arrow_ipc.spark.types.extension_columns import EXTENSIONS, DocLine
from spark_arrow_ipc.spark.types.spark_to_arrow import types_table

_TENSORS = (
    DocLine("arrow.fixed_shape_tensor with extensionTypes=tensor", "struct<shape: array<int>, data: array>", "Shape and values in the logical order."),
    DocLine("arrow.variable_shape_tensor with extensionTypes=tensor", "struct<shape: array<int>, data: array>", "The same; a shape that does not fit its values is an error."),
)  # fmt: skip

_SPATIAL = (
    DocLine("geoarrow.wkb, ogc.wkb with extensionTypes=geometry", "geometry(srid), geometry(any)", "If edges are planar or unspecified; the CRS gives the SRID."),
    DocLine("the same with spherical edges", "geography(4326), geography(any)", "Damaged well-known binary is an error."),
)  # fmt: skip

TABLES: Mapping[str, Callable[[], str]] = {
    "read options": lambda: options_table(READING),
    "stream options": lambda: options_table(STREAMING),
    "write options": lambda: options_table(option for option in WRITING if not _is_of_reads(option)),
    "metadata columns": lambda: metadata_columns(),  # noqa: PLW0108 - as below
    "columns of record batches": lambda: block_columns(),  # noqa: PLW0108
    "types": lambda: _types_table([line for row in MAPPINGS.values() for line in row.lines]),
    "extension types": lambda: _types_table(
        [*(line for row in EXTENSIONS.values() for line in row.lines), *_TENSORS, *_SPATIAL]
    ),
    "written types": types_table,
    "settings of where": lambda: settings_list(),  # noqa: PLW0108 - it stands below
}
"""By the name in the markers."""

_REGION = re.compile(r"(<!-- begin ([a-z ]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def refreshed(page: str) -> str:
    """Return a page with its tables printed anew."""
    return _REGION.sub(lambda region: f"{region[1]}{TABLES[region[2]]()}\n{region[3]}", page)


def options_table(options: Iterable[Option]) -> str:
    """Return the Markdown table of options."""
    rows = ["| option | values, the default first | meaning |", "|---|---|---|"]
    rows += [f"| `{o.name}` | {_values_of(o)} | {o.meaning} |" for o in options]
    return "\n".join(rows)


def _is_of_reads(option: Option) -> bool:
    """Return whether the table of reads says the same of an option, such as `path`."""
    return any((each.name, each.meaning) == (option.name, option.meaning) for each in READING)


def _values_of(option: Option) -> str:
    """Return the default and the other words; an example where neither shows what a value looks like."""
    words, columns, _ = option.expected.partition(", or column names")
    if option.kind == FLAG:
        words = "true, false"
    is_words = bool(columns) or option.kind == FLAG or words.startswith("one of ")
    if option.default is None:
        return words if is_words else f"e.g. {_code(option.example)}"
    parts = [f"`{option.default}`"]
    if is_words:
        parts += [word for word in words.removeprefix("one of ").split(", ") if word != option.default]
    if columns or not (is_words or option.kind in (BYTES, INTEGER)):
        parts.append(f"e.g. {_code(option.example)}")
    return ", ".join(parts)


def metadata_columns() -> str:
    """Return the list of the columns, for ``docs/options.md``."""
    return "\n".join(f"- `{name}` ({c.type.simpleString()}): {c.meaning}" for name, c in METADATA_COLUMNS.items())


def block_columns() -> str:
    """Return the list of the columns, for ``docs/options.md``."""
    return "\n".join(
        f"- `{field.name}` ({field.dataType.simpleString()}): {BLOCK_MEANINGS[field.name]}" for field in BLOCK_SCHEMA
    )


def settings_list() -> str:
    """Return the names of the settings on which predicates depend."""
    return ", ".join(f"`{name}`" for name in SETTINGS) + "."


def _code(example: str) -> str:
    return f"`` {example} ``" if "`" in example else f"`{example}`"


def _types_table(lines: Sequence[DocLine]) -> str:
    """Return lines of docs/types.md as a Markdown table, with one row for all types of which the same is said."""
    rows: dict[str, list[str]] = {}
    for line in lines:
        meaning = f"{'' if line.lossless else 'Lossy. '}{line.meaning}"
        rows.setdefault(f"{line.spark}{'. ' if meaning else ''}{meaning}", []).append(line.arrow)
    return "\n".join(
        ["| Arrow | Spark |", "|---|---|", *(f"| {', '.join(arrow)} | {rest} |" for rest, arrow in rows.items())]
    )


_OF_ARGUMENTS: Final = frozenset({*PATHS, "where"})
"""Options that functions have as arguments: `count` all of them, the others those of paths."""

_HEAD: Final = '''"""Keyword arguments of ``spark_arrow_ipc.options`` and of functions that read or rewrite, for type checkers.

Printed by ``tests/programs/docs_tables.py`` from the table of options (``read_options.py``, ``write_options.py``): change that, and print anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Literal, TypedDict
'''

_WIDTH: Final = 120


def keywords_source() -> str:
    """Return the text of ``keywords.py``."""
    both = {option.name for option in READING}
    batches = {option.name for option in READING if not option.applies & Use.STREAMS}
    jobs = {option.name for option in WRITING if Use.QUERY not in option.applies}
    of_scans = _but(READING, batches | _OF_ARGUMENTS)
    where = _only(READING, _OF_ARGUMENTS - {*PATHS})
    paths = _only(READING, frozenset(PATHS))
    classes: list[tuple[str, str, str, Iterable[Option]]] = [
        ("_ScanKeywords", "TypedDict", "Options of reads and of reading streams.", of_scans),
        ("CountKeywords", "_ScanKeywords", "Options of `count`.", _only(READING, batches)),
        ("FunctionKeywords", "CountKeywords", "Options of `map_in_arrow` and `aggregate`.", where),
        ("ReadKeywords", "FunctionKeywords", "Options of a read.", paths),
        ("_FollowKeywords", "_ScanKeywords", "Options of reading a stream and of `ingest`.", [*where, *STREAMING]),
        ("ReadStreamKeywords", "_FollowKeywords", "Options of reading a stream.", paths),
        (
            "_FileKeywords",
            "TypedDict",
            "Options of all that writes, but for those of reads.",
            _but(WRITING, both | jobs),
        ),
        ("WriteStreamKeywords", "_FileKeywords", "Options of writing a stream.", _only(_but(WRITING, jobs), both)),
        ("WriteKeywords", "WriteStreamKeywords", "Options of a write.", _only(WRITING, jobs)),
        (
            "RewriteKeywords",
            "FunctionKeywords, _FileKeywords",
            "Options of `rewrite`.",
            _only(_but(WRITING, both), jobs),
        ),
        ("IngestKeywords", "_FollowKeywords, _FileKeywords", "Options of `ingest`.", ()),
        ("CompactKeywords", "TypedDict", "Options of `compact`.", of_compactions()),
    ]
    return "\n\n".join([_HEAD, *("\n".join(_class(*each)).rstrip() + "\n" for each in classes)])


def _but(options: Iterable[Option], names: Container[str]) -> list[Option]:
    return [option for option in options if option.name not in names]


def _only(options: Iterable[Option], names: Container[str]) -> list[Option]:
    return [option for option in options if option.name in names]


def _class(name: str, base: str, meaning: str, options: Iterable[Option]) -> Iterator[str]:
    yield f"class {name}({base}, total=False):"
    yield f'    """{meaning}"""'
    yield ""
    for option in options:
        yield f"    {option.name.removesuffix('.*')}: {option.kind.annotation}"
        # A backslash, as in a pattern of a path, would be an escape.
        text = f'"""{option.meaning}"""'.replace("\\", "\\\\")
        yield from textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


if __name__ == "__main__":
    sys.stdout.write(keywords_source())
