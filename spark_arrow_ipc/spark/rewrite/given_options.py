"""Tell the options of a rewrite apart: those of its read, those of its write, and those of both; and its own numbers of bytes.

Strategy
--------
The table of options says of which side an option is; there is no second list. An option of both sides (``storage.*``,
``vectors``) goes to both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options import parsers
from spark_arrow_ipc.spark.options.arguments import strings_without_paths
from spark_arrow_ipc.spark.options.given import Side, check_known
from spark_arrow_ipc.spark.options.options import PATHS, READING, WRITING
from spark_arrow_ipc.spark.options.stream_options import STREAMING

_BOTH: Final = Side(
    "rewriting",
    "rewritten",
    {name: rows for name, rows in {**READING.attributes, **WRITING.attributes}.items() if name not in PATHS},
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
    strings = strings_without_paths(given)
    check_known(strings, _BOTH, STREAMING)
    sides = ({name: text for name, text in strings.items() if side.option(name)} for side in (READING, WRITING))
    of_read, of_write = sides
    return of_read, of_write


def byte_argument(name: str, given: int | str, *, least: int = 1, most: int | None = None) -> int:
    """Return a number of bytes, given with or without a unit.

    Parameters
    ----------
    name
        Of the argument, for errors.
    given
        Its value.
    least, most
        The bounds of what is taken, if there is a `most`: whole MiB and GiB.

    Raises
    ------
    OptionError
        It is none, or not within the bounds.
    """
    try:
        nbytes = parsers.byte_size(str(given))
    except ValueError:
        nbytes = 0
    if nbytes < least or (most is not None and nbytes > most):
        bounds = "" if most is None else f" from {least >> 20}m to {most >> 30}g"
        raise OptionError(expected=f"bytes{bounds} as {name}, as 256m", found=repr(given))
    return nbytes
