"""The grammar of option values."""

import cpu_time
import pytest

from spark_arrow_ipc.spark.options import values

COLUMNS = {" All ": None, "a, b.c, #1": ("a", ("b", "c"), 1), "`all`": ("all",), "all, a": ("all", "a")}


@pytest.mark.parametrize("string", COLUMNS)
def test_columns_are_a_list_of_paths_or_all(string):
    assert COLUMNS[string] == values.columns(string)


@pytest.mark.parametrize("string", ["none", "Auto", "", "a,,b"])
def test_columns_that_are_none(string):
    with pytest.raises(ValueError):
        values.columns(string)


SHAPES = {
    "image:224x224x3": (("image", (224, 224, 3)),),
    " a : 2 x ? ,`b,c:d`:7": (("a", (2, None)), ("b,c:d", (7,))),
    "#1:0": ((1, (0,)),),
}


@pytest.mark.parametrize("string", SHAPES)
def test_tensor_columns_are_names_with_shapes(string):
    assert SHAPES[string] == values.tensor_columns(string)


@pytest.mark.parametrize("string", ["", "a", "a:", ":2", "a:x", "a:2x", "a:-1", "a:2,", "a:2 b:3", "a.b:2", "a:1.5", "a:2147483648", "a:" + "x".join("1" * 65)])  # fmt: skip
def test_tensor_columns_that_are_none(string):
    with pytest.raises(ValueError):
        values.tensor_columns(string)


@pytest.mark.parametrize("string", ["", "a", "a:?", "a:0", "a:2x3", "a:-1", "a.:2", "a:2147483648", "a:2,"])
def test_fixed_size_lists_that_are_none(string):
    with pytest.raises(ValueError):
        values.list_sizes(string)


@pytest.mark.parametrize(
    "string", ["`" * 20_001, " " * 20_000, "a:" + " " * 20_000, "a:1x" * 5_000], ids=lambda s: s[:4]
)
def test_tensor_columns_that_are_none_are_refused_soon(string):
    """Each took a regular expression minutes."""
    with pytest.raises(ValueError):
        cpu_time.at_most(1, values.tensor_columns, string)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("1", 1), ("10b", 10), ("128m", 128 << 20), ("1MB", 1 << 20), ("2 g", 2 << 30), ("1t", 1 << 40), ("1pb", 1 << 50)],
)
def test_byte_sizes_are_those_of_spark(text, nbytes):
    assert nbytes == values.byte_size(text)


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5g", "m", "1x", "1kk", "1_000"])
def test_byte_sizes_that_are_none(text):
    with pytest.raises(ValueError):
        values.byte_size(text)


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("90", 90), ("30s", 30), ("10 M", 600), ("2h", 7200), ("1d", 86_400)])  # fmt: skip
def test_durations_are_seconds(text, seconds):
    assert seconds == values.duration(text)


@pytest.mark.parametrize("text", ["", "-1", "1.5h", "m", "1w", "1m30s", "9" * 10])
def test_durations_that_are_none(text):
    with pytest.raises(ValueError):
        values.duration(text)


@pytest.mark.parametrize(("text", "value"), [("true", True), (" FALSE ", False), ("yes", None), ("1", None)])
def test_booleans(text, value):
    if value is None:
        with pytest.raises(ValueError):
            values.boolean(text)
    else:
        assert value is values.boolean(text)
