"""pyarrow arrays of every type that pyarrow can build in Python, with nulls, and more than one byte of validity."""

import datetime as dt
import decimal

import pyarrow as pa

D = decimal.Decimal
WORDS = [
    "",
    "a",
    None,
    "grün",
    "twelve bytes",
    "thirteen byte",
    "日本語のテキストです",
    None,
    "🏹 arrow",
    "x" * 40,
    "tail",
]
BYTES = [None if word is None else word.encode() + b"\xff" for word in WORDS]
NUMBERS = [1, None, 3, 4, None, 0, 7, 8, 9, 10, None]
LISTS = [[1, 2], None, [], [3, None], [4], [], [5, 6, 7], None, [8], [9, 10], [None]]
DAYS = [None if n is None else dt.date(2020, 1, 1) + dt.timedelta(days=n) for n in NUMBERS]
LIST_VALUES = pa.array(range(20), pa.int32())


def _dense():
    ids = pa.array([5, 7, 5, 5, 7, 7, 5, 7, 5, 7, 7], pa.int8())
    offsets = pa.array([0, 0, 1, 2, 1, 2, 3, 3, 4, 4, 5], pa.int32())
    children = [pa.array([1, None, 3, 4, 5]), pa.array(["a", "bb", None, "dddd", "e", "f"])]
    return pa.UnionArray.from_dense(ids, offsets, children, ["n", "s"], [5, 7])


def _sparse():
    ids = pa.array([0, 1, 0, 0, 1, 1, 0, 1, 0, 1, 1], pa.int8())
    return pa.UnionArray.from_sparse(ids, [pa.array(NUMBERS), pa.array(WORDS)], ["n", "s"])


def _runs(type_, words=("a", None, "grün")):
    return pa.RunEndEncodedArray.from_arrays(pa.array([2, 7, 11], type_), pa.array(words))


def _list_view(type_):
    sizes = [2, 0, 3, 1, 0, 2, 4, 1, 1, 0, 2]
    starts = [9, 0, 4, 5, 6, 5, 8, 3, 3, 3, 12]
    return type_.from_arrays(pa.array(starts, pa.int32()), pa.array(sizes, pa.int32()), LIST_VALUES)


def _large_list_view():
    starts, sizes = [3, 2, 1, 0, 0, 0, 7, 7, 9, 4, 2], [1, 2, 3, 0, 1, 2, 1, 1, 0, 0, 5]
    return pa.LargeListViewArray.from_arrays(pa.array(starts, pa.int64()), pa.array(sizes, pa.int64()), LIST_VALUES)


STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
STRUCTS = [None if n is None else {"a": n, "b": w} for n, w in zip(NUMBERS, WORDS, strict=True)]
MAPS = [None if n is None else [(w or "key", n)] * (n % 3) for n, w in zip(NUMBERS, WORDS, strict=True)]

ARRAYS = {
    "null": pa.nulls(11),
    "bool": pa.array([True, False, None, True, True, False, None, True, False, True, True]),
    **{str(type_): pa.array(NUMBERS, type_) for type_ in (
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float32(), pa.float64(), pa.date32(), pa.time32("s"), pa.time64("us"), pa.timestamp("us", "UTC"),
        pa.duration("ms"),
    )},
    "date64": pa.array(DAYS, pa.date64()),
    "float16": pa.array(NUMBERS, pa.float32()).cast(pa.float16()),
    **{str(type_): pa.array([None if n is None else D(n) for n in NUMBERS], type_) for type_ in (
        pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(20, 2), pa.decimal256(50, 2)
    )},
    "interval": pa.array([None if n is None else (n, n, n) for n in NUMBERS], pa.month_day_nano_interval()),
    "fixed_size_binary": pa.array([None if n is None else bytes([n]) * 3 for n in NUMBERS], pa.binary(3)),
    "fixed_size_binary_0": pa.array([None if n is None else b"" for n in NUMBERS], pa.binary(0)),
    "binary": pa.array(BYTES, pa.binary()),
    "large_binary": pa.array(BYTES, pa.large_binary()),
    "binary_view": pa.array(BYTES, pa.binary_view()),
    "utf8": pa.array(WORDS, pa.string()),
    "large_utf8": pa.array(WORDS, pa.large_string()),
    "utf8_view": pa.array(WORDS, pa.string_view()),
    "list": pa.array(LISTS, pa.list_(pa.int64())),
    "large_list": pa.array(LISTS, pa.large_list(pa.int64())),
    "list_utf8": pa.array([None if v is None else list(map(str, v)) for v in LISTS], pa.list_(pa.string())),
    "list_view": _list_view(pa.ListViewArray),
    "large_list_view": _large_list_view(),
    "fixed_size_list": pa.array([None if n is None else [n, None] for n in NUMBERS], pa.list_(pa.int16(), 2)),
    "fixed_size_list_0": pa.array([None if n is None else [] for n in NUMBERS], pa.list_(pa.int16(), 0)),
    "struct": pa.array(STRUCTS, STRUCT),
    "list_struct": pa.array([[s, s] for s in STRUCTS], pa.list_(STRUCT)),
    "map": pa.array(MAPS, pa.map_(pa.string(), pa.int32())),
    "sparse_union": _sparse(),
    "dense_union": _dense(),
    "run_end_int16": _runs(pa.int16()),
    "run_end_int64": _runs(pa.int64()),
    "dictionary": pa.array(WORDS).dictionary_encode(),
    "dictionary_uint8": pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 2, 1, 0, 0, None, 1, 2], pa.uint8()), ["x", None, "z"]),
    "list_dictionary": pa.array([[w] for w in WORDS], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
}  # fmt: skip
"""Name to array, 11 slots each."""

SLICES = [(0, 11), (0, 3), (1, 10), (3, 8), (5, 1), (8, 3), (9, 2), (4, 0), (11, 0)]
"""Offset and length of slices of them."""
