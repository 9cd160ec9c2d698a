"""Extension types that are stored as strings and binaries."""

import pyarrow as pa
import pytest
from convert_batches import converted, option

from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.spark.options.values import ExtensionTypes

VARIANT = pa.array(
    [{"metadata": b"\1\0\0", "value": b"\0"}, None],
    pa.struct([("metadata", pa.binary_view()), ("value", pa.large_binary())]),
)
EXTENSIONS = {
    "uuid": ("arrow.uuid", pa.array([bytes(range(16)), None], pa.binary(16)), ["00010203-0405-0607-0809-0a0b0c0d0e0f", None]),
    "uuid in a dictionary": ("arrow.uuid", pa.array([b"\xff" * 16, None], pa.binary(16)).dictionary_encode(), ["ffffffff-ffff-ffff-ffff-ffffffffffff", None]),
    "bool8": ("arrow.bool8", pa.array([0, 1, -5, None], pa.int8()), [False, True, True, None]),
    "json": ("arrow.json", pa.array(["{}", None], pa.string_view()), ["{}", None]),
    "json, large": ("arrow.json", pa.array(["{}", None], pa.large_string()), ["{}", None]),
    "variant": ("arrow.parquet.variant", VARIANT, [{"value": b"\0", "metadata": b"\1\0\0"}, None]),
    "unknown": ("my.own", pa.array([1, None], pa.uint8()), [1, None]),
}  # fmt: skip


@pytest.mark.parametrize("case", EXTENSIONS)
def test_values_of_an_extension_type(case):
    name, array, expected = EXTENSIONS[case]
    made = converted(array, metadata={"ARROW:extension:name": name})
    assert expected == made.to_pylist()


def test_extension_types_stay_storage_when_asked():
    options = option(extension_types=ExtensionTypes.STORAGE)
    made = converted(pa.array([1], pa.int8()), options, metadata={"ARROW:extension:name": "arrow.bool8"})
    assert [1] == made.to_pylist()


def test_a_variant_without_a_value_is_an_error():
    storage = pa.array(
        [{"metadata": b"", "value": None}], pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    )
    with pytest.raises(
        InvalidBodyError, match="field c: expected a value in every variant that is not null, found none in slot 0"
    ):
        converted(storage, metadata={"ARROW:extension:name": "arrow.parquet.variant"})
