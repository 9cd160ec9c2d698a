"""Random arrays of every nested type, poisoned where no row sees: every path gives the rows of the clean array.

The values of clean arrays are compared with pyarrow's in `test_properties`.
"""

import io
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import strategies as make
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from unseen_cases import poison, write_raw

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Field, RecordBatch, Schema, equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels import compact, concat, take
from spark_arrow_ipc.arrow.python_values import to_text
from spark_arrow_ipc.arrow.validate import arrays as validate

ANY = make.types(4)
WITH_DICTIONARIES = st.one_of(make.types_of(t.Dictionary, 4), make.types_of(t.Struct, 4), make.types_of(t.List, 4))
FORMS = st.sampled_from(["file", "stream"])


def unsliced(array):
    """Return an array without offsets at any depth, as `poison` needs them."""
    array = compact.compact(array)
    children = tuple(map(unsliced, array.children))
    dictionary = None if array.dictionary is None else unsliced(array.dictionary)
    return replace(array, children=children, dictionary=dictionary)


@st.composite
def clean_and_broken(draw, types):
    type_, length, seed = draw(types), draw(st.integers(0, 12)), draw(st.integers(0, 2**32 - 1))
    clean = unsliced(make.random_array(np.random.default_rng(seed), type_, length))
    return clean, poison(clean, np.zeros(length, np.bool_), keeps_validity=True)


def batch_of(array):
    return RecordBatch(Schema((Field("f", array.type),)), (array,), array.length)


def read(data, **options):
    return [row["f"] for batch in ipc.open(data, **options) for row in batch.to_pylist()]


def file_of(array, form):
    sink = io.BytesIO()
    write_raw(sink, batch_of(array), format=form)
    return sink.getvalue()


def written(arrays, form, dictionaries):
    sink = io.BytesIO()
    options = ipc.WriteOptions(format=form, dictionaries=dictionaries)
    ipc.write(sink, map(batch_of, arrays), batch_of(arrays[0]).schema, options)
    return sink.getvalue()


KERNELS = {
    "to_pylist": lambda array: array.to_pylist(),
    "to_text": to_text.to_text,
    "take": lambda array: take.take(array, np.arange(array.length)[::-1]).to_pylist(),
    "concat": lambda array: concat.concat([array, array]).to_pylist(),
    "compact": lambda array: compact.compact(array.slice(array.length // 2)).to_pylist(),
    "with_sound_values": lambda array: validate.with_sound_values(array, "f").to_pylist(),
    "read": lambda array: read(file_of(array, "file")),
    "read a stream": lambda array: read(file_of(array, "stream")),
    "read, not validated": lambda array: read(file_of(array, "file"), validation="structural"),
}


@pytest.mark.slow
@given(clean_and_broken(ANY))
@settings(max_examples=25, derandomize=True)
def test_rows_are_those_of_the_clean_array(pair):
    clean, broken = pair
    for name, function in KERNELS.items():
        assert repr(function(clean)) == repr(function(broken)), name  # NaN is not equal to itself
    assert equality.difference(clean, broken) is None


@pytest.mark.slow
@given(clean_and_broken(WITH_DICTIONARIES), FORMS, st.sampled_from(["unify", "delta"]))
@settings(max_examples=100, derandomize=True)
def test_batches_that_were_not_validated_are_written(pair, form, dictionaries):
    clean, broken = pair
    assume("ordered" not in str(clean.type))  # unused values that differ are another order
    expected = clean.to_pylist() * 2
    assert repr(expected) == repr(read(written([broken, clean], form, dictionaries)))
