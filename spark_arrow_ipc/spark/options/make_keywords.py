"""``python -m spark_arrow_ipc.spark.options.make_keywords``: print ``keywords.py`` from the table of options.

A test compares the module with what this prints.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from spark_arrow_ipc.spark.options.declare import Option
from spark_arrow_ipc.spark.options.options import READING, STREAMING, WRITING
from spark_arrow_ipc.spark.options.streamed_writes import FOR_JOBS

__all__ = ["FOR_BATCHES", "source"]

FOR_BATCHES: Final = frozenset({"metadataOnly", "token"})
"""The options of a read that a stream refuses."""

_HEAD: Final = '''"""Keyword arguments of ``spark_arrow_ipc.options``, for type checkers.

Printed by ``make_keywords.py`` from the table of options (``options.py``, ``stream_options.py``): change that, and print anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Literal, TypedDict

__all__ = ["ReadKeywords", "ReadStreamKeywords", "WriteKeywords", "WriteStreamKeywords"]
'''

_WIDTH: Final = 120


def source() -> str:
    """Return the text of ``keywords.py``."""
    of_scans = [option for option in READING if option.name not in FOR_BATCHES]
    of_files = [option for option in WRITING if option.name not in FOR_JOBS]
    classes: list[tuple[str, str, str, Iterable[Option]]] = [
        ("_ScanKeywords", "TypedDict", "Options of reads and of reading streams.", of_scans),
        ("ReadKeywords", "_ScanKeywords", "Options of a read.", _only(READING, FOR_BATCHES)),
        ("ReadStreamKeywords", "_ScanKeywords", "Options of reading a stream.", STREAMING),
        ("WriteStreamKeywords", "TypedDict", "Options of writing a stream.", of_files),
        ("WriteKeywords", "WriteStreamKeywords", "Options of a write.", _only(WRITING, FOR_JOBS)),
    ]
    return "\n\n".join([_HEAD, *("\n".join(_class(*each)) + "\n" for each in classes)])


def _only(options: Iterable[Option], names: frozenset[str]) -> list[Option]:
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
