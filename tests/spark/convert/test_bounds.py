"""The bound of a batch's decoded size: never below the exact one."""

import numpy as np
import pyarrow as pa
import pytest
from convert_batches import LONG

from spark_arrow_ipc.arrow import Array
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.measure import measure
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert.conversion import compile_bound, slot_prices

STRUCT = pa.StructArray.from_arrays([pa.array([1, 2, 3, None]), pa.array(["a", None, "ccc", ""])], ["n", "s"])
WORDS = pa.array(["a", "longest", "a", None], pa.large_string()).dictionary_encode()
BOUNDED = {
    "nothing but nulls": pa.nulls(4),
    "numbers": pa.array([1, None, 3, 4]),
    "bits": pa.array([True, False, None, True]),
    "text": pa.array(["a", None, "ccc", LONG]),
    "large binary": pa.array([b"a", b"", b"ccc", None], pa.large_binary()),
    "dictionary": WORDS,
    "dictionary without values": pa.DictionaryArray.from_arrays(pa.array([None] * 4, pa.int8()), pa.array([], pa.utf8())),
    "dictionary of structs": pa.DictionaryArray.from_arrays(pa.array([2, 2, 0, 2]), STRUCT),
    "list of dictionaries": pa.LargeListArray.from_arrays(pa.array([0, 1, 1, 4, 4]), WORDS),
    "fixed size list": pa.array([[1, 2], None, [3, 4], [5, None]], pa.list_(pa.int16(), 2)),
    "struct": STRUCT,
    "struct without fields": pa.StructArray.from_buffers(pa.struct([]), 4, [None]),
    "map": pa.array([[("k", 1)], [], None, [("k", 2), ("l", None)]], pa.map_(pa.utf8(), pa.int64())),
    "sparse union": pa.UnionArray.from_sparse(pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1, 2, 3, 4]), WORDS]),
}  # fmt: skip


@pytest.mark.parametrize("case", BOUNDED)
def test_no_batch_is_larger_than_its_bound(case):
    """Else it would go to Spark uncut. Slices share whole buffers, so they only come out smaller."""
    array = bridge.from_pyarrow(BOUNDED[case])
    bound = compile_bound([t.int8, array.type])
    for part in (array, array.slice(1, 2), array.slice(4, 0)):
        exact = measure(part, decoded=True)(np.array([0]), np.array([part.length]))
        assert exact[0] <= bound([from_pylist.array([], t.int8), part])


def test_the_bound_of_a_dictionary_follows_its_values():
    (short, long) = (bridge.from_pyarrow(pa.array(["x" * n] * 10).dictionary_encode()) for n in (1, 1000))
    bound = compile_bound([short.type])
    found = [bound([array]) for array in (short, long, long, short)]
    assert found[0] == found[3] < 1000 < 10_000 < found[1] == found[2]


UNBOUNDED = {
    "views": t.utf8_view,
    "list views": t.ListView(t.field("item", t.int64)),
    "runs": t.RunEndEncoded(t.field("run_ends", t.int32, nullable=False), t.field("values", t.int64)),
    "a dense union": t.DenseUnion((t.field("a", t.int64),), (0,)),
    "views in a struct": t.Struct((t.field("a", t.int64), t.field("b", t.binary_view))),
}


@pytest.mark.parametrize("case", UNBOUNDED)
def test_types_whose_slots_share_bytes_have_no_bound(case):
    """Their buffers may be far smaller than what comes out."""
    assert compile_bound([t.int8, UNBOUNDED[case], t.utf8]) is None


HIDING = [
    t.list_(t.null),
    t.list_(t.struct([])),
    t.list_(t.FixedSizeBinary(0)),
    t.FixedSizeList(t.Field("item", t.null), 1000),
    t.list_(t.FixedSizeList(t.Field("item", t.int8), 0)),
    t.list_(t.run_end_encoded(t.int32, t.int8)),
    t.dictionary(t.int8, t.list_(t.null)),
    t.ListView(t.Field("item", t.int8)),
]


@pytest.mark.parametrize("type_", HIDING, ids=str)
def test_types_whose_slots_need_no_bytes_have_no_bound_and_a_price(type_):
    """A list over 2^31 nulls takes 12 bytes, and 34 GB as Spark gets it."""
    assert compile_bound([t.int8, type_]) is None
    assert (0, 16) == slot_prices([t.int8, type_])


def test_slots_without_bytes_count_in_the_bound():
    bound = compile_bound([t.null, t.struct([])])
    columns = (Array(t.null, 1000, 1000, ()), Array(t.struct([]), 1000, 0, (None,)))
    assert 32_000 == bound(columns)


def test_a_dictionary_of_very_many_values_is_not_measured_whole():
    values = Array(t.struct([("a", t.int8)]), 1 << 40, 0, (None,), (Array(t.int8, 0, 0, (None, memoryview(b""))),))
    bound = compile_bound([t.dictionary(t.int8, values.type)])
    assert bound((Array(t.dictionary(t.int8, values.type), 1, 0, (None, memoryview(b"x")), (), values),)) > 1 << 60
