"""Print the tables of the documentation from the code.

A page holds ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; `refreshed` replaces the lines between
them with the table of that name in `TABLES`. A test compares the pages of ``docs/`` with its result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from spark_arrow_ipc.dataset.predicate.settings import ANSI, SETTINGS, Setting
from spark_arrow_ipc.spark.options.declare import Option
from spark_arrow_ipc.spark.options.options import READING, STREAMING, WRITING
from spark_arrow_ipc.spark.read.columns import metadata_table
from spark_arrow_ipc.spark.read.metadata_only import blocks_table
from spark_arrow_ipc.spark.types.arrow_to_spark import EXTENSIONS, MAPPINGS, DocLine
from spark_arrow_ipc.spark.types.spark_to_arrow import written_table

_TENSORS = (
    DocLine("arrow.fixed_shape_tensor with extensionTypes=tensor", "struct<shape: array<int>, data: array>", "The logical shape, and the values in its order."),
    DocLine("arrow.variable_shape_tensor with extensionTypes=tensor", "struct<shape: array<int>, data: array>", "The same, with a shape for each row; a shape that does not fit its values is an error."),
)  # fmt: skip

_SPATIAL = (
    DocLine("geoarrow.wkb, ogc.wkb with extensionTypes=geometry", "geometry(srid), geometry(any)", "Where edges are planar or not said; the SRID by the CRS."),
    DocLine("the same with spherical edges", "geography(4326), geography(any)", "Well-known binary that is broken is an error."),
)  # fmt: skip

TABLES: Mapping[str, Callable[[], str]] = {
    "read options": lambda: options_table(READING),
    "stream options": lambda: options_table(STREAMING),
    "write options": lambda: options_table(WRITING),
    "metadata columns": metadata_table,
    "columns of record batches": blocks_table,
    "types": lambda: _types_table([line for row in MAPPINGS.values() for line in row.lines]),
    "extension types": lambda: _types_table([*(row.line for row in EXTENSIONS.values()), *_TENSORS, *_SPATIAL]),
    "written types": written_table,
    "settings of where": lambda: settings_table(),  # noqa: PLW0108 - it stands below
}
"""By the name in the markers."""

_REGION = re.compile(r"(<!-- begin ([a-z ]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def refreshed(page: str) -> str:
    """Return a page with its tables printed anew."""
    return _REGION.sub(lambda region: f"{region[1]}{TABLES[region[2]]()}\n{region[3]}", page)


def options_table(options: Iterable[Option]) -> str:
    """Return the Markdown table of options."""
    rows = ["| option | default | value | meaning |", "|---|---|---|---|"]
    rows += [
        f"| `{o.name}` | {f'`{o.default}`' if o.default is not None else ''} | {o.expected}; e.g. {_code(o.example)} "
        f"| {o.meaning} |"
        for o in options
    ]
    return "\n".join(rows)


def settings_table() -> str:
    """Return the table of the settings on which predicates depend."""
    rows = [
        f"| `{name}` | `{one.default}` | {one.changes}{_only(one)} | {one.instead} |" for name, one in SETTINGS.items()
    ]
    return "\n".join(["| setting | Spark's own | decides | what does not depend on it |", "|---|---|---|---|", *rows])


def _only(setting: Setting) -> str:
    return "" if setting.ansi is None else f" (where `{ANSI}` is {setting.ansi})"


def _code(example: str) -> str:
    return f"`` {example} ``" if "`" in example else f"`{example}`"


def _types_table(lines: Sequence[DocLine]) -> str:
    """Return lines of docs/types.md as a Markdown table."""
    rows = [f"| {x.arrow} | {x.spark} | {'yes' if x.lossless else 'no'} | {x.meaning} |" for x in lines]
    return "\n".join(["| Arrow | Spark | lossless | |", "|---|---|---|---|", *rows])
