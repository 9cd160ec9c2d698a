"""``python -m spark_arrow_ipc.spark.options.make_keywords``: print ``keywords.py`` from the table of options.

A test compares the module with what this prints.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Container, Iterable, Iterator
from typing import Final

from spark_arrow_ipc.spark.options.declare import Option, Use
from spark_arrow_ipc.spark.options.options import READING, STREAMING, WRITING, of_compactions
from spark_arrow_ipc.spark.options.read_options import PATHS

_OF_ARGUMENTS: Final = frozenset({*PATHS, "where"})
"""Options that functions have as arguments: `count` all of them, the others those of paths."""

_HEAD: Final = '''"""Keyword arguments of ``spark_arrow_ipc.options`` and of functions that read or rewrite, for type checkers.

Printed by ``make_keywords.py`` from the table of options (``read_options.py``, ``write_options.py``): change that, and print anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Literal, TypedDict
'''

_WIDTH: Final = 120


def source() -> str:
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
        ("ReadStreamKeywords", "_ScanKeywords", "Options of reading a stream.", [*paths, *where, *STREAMING]),
        ("WriteStreamKeywords", "TypedDict", "Options of writing a stream.", _but(WRITING, jobs)),
        ("WriteKeywords", "WriteStreamKeywords", "Options of a write.", _only(WRITING, jobs)),
        ("RewriteKeywords", "FunctionKeywords", "Options of `rewrite`.", _but(WRITING, both)),
        ("CompactKeywords", "TypedDict", "Options of `compact`.", of_compactions()),
    ]
    return "\n\n".join([_HEAD, *("\n".join(_class(*each)) + "\n" for each in classes)])


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
    sys.stdout.write(source())
