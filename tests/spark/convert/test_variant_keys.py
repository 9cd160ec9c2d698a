"""The keys of variants are found for all rows at once, whatever the widths of their metadata."""

import numpy as np
import pyarrow as pa
import pytest
from variant_values import metadata_of

from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.spark.convert.variant_bytes import Keys

ROWS = [["b", "a"], [], None, ["é", "aa", "a"], ["b", "a"]]


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_keys_and_the_order_of_names(width):
    metadata = pa.array([None if keys is None else metadata_of(keys, width) for keys in ROWS])
    keys = Keys(metadata, ["a", "é", "none"], "c")
    shown = np.array([0, 1, 3, 4])
    assert [[1, -1, 2, 1], [-1, -1, 0, -1], [-1] * 4] == [keys.ids(name, shown).tolist() for name in range(3)]
    assert [2, 0, 3, 2] == keys.counts(shown).tolist()
    # By their bytes: a, aa, b, none, é.
    a, e, none = keys.ranks_of_names()
    b, aa = keys.ranks(np.array([0, 3]), np.array([0, 1]))
    assert a < aa < b < none < e
    assert [b, a] == keys.ranks(np.array([4, 4]), np.array([0, 1])).tolist()


def test_rows_without_metadata_have_no_keys():
    keys = Keys(pa.nulls(2, pa.binary()), ["a"], "c")
    assert [-1, -1] == keys.ids(0, np.arange(2)).tolist()


BROKEN = [
    ("short", b"\1\0", "metadata of at least 3 bytes, found 2 in slot 2"),
    ("another version", b"\2\0\0", "metadata of version 1, found 2 in slot 2"),
    ("wide numbers that are cut", b"\xc1\0\0\0\0\0\0\0", "the number of keys and an offset, found 8 in slot 2"),
    ("more keys than bytes", b"\1\xff\0", "an offset for each key, found 255 in slot 2"),
    ("billions of keys", b"\xc1\xff\xff\xff\xff\0\0\0\0", "an offset for each key, found 4294967295"),
    ("keys beyond the metadata", b"\1\1\0\2a", "offsets of keys that begin at 0 and do not fall"),
    ("keys that fall", b"\1\2\0\2\1ab", "offsets of keys"),
    ("keys that begin late", b"\1\1\1\1a", "offsets of keys"),
]


@pytest.mark.parametrize(("metadata", "match"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_broken_metadata_are_an_error(metadata, match):
    with pytest.raises(InvalidBodyError, match=f"field c: expected .*{match}"):
        # The broken one ends the bytes: what reads beyond it reads beyond all of them.
        Keys(pa.array([metadata_of(["a"]), b"\1\0\0", metadata]), ["a"], "c")
