"""Checked access to a JSON document, with the path of each value for errors.

A `Node` is a JSON value with its path (``$.batches[0].columns[1]``) and the error class for a wrong value:
`InvalidMetadataError` in the schema, `InvalidBodyError` in batches. Readers call the methods of a node instead of
using the bare value, so every error names its path. This module is independent of Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import InvalidArrowError, InvalidMetadataError, LimitError, cut_repr

MAX_NBYTES = 1 << 30
"""Most bytes of JSON. The goldens have up to 1 MB."""

_DECIMAL_INTEGER = re.compile(r"-?[0-9]{1,100}", re.ASCII)
_SHOWN = 60  # characters of a wrong value that an error message shows


def integer(value: object) -> int:
    """Return an integer from a JSON number, or from a string because doubles cannot hold it; ValueError otherwise."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _DECIMAL_INTEGER.fullmatch(value):
        return int(value)
    raise ValueError(f"expected an integer, found {cut_repr(value, _SHOWN)}")


@dataclass(frozen=True, slots=True)
class Node:
    """A JSON value, its path in the document, and the error class for a wrong value."""

    value: Any  # as `parse_json` returned it
    path: str  # ``$`` for the document, ``$.schema.fields[0]`` inside
    error: type[InvalidArrowError] = InvalidMetadataError  # raised for this value and those inside it

    def fail(self, expected: str, cause: Exception | None = None) -> NoReturn:
        """Raise the error of this node: `expected` at this path, found this value."""
        raise self.error(expected=f"{expected} at {self.path}", found=cut_repr(self.value, _SHOWN)) from cause

    def optional(self, key: str, error: type[InvalidArrowError] | None = None) -> Node | None:
        """Return a member of this object, or None if it is absent or null."""
        if not isinstance(self.value, Mapping):
            self.fail("an object")
        value = self.value.get(key)
        return None if value is None else Node(value, f"{self.path}.{key}", error or self.error)

    def member(self, key: str, error: type[InvalidArrowError] | None = None) -> Node:
        """Return a member of this object, which must exist."""
        return self.optional(key, error) or self.fail(f"a member {key!r}")

    def array(self) -> list[Any]:
        """Return the bare values of this JSON array."""
        return self.value if isinstance(self.value, list) else self.fail("an array")

    def elements(self) -> Iterator[Node]:
        """Return an iterator over the elements of this JSON array."""
        # Lazily: the first wrong element ends the reading of millions.
        return (Node(value, f"{self.path}[{i}]", self.error) for i, value in enumerate(self.array()))

    def array_of(self, count: int) -> list[Any]:
        """Return the bare values of this JSON array, which must have `count` elements."""
        values = self.array()
        if len(values) != count:
            raise self.error(expected=f"{count} elements at {self.path}", found=str(len(values)))
        return values

    def integer(self) -> int:
        """Return this integer, written as a number or a string."""
        try:
            return integer(self.value)
        except ValueError as error:
            self.fail("an integer", error)

    def int32(self) -> int:
        """Return this integer, which must fit an int32 as in ``Schema.fbs``."""
        value = self.integer()
        return value if -1 << 31 <= value < 1 << 31 else self.fail("an integer of 32 bits")

    def count(self) -> int:
        """Return this integer, which must be a count: not negative, and within an int64."""
        value = self.integer()
        return value if 0 <= value < 1 << 63 else self.fail("a count")

    def string(self) -> str:
        """Return this string."""
        return self.value if isinstance(self.value, str) else self.fail("a string")

    def flag(self) -> bool:
        """Return this boolean."""
        return self.value if isinstance(self.value, bool) else self.fail("true or false")


def load(content: bytes) -> Node:
    """Return the root of a JSON document.

    InvalidMetadataError if the bytes are not JSON or are nested too deeply, LimitError if they are more than `MAX_NBYTES`.
    """
    if len(content) > MAX_NBYTES:
        raise LimitError(expected=f"at most {MAX_NBYTES:,} bytes of JSON", found="more")
    try:
        # The document is the user's own: its values may take memory in proportion to its bytes.
        return Node(parse_json(content, most_memory=16 * MAX_NBYTES), "$")
    except ValueError as error:
        raise InvalidMetadataError(expected="a JSON document", found=str(error)) from error
