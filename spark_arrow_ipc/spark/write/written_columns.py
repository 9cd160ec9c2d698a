"""`WrittenColumns`: the types of a job's columns in its files, and which of them are dictionaries.

One table, one encoding
-----------------------
polars refuses a directory in which a column is a dictionary in one file and plain in another, and pyarrow refuses some of
these, and indices that are wider than those of the first file. So a column is one or the other in all files of a table, with
one type of indices: the table's schema, which is in the log, says which. A job that keeps files follows that schema
(`WrittenColumns.follow`), whatever its options say. Options decide for the first job of a table, for one that replaces all
files, and for columns that are new. If the rows decide, all tasks agree (`agree`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import find_columns
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.types.spark_to_arrow import arrow_schema_for
from spark_arrow_ipc.spark.write.file_dictionaries import can_encode
from spark_arrow_ipc.spark.write.tensors import ListsBelow, TensorTarget


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """The columns of a DataFrame that lacks some written columns, or has narrower types."""

    schema: s.StructType  # of the DataFrame
    # The written columns in Spark's types: the DataFrame's in their order, then others, which are null.
    written: s.StructType


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """The columns of a write, from the planner for all tasks."""

    usual: Schema  # the schema without options: the default types of the DataFrame's columns
    schema: Schema  # of the files, with restored types and dictionaries
    # Positions of the columns of which the tasks decide whether they are dictionaries, by their first rows.
    sampled: tuple[int, ...] = ()
    requested: frozenset[str] = frozenset()  # names of the columns that an option makes dictionaries
    # By position: columns that become tensors or fixed-size lists.
    tensors: Mapping[int, TensorTarget | ListsBelow] = field(default_factory=dict)
    source: SourceColumns | None = (
        None  # what Spark gives, if that is less; None if it gives all columns with their types
    )

    @property
    def sent(self) -> Schema:
        """The columns that Spark sends, with their usual types."""
        return self.usual if self.source is None else arrow_schema_for(self.source.schema)

    @property
    def plain(self) -> Schema:
        """The schema of batches before columns become dictionaries, which have their usual types until then."""
        if self.schema is self.usual:
            return self.usual
        return _with_types(
            self.schema,
            [
                usual.type if isinstance(field.type, t.Dictionary) else field.type
                for field, usual in zip(self.schema.fields, self.usual.fields, strict=True)
            ],
        )

    @property
    def dictionaries(self) -> dict[str, t.Dictionary]:
        """The columns that are dictionaries in the files, and their types."""
        return {field.name: field.type for field in self.schema.fields if isinstance(field.type, t.Dictionary)}

    def with_dictionaries(self, indices: Mapping[str, t.Int]) -> WrittenColumns:
        """Return the columns of which those with some names, and no others, are dictionaries."""
        types = [encode_type(field.type, indices.get(field.name)) for field in self.schema.fields]
        return replace(self, schema=_with_types(self.schema, types), sampled=())

    def follow(self, existing: Schema, path: str, partition_positions: Collection[int]) -> WrittenColumns:
        """Return the columns with the encodings of existing files; `OptionError` if an option asks for another one."""
        types = [field.type for field in self.schema.fields]
        decided = set()
        for i, column in enumerate(self.schema.fields):
            (at,) = find_columns(existing.names, [column.name], absent=len(existing))
            if i in partition_positions or at == len(existing):
                continue
            decided.add(i)
            existing_type = existing.fields[at].type
            index = existing_type.index if isinstance(existing_type, t.Dictionary) else None
            if index is None and column.name in self.requested:
                raise OptionError(
                    f"the files that are there have this column without a dictionary ({existing_type}), and a table "
                    "has one encoding of a column, as some programs read no other: leave it out of dictionaryColumns, or "
                    'write all files anew, as by rewrite(spark, path, path, mode="overwrite", dictionaryColumns=[...]). '
                    "Nothing is written",
                    path=path,
                    field_path=column.name,
                )
            if index is None or can_encode(replace(column, type=self.usual.fields[i].type)):
                types[i] = encode_type(column.type, index)
        schema = (
            self.schema if types == [field.type for field in self.schema.fields] else _with_types(self.schema, types)
        )
        return replace(self, schema=schema, sampled=tuple(i for i in self.sampled if i not in decided))


def encode_type(type_: t.DataType, index: t.Int | None) -> t.DataType:
    """Return the type of a column in the files, as a dictionary with some indices, or plain."""
    value = type_.value if isinstance(type_, t.Dictionary) else type_
    return value if index is None else t.Dictionary(index, value)


def _with_types(schema: Schema, types: list[t.DataType]) -> Schema:
    fields = tuple(replace(field, type=type_) for field, type_ in zip(schema.fields, types, strict=True))
    return Schema(fields, schema.custom_metadata)
