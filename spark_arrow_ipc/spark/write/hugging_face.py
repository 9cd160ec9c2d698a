"""What HuggingFace's `datasets` has no feature for: columns that ``layout=huggingface`` refuses before any task runs.

`datasets` makes a feature of each Arrow type when it opens a data set, and fails for a type that is not among them: maps,
unions, intervals of months, layouts of dictionaries and runs, and extension types that pyarrow itself knows.
"""

from __future__ import annotations

from typing import Final

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import walk_fields
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import UnsupportedError

FEATURES: Final = frozenset({
    t.Null, t.Bool, t.Int, t.FloatingPoint, t.Decimal, t.Utf8, t.LargeUtf8, t.Utf8View, t.Binary, t.LargeBinary,
    t.BinaryView, t.FixedSizeBinary, t.Date, t.Time, t.Timestamp, t.Duration, t.Struct, t.List, t.LargeList, t.FixedSizeList,
})  # fmt: skip
"""The classes of types that have a feature."""

_DECIMALS: Final = frozenset({128, 256})

_JSON: Final = "arrow.json"


def check_features(schema: Schema) -> None:
    """Raise if a column, or a part of it, has a type for which there is no feature."""
    for path, field in walk_fields(schema.fields):
        name = field.extension_name or ""
        what = None if type(field.type) in FEATURES else str(field.type)
        if isinstance(field.type, t.Decimal) and field.type.bit_width not in _DECIMALS:
            what = str(field.type)
        if name.startswith("arrow.") and name != _JSON:
            what = f"the extension {name}"
        if what is not None:
            raise UnsupportedError(
                f"HuggingFace's datasets has no feature for {what}; cast the column (a map with map_entries, a variant with "
                "to_json), leave it out, or set restoreTypes=false if that is only the type that it was read from. Nothing is written",
                field_path=path,
            )
