"""Random tables of dictionaries of every type, for the tests that unify them."""

from dataclasses import replace

import numpy as np
import strategies
from hypothesis import strategies as st

from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels import concat, take


@st.composite
def dictionary_types(draw):
    """Types that are, or hold, dictionaries; the fields of structs and unions may share a name.

    No order of values has a meaning, which a writer may have to refuse.
    """
    inner = draw(st.sampled_from(strategies.EVERY_CLASS).flatmap(lambda cls: strategies.types_of(cls, 3)))
    if isinstance(inner, t.Dictionary):
        inner = inner.value
    if draw(st.booleans()):
        inner = t.Struct((t.Field("x", inner), t.Field("x", draw(strategies.types(2)))))
    encoded = t.Dictionary(draw(st.sampled_from(strategies.INDEX_TYPES)), inner)
    return draw(st.sampled_from([encoded, encoded, t.list_(encoded), t.struct([("d", encoded), ("d", encoded)])]))


def _is_unordered(type_):
    return ", ordered>" not in str(type_)


def _with_repeats(rng, array, before):
    """Make values of dictionaries those of another array of the same type, in part and in another order."""
    children = tuple(map(_with_repeats, [rng] * len(array.children), array.children, before.children))
    dictionary = array.dictionary
    if dictionary is not None and before.dictionary.length and rng.random() < 0.8:
        both = concat.concat([before.dictionary, dictionary])
        dictionary = take.take(both, rng.permutation(both.length).astype(np.int64))
    return replace(array, children=children, dictionary=dictionary)


@st.composite
def tables(draw, count=3):
    """Batches of one schema, whose dictionaries share values."""
    types = draw(st.lists(dictionary_types().filter(_is_unordered), min_size=1, max_size=2))
    schema = Schema(tuple(t.Field(f"c{i}", type_) for i, type_ in enumerate(types)))
    rng = draw(strategies.generators)
    batches = []
    for _ in range(count):
        rows = int(rng.integers(0, 12))
        columns = [strategies.random_array(rng, type_, rows) for type_ in types]
        if batches:
            columns = [
                _with_repeats(rng, column, before) for column, before in zip(columns, batches[-1].columns, strict=True)
            ]
        batches.append(RecordBatch(schema, tuple(columns), rows))
    return batches
