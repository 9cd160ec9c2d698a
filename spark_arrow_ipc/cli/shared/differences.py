"""Describe the first difference of two schemas or of their record batches.

Types are compared by their integration JSON, and children by recursion, so that no type is named here. Free choices of
a writer make no difference: dictionary ids, the order of custom metadata, the layout of buffers, values of null slots.
`arrow.equality` compares values, this module the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from spark_arrow_ipc.arrow import equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import child_path
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow_json.types import type_object
from spark_arrow_ipc.cli.shared import terminal

# Levels below a map: its entries, and their key and value
_MAP_LEVELS = 2


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of two contents, by the names that its sentences use."""

    a: str
    b: str
    # The names of a map's entries, key and value count. Schema.fbs does not enforce them, and Arrow's own
    # goldens of one content differ in them
    names_of_maps: bool = False

    def of_schemas(self, a: Schema, b: Schema) -> str | None:
        """Describe the first difference of two schemas, or return None."""
        # Endianness is not compared: arrays in memory have this machine's.
        difference = self._of_fields(a.fields, b.fields, None, "", 0)
        return difference or self._of_metadata("the schema", a.custom_metadata, b.custom_metadata)

    def of_batches(self, a: Sequence[RecordBatch], b: Iterable[RecordBatch]) -> str | None:
        """Describe the first difference of batches of equal schemas, or return None; `b` may be a reader."""
        for number, (ours, theirs) in enumerate(zip_longest(a, b)):
            if ours is None or theirs is None:
                short, long = (self.a, self.b) if ours is None else (self.b, self.a)
                return f"{short} has {terminal.count(number, 'record batch', 'record batches')}, {long} has more"
            where = f"record batch {number}"
            if ours.num_rows != theirs.num_rows:
                return self._sentence(where, "number of rows", ours.num_rows, theirs.num_rows)
            for field, column, other in zip(theirs.schema.fields, ours.columns, theirs.columns, strict=True):
                # Not compared with types, which are equal: the metadata of nested fields would count too.
                difference = equality.difference(column, other, field.name, types=False)
                if difference is not None:
                    return f"{where}, first {self.a}, then {self.b}: {difference}"
        return None

    def _of_fields(
        self, a: Sequence[t.Field], b: Sequence[t.Field], parent: t.DataType | None, path: str, unnamed: int
    ) -> str | None:
        """Compare fields and their children, ignoring the names of the first `unnamed` levels."""
        for ours, theirs in zip(a, b, strict=False):
            below = ours.name if parent is None else child_path(parent, path, ours)
            where = f"field {below}"
            # Names of a map's entries are free (`names_of_maps`).
            if ours.name != theirs.name and not unnamed:
                return self._sentence(where, "name", repr(ours.name), repr(theirs.name))
            if ours.nullable != theirs.nullable:
                return self._sentence(where, "nullable", ours.nullable, theirs.nullable)
            if _head(ours.type) != _head(theirs.type):
                return self._sentence(where, "type", ours.type, theirs.type)
            levels = _MAP_LEVELS if isinstance(ours.type, t.Map) and not self.names_of_maps else max(unnamed - 1, 0)
            # A dictionary type has no children itself, but its values may.
            mine, other = _values(ours.type), _values(theirs.type)
            difference = self._of_fields(mine.children, other.children, mine, below, levels)
            difference = difference or self._of_metadata(where, ours.custom_metadata, theirs.custom_metadata)
            if difference is not None:
                return difference
        # After the fields, as the first other field says more than a number.
        if len(a) != len(b):
            return self._sentence(f"field {path}" if path else "the schema", "number of fields", len(a), len(b))
        return None

    def _of_metadata(self, where: str, a: t.CustomMetadata, b: t.CustomMetadata) -> str | None:
        # A key may occur twice; the order is what writers choose.
        if sorted(a) == sorted(b):
            return None
        return self._sentence(where, "custom metadata", list(a), list(b))

    def _sentence(self, where: str, what: str, a: object, b: object) -> str:
        ours, theirs = (terminal.cut(str(value), _SHOWN) for value in (a, b))
        return f"{where}: {what} is {ours} in {self.a}, {theirs} in {self.b}"


# Most characters of each side in a sentence
_SHOWN = 300


def _values(type_: t.DataType) -> t.DataType:
    return type_.value if isinstance(type_, t.Dictionary) else type_


def _head(type_: t.DataType) -> tuple[object, ...]:
    """Return the parts of a type's JSON, without its children."""
    encoding = (type_.index, type_.ordered) if isinstance(type_, t.Dictionary) else ()
    return (*encoding, type_object(_values(type_)))
