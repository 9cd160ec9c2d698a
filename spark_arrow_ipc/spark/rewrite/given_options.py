"""Tell the options of a rewrite apart: those of its read, those of its write, and those of both.

Strategy
--------
The table of options says of which side an option is; there is no second list. An option of both sides (``storage.*``,
``vectors``) goes to both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.given import Side, check_known
from spark_arrow_ipc.spark.options.options import READING, STREAMING, WRITING
from spark_arrow_ipc.spark.options.typed import strings_of

__all__ = ["split_options"]

_PATHS: Final = ("path", "paths")

_BOTH: Final = Side(
    "rewriting",
    "rewritten",
    {name: rows for name, rows in {**READING.attributes, **WRITING.attributes}.items() if name not in _PATHS},
)


def split_options(given: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of the read, and those of the write, as the strings that their parsers take.

    Parameters
    ----------
    given
        By name, with Python's values or strings.

    Raises
    ------
    OptionError
        There is no such option, it is for streams, or its value has a wrong type.
    """
    strings = strings_of(given)
    for name in strings:
        if name.lower() in _PATHS:
            raise OptionError(f"the option {name} is for load and save; here paths are arguments: remove it")
    check_known(strings, _BOTH, STREAMING)
    sides = ({name: text for name, text in strings.items() if side.option(name)} for side in (READING, WRITING))
    of_read, of_write = sides
    return of_read, of_write
