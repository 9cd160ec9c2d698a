"""Print the tables of the documentation from the code.

Strategy
--------
A page holds ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; `refreshed` replaces the lines between
them with the table of that name in `TABLES`. A test compares the pages of ``docs/`` with its result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from spark_arrow_ipc.spark.options.declare import Option
from spark_arrow_ipc.spark.options.options import READING, STREAMING, WRITING
from spark_arrow_ipc.spark.read.metadata_columns import metadata_table
from spark_arrow_ipc.spark.read.metadata_only import blocks_table
from spark_arrow_ipc.spark.types.arrow_to_spark import extensions_table, types_table
from spark_arrow_ipc.spark.types.spark_to_arrow import written_table

TABLES: Mapping[str, Callable[[], str]] = {
    "read options": lambda: options_table(READING),
    "stream options": lambda: options_table(STREAMING),
    "write options": lambda: options_table(WRITING),
    "metadata columns": metadata_table,
    "columns of record batches": blocks_table,
    "types": types_table,
    "extension types": extensions_table,
    "written types": written_table,
}
"""By the name in the markers."""

_REGION = re.compile(r"(<!-- begin ([a-z ]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def refreshed(page: str) -> str:
    """Return a page with its tables printed anew.

    Raises
    ------
    KeyError
        A marker names a table that does not exist.
    """
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


def _code(example: str) -> str:
    return f"`` {example} ``" if "`" in example else f"`{example}`"
