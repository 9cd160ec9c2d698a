"""The schema: fields in order, custom metadata, and the declared byte order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from spark_arrow_ipc.arrow.types import AnyPairs, CustomMetadata, Field, Struct, pairs
from spark_arrow_ipc.errors import ColumnNotFoundError, absent_name, cut_repr, join_texts


class Endianness(IntEnum):
    """Byte order of the buffers in record batches. Metadata is always little-endian."""

    LITTLE = 0
    BIG = 1


@dataclass(frozen=True, slots=True)
class Schema:
    """Fields, pairs of custom metadata, and the byte order of the file.

    `endianness` is the declaration of the file; arrays in memory are always in the byte order of this machine.
    """

    fields: tuple[Field, ...]
    custom_metadata: CustomMetadata = ()
    endianness: Endianness = Endianness.LITTLE

    @classmethod
    def of(
        cls,
        fields: Iterable[Field],
        custom_metadata: AnyPairs | None = None,
    ) -> Schema:
        """Return a schema of any iterable of fields, and of a mapping or pairs."""
        return cls(tuple(fields), pairs(custom_metadata))

    @classmethod
    def from_arrow(cls, source: Any) -> Schema:
        """Return the schema of another library's object that has ``__arrow_c_schema__``, such as a pyarrow schema.

        Raises
        ------
        TypeError
            It has no such method, or is the type of an array.
        ArrowIpcError
            It has a type that the format lacks.
        """
        from spark_arrow_ipc.arrow import c_data  # programs that share nothing need no pyarrow

        return cls.of_struct(c_data.import_field(source))

    @classmethod
    def of_struct(cls, field: Field) -> Schema:
        """Return the schema for a field of structs, which stands for it in the C data interface.

        Raises
        ------
        TypeError
            It is a field of another type.
        """
        if not isinstance(field.type, Struct):
            raise TypeError(f"expected the structs of a record batch, found an array of {field.type}")
        return cls(field.type.fields, field.custom_metadata)

    def __arrow_c_schema__(self) -> object:
        """Return a capsule of the schema (the Arrow PyCapsule interface). O(fields)."""
        from spark_arrow_ipc.arrow import c_data

        capsule: object = c_data.export_schema(self.fields, self.custom_metadata).__arrow_c_schema__()
        return capsule

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The fields' names in order; a name may occur twice."""
        return tuple(field.name for field in self.fields)

    def position(self, column: int | str) -> int:
        """Return the position of a column, by its position or a name that occurs once.

        Raises
        ------
        ColumnNotFoundError
            No such position or name, or the name occurs more than once.
        """
        if isinstance(column, int):
            if 0 <= column < len(self.fields):
                return column
            raise ColumnNotFoundError(expected=f"a column position below {len(self.fields)}", found=str(column))
        positions = [i for i, name in enumerate(self.names) if name == column]
        if len(positions) == 1:
            return positions[0]
        if positions:
            raise ColumnNotFoundError(
                f"the name {cut_repr(column)} stands for {len(positions)} columns; address one of them by position: "
                f"{join_texts([f'#{i}' for i in positions])}"
            )
        raise ColumnNotFoundError(absent_name(column, self.names))

    def field(self, column: int | str) -> Field:
        """Return the field of a column by its position or name."""
        return self.fields[self.position(column)]

    def __str__(self) -> str:
        return "\n".join(map(str, self.fields)) or "(no columns)"

    def _repr_html_(self) -> str:
        from spark_arrow_ipc.arrow.python_values import to_text  # only notebooks need it

        return to_text.schema_html(self.fields, self.custom_metadata)
