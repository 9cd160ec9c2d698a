"""A footer says where messages lie, and is refused where that cannot be."""

import tracemalloc

import numpy as np
import pytest

from spark_arrow_ipc.errors import InvalidFramingError, InvalidMetadataError, LimitError, UnsupportedError
from spark_arrow_ipc.ipc.constants import Limits
from spark_arrow_ipc.ipc.flatbuf import builder, reader, tables
from spark_arrow_ipc.ipc.messages import footer
from spark_arrow_ipc.ipc.messages.footer import Block, decode_footer

END = 1000
"""Where the footer begins."""
MOST = 2**63 - 1


def footer_of(batches=(), dictionaries=(), **values):
    rows = {"recordBatches": batches, "dictionaries": dictionaries}
    vectors = {name: np.array(blocks, np.int64).reshape(-1, 3) for name, blocks in rows.items()}
    return memoryview(builder.build(tables.FOOTER, {"version": 4, "schema": {}, **vectors, **values}))


def decoded(*arguments, **values):
    return decode_footer(footer_of(*arguments, **values), END, Limits())


def test_blocks_and_pairs_come_in_order():
    pairs = [{"key": "b", "value": "1"}, {"key": "a", "value": ""}]
    footer = decoded([(400, 100, 8), (8, 100, 0)], [(512, 96, 8)], custom_metadata=pairs)
    assert (Block(400, 100, 8), Block(8, 100, 0)) == footer.record_batches
    assert (Block(512, 96, 8),) == footer.dictionaries
    assert (("b", "1"), ("a", "")) == footer.custom_metadata
    assert 108 == footer.record_batches[0].nbytes


def test_the_last_block_may_end_where_the_footer_begins():
    assert (Block(800, 192, 8),) == decoded([(800, 192, 8)]).record_batches


BROKEN = [
    ("a negative offset", [(-8, 100, 8)], [], "record batch 0: "),
    ("no metadata", [(8, 0, 8)], [], "metadata of 0, body of 8"),
    ("a negative body", [(8, 100, -8)], [], "body of -8"),
    ("between two words", [(12, 100, 8)], [], "byte offset 12"),
    ("an end after the footer", [(8, 100, 8), (800, 193, 8)], [], "record batch 1: "),
    ("a sum beyond 64 bits", [(8, 100, MOST)], [], "body of 9,223"),
    ("a dictionary outside", [], [(1008, 100, 8)], "dictionary batch 0: "),
    ("two that share bytes", [(8, 100, 8), (112, 100, 8)], [], "record batch 1: expected a block"),
    ("a dictionary inside a batch", [(8, 300, 0)], [(16, 100, 0)], "dictionary batch 0: expected a block"),
]


@pytest.mark.parametrize(
    ("batches", "dictionaries", "says"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_blocks_that_cannot_be_are_named(batches, dictionaries, says):
    with pytest.raises(InvalidFramingError, match=says):
        decoded(batches, dictionaries)


def test_no_block_is_made_before_all_are_checked():
    """Ten million blocks that share bytes took 1.8 GB, although the second was an error already."""
    count = 200_000
    flatbuffer = footer_of(np.tile((8, 100, 8), (count, 1)))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidFramingError, match="record batch 1: expected a block"):
            decode_footer(flatbuffer, END, Limits())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * count


def test_blocks_are_counted_before_they_are_made():
    blocks = ([(8, 100, 0), (112, 100, 0)], [(216, 100, 0)])
    assert 2 == len(decode_footer(footer_of(*blocks), END, Limits(max_blocks=3)).record_batches)
    with pytest.raises(LimitError, match="asks for 3, the budget max_blocks is 2"):
        decode_footer(footer_of(*blocks), END, Limits(max_blocks=2))


def test_a_footer_has_a_schema():
    flatbuffer = memoryview(builder.build(tables.FOOTER, {"version": 4}))
    with pytest.raises(InvalidMetadataError, match="a schema in the footer"):
        decode_footer(flatbuffer, END, Limits())


def test_a_footer_of_a_later_version_is_refused_and_of_an_earlier_one_is_not():
    assert () == decoded(version=0).record_batches
    flatbuffer = bytearray(footer_of(version=4))
    at = reader.root(memoryview(flatbuffer), tables.FOOTER).scalar_extent("version").start
    flatbuffer[at] = 5
    with pytest.raises(UnsupportedError, match="metadata version 5"):
        decode_footer(memoryview(flatbuffer), END, Limits())


def outcome(batches, dictionaries, limits, few):
    """Return the places and gaps of a footer, or its error, with a loop over at most `few` blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(footer, "_FEW_BLOCKS", few)
        try:
            found = decode_footer(footer_of(batches, dictionaries), END, limits)
        except (InvalidFramingError, LimitError) as error:
            return str(error)
        return found.record_batches, found.dictionaries, found.uncovered


@pytest.mark.slow
def test_a_few_blocks_are_judged_as_many_are():
    random = np.random.default_rng(0)
    seen = set()
    for _ in range(2_000):
        blocks, at = [], 8 * int(random.integers(0, 3))
        for _ in range(random.integers(0, 5)):
            metadata_nbytes, body_nbytes = (8 * random.integers(0, 9, 2)).tolist()
            at += int(random.choice([0, 0, 0, 8, 48, 64, -8, 4]))
            blocks.append((at, metadata_nbytes, body_nbytes - int(random.choice([0, 0, 0, 0, 80]))))
            at += metadata_nbytes + body_nbytes
        if random.integers(0, 4) == 0:
            random.shuffle(blocks)
        cut = int(random.integers(0, len(blocks) + 1))
        limits = Limits(max_blocks=int(random.integers(2, 6)))
        with_loop = outcome(blocks[cut:], blocks[:cut], limits, 32)
        assert outcome(blocks[cut:], blocks[:cut], limits, -1) == with_loop
        seen.add(type(with_loop))
    assert {str, tuple} == seen
