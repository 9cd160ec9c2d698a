"""Twenty small Arrow files by pyarrow, of few bytes of metadata, which have all types that pyarrow writes.

`differential --every-value` changes each byte of their metadata to each other value.
"""

import io
from decimal import Decimal

import pyarrow as pa

_NUMBERS = pa.array([1, None, 3], pa.int32())
_WORDS = ["red", None, "a word of more than twelve bytes"]
_PLACES = pa.array([0, 2], pa.int32())
_TYPE_IDS = pa.array([0, 1, 0], pa.int8())
_LISTS = [[1, 2], None, [3]]


def _columns():
    """Return the columns of each file by its name."""
    return {
        "null_bool": [pa.nulls(3), pa.array([True, None, False])],
        "int": [pa.array([-1, None, 1], pa.int8()), pa.array([1, 2, 3], pa.uint64())],
        "float": [pa.array([0.5, None, 2], pa.float16()), pa.array([0.5, None, 2], pa.float64())],
        "decimal": [pa.array([Decimal("1.23"), None], pa.decimal128(5, 2)), pa.array([None, 1], pa.decimal32(3, 0))],
        "decimal256": [pa.array([Decimal("1.23"), None], pa.decimal256(40, 2))],
        "date": [pa.array([1, None], pa.date32()), pa.array([86_400_000, None], pa.date64())],
        "time_metadata": [pa.array([1, None], pa.time32("s")), pa.array([1, None], pa.time64("us"))],
        "timestamp": [pa.array([1, None], pa.timestamp("ns", "Europe/Amsterdam"))],
        "duration_interval": [
            pa.array([1, None], pa.duration("ms")),
            pa.array([pa.MonthDayNano([1, 2, 3]), None], pa.month_day_nano_interval()),
        ],
        "utf8_binary": [pa.array(_WORDS), pa.array([b"\xff", None, b""], pa.binary())],
        "large": [
            pa.array(_WORDS, pa.large_string()),
            pa.array([b"\xff", None, b""], pa.large_binary()),
            pa.array(_LISTS, pa.large_list(pa.int16())),
        ],
        "view": [pa.array(_WORDS, pa.string_view()), pa.array([b"\xff" * 20, None, b""], pa.binary_view())],
        "fixed_size": [
            pa.array([b"ab", None], pa.binary(2)),
            pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
        ],
        "list": [pa.array(_LISTS, pa.list_(pa.int32()))],
        "list_view": [
            pa.array(_LISTS, pa.list_view(pa.int32())),
            pa.array(_LISTS, pa.large_list_view(pa.int8())),
        ],
        "struct_map": [
            pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())])),
            pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())),
        ],
        "union": [
            pa.UnionArray.from_sparse(_TYPE_IDS, [_NUMBERS, pa.array([1.0, 2.0, 3.0])]),
            pa.UnionArray.from_dense(_TYPE_IDS, pa.array([0, 0, 1], pa.int32()), [_NUMBERS, pa.array(["a"])]),
        ],
        "run_ends": [pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))],
        "dictionary": [pa.DictionaryArray.from_arrays(_PLACES, pa.array(_WORDS))],
        "int64.lz4": [pa.array(range(100), pa.int64())],
    }


def small_files():
    """Return the bytes of each file by its name; most have one batch, some custom metadata."""
    made = {}
    for name, columns in _columns().items():
        schema = pa.schema(
            [pa.field(f"c{i}", column.type) for i, column in enumerate(columns)],
            metadata={"k": "v"} if name == "date" else None,
        )
        sink = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression="lz4" if name.endswith("lz4") else None)
        with pa.ipc.new_file(sink, schema, options=options) as writer:
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            writer.write_batch(batch, custom_metadata={"a": "b"} if name == "time_metadata" else None)
        made[f"{name}.arrow"] = sink.getvalue()
    return made
