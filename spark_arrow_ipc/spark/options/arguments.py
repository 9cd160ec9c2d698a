"""The options of functions that read or rewrite: Python's values as Spark's strings, and paths as an argument of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.options import PATHS
from spark_arrow_ipc.spark.options.typed import strings_of

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, or several."""


def strings_of_read(path: Paths, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a read as Spark gives them to the source, with those of its paths.

    Raises
    ------
    OptionError
        As `strings_without_paths`.
    """
    strings = strings_without_paths(options)
    if isinstance(path, (str, os.PathLike)):
        return {**strings, "path": os.fspath(path)}
    return {**strings, "paths": json.dumps([os.fspath(each) for each in path])}


def strings_without_paths(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options as strings.

    Raises
    ------
    OptionError
        A value has a wrong type, or a path is among them.
    """
    strings = strings_of(options)
    for name in strings:
        if name.lower() in PATHS:
            raise OptionError(f"the option {name} is for load and save; here paths are arguments: remove it")
    return strings
