"""`spark_arrow_ipc.options`: options as typed keyword arguments, which become the dict for ``.options(**...)``.

::

    from spark_arrow_ipc import options

    spark.read.format("arrowipc").options(**options.read(where="year = 2024", columns=["id", "name"])).load(path)
    frame.write.format("arrowipc").options(**options.write(compression="zstd", commitToken="day 7")).save(path)

The functions `map_in_arrow`, `aggregate`, `count`, `rewrite`, `compact` and `ingest` take the same arguments; their
types for type checkers are here too, for functions that pass options on
(``**options: Unpack[options.RewriteKeywords]``).

Names are as in `docs/options.md`. Type checkers see them in ``keywords.py``, which is printed from the table of options; at
run time the same table makes the strings, and its parsers check them. So misspelt names, unknown words and values of a
wrong type are errors before Spark runs; neither Spark nor Java is needed. Checks that need a path are made by ``load`` and
``save``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, Unpack

from spark_arrow_ipc.errors import OptionError, cut_repr
from spark_arrow_ipc.spark.options.declare import Option
from spark_arrow_ipc.spark.options.keywords import (
    CompactKeywords,
    CountKeywords,
    FunctionKeywords,
    ReadKeywords,
    ReadStreamKeywords,
    RewriteKeywords,
    WriteKeywords,
    WriteStreamKeywords,
)
from spark_arrow_ipc.spark.options.options import (
    READING,
    STREAMING,
    WRITING,
    check_streamed,
    parse_read,
    parse_stream,
    parse_write,
)
from spark_arrow_ipc.spark.options.read_options import PATHS

__all__ = [
    "CompactKeywords", "CountKeywords", "FunctionKeywords", "ReadKeywords", "ReadStreamKeywords", "RewriteKeywords",
    "WriteKeywords", "WriteStreamKeywords", "read", "read_stream", "write", "write_stream",
]  # fmt: skip


def read(**options: Unpack[ReadKeywords]) -> dict[str, str]:
    """Return the options of a read, for ``spark.read.format("arrowipc").options(**...)``.

    Every value may be a string as for Spark. Flags may also be booleans, sizes and counts integers, durations `timedelta`,
    times `datetime`, columns lists of names, paths `os.PathLike`, and options with keys (``storage``, ``metadata``) dicts.
    See ``docs/options.md``.

    Raises
    ------
    OptionError
        There is no such option, its value is not valid, or two options exclude each other.
    """
    return _check(options, parse_read)


def write(**options: Unpack[WriteKeywords]) -> dict[str, str]:
    """Return the options of a write, for ``df.write.format("arrowipc").options(**...)``.

    Values and errors are as for `read`.
    """
    return _check(options, parse_write)


def read_stream(**options: Unpack[ReadStreamKeywords]) -> dict[str, str]:
    """Return the options of reading a stream, for ``spark.readStream.format("arrowipc").options(**...)``.

    Values and errors are as for `read`.
    """
    return _check(options, parse_stream)


def write_stream(**options: Unpack[WriteStreamKeywords]) -> dict[str, str]:
    """Return the options of writing a stream, for ``df.writeStream.format("arrowipc").options(**...)``.

    Values and errors are as for `read`. Set Spark's ``checkpointLocation`` separately.
    """
    return _check(options, lambda strings: check_streamed(parse_write(strings)))


def strings_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the strings for Python values of options, checking only their types."""
    return dict(pair for keyword, value in options.items() for pair in _pairs(keyword, value))


def _check(values_by_name: Mapping[str, Any], parse: Callable[[Mapping[str, str]], object]) -> dict[str, str]:
    """Return the strings of options that `parse` takes."""
    strings = strings_of(values_by_name)
    parse(strings)
    return strings


def _pairs(keyword: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the options that a keyword argument sets."""
    # An option of any side: the parser refuses one of another side.
    names = [(side, name) for side in (READING, STREAMING, WRITING) for name in (keyword, f"{keyword}.*")]
    option = next((option for side, name in names if (option := side.option(name))), None)
    if option is None:
        yield keyword, str(value)  # the parser's error names similar options
    elif option.name.endswith(".*") and "." not in keyword:
        if not isinstance(value, Mapping):
            raise _wrong_type(option, value)
        for key, each in value.items():
            yield f"{keyword}.{key}", _string(option, each)
    else:
        yield keyword, _string(option, value)


def _string(option: Option, value: object) -> str:
    if isinstance(value, str):
        return str(value)  # also a member of an enum
    try:
        return option.kind.string_of(value)
    except (TypeError, ValueError) as error:
        raise _wrong_type(option, value) from error


def _wrong_type(option: Option, value: object) -> OptionError:
    value_text = "" if option.is_secret else f" {cut_repr(value)}"
    return OptionError(
        f"the option {option.name} takes {option.kind.annotation}, and was given{value_text} of type {type(value).__name__}; "
        f"as a string: {option.example}"
    )


Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, or several."""


def strings_of_read(path: Paths, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a read and of its paths as Spark passes them to the source."""
    strings = strings_without_paths(options)
    if isinstance(path, (str, os.PathLike)):
        return {**strings, "path": os.fspath(path)}
    return {**strings, "paths": json.dumps([os.fspath(each) for each in path])}


def strings_without_paths(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options as strings, refusing those for paths."""
    strings = strings_of(options)
    for name in strings:
        if name.lower() in PATHS:
            raise OptionError(f"the option {name} is for load and save; here paths are arguments: remove it")
    return strings
