"""Dictionaries of a stream are those in force; those of a file are all of it, and decoded once."""

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.errors import InvalidDictionaryError
from spark_arrow_ipc.ipc.columns import dictionaries
from spark_arrow_ipc.ipc.columns.dictionaries import DictionaryBlock, FileDictionaries, StreamDictionaries
from spark_arrow_ipc.ipc.columns.plan import compile_plan
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion

PLAN = compile_plan((t.field("values", t.utf8),), (), MetadataVersion.V5)


def words(*values):
    return from_pylist.array(list(values), t.utf8)


# ---- streams


def test_a_stream_has_the_last_values_and_their_deltas():
    known = StreamDictionaries()
    assert not known.has(3)
    assert known.find(3, PLAN) is None
    steps = [(("a",), False, ["a"]), (("b", "c"), True, ["a", "b", "c"]), (("d",), False, ["d"])]
    for values, is_delta, expected in steps:
        known.bring(3, words(*values), is_delta=is_delta)
        assert expected == known.find(3, PLAN).to_pylist()
    assert known.has(3)


def test_a_delta_needs_what_it_extends():
    with pytest.raises(InvalidDictionaryError, match="dictionary 3 before a delta to it"):
        StreamDictionaries().bring(3, words("a"), is_delta=True)


def test_small_deltas_do_not_copy_the_dictionary(monkeypatch):
    """Each of 10,000 deltas copied all before it: 16 ms a delta on 100 MB."""
    copied = []
    real = dictionaries.concat

    def counting(parts):
        copied.append(sum(part.length for part in parts))
        return real(parts)

    monkeypatch.setattr(dictionaries, "concat", counting)
    known = StreamDictionaries()
    known.bring(3, words(*map(str, range(5000))), is_delta=False)
    for i in range(300):
        known.bring(3, words(str(i)), is_delta=True)
    assert sum(copied) < 300 * 10
    found = known.find(3, PLAN)
    assert [*map(str, range(5000)), *map(str, range(300))] == found.to_pylist()
    assert found is known.find(3, PLAN)


def test_bytes_of_dictionaries_are_those_that_stay_in_force():
    known = StreamDictionaries()
    known.bring(1, words("a"), is_delta=False, nbytes=10)
    known.bring(1, words("b"), is_delta=True, nbytes=5)
    known.bring(2, words("c"), is_delta=False, nbytes=100)
    assert (115, 100, 115) == tuple(
        known.held_nbytes(*case[:1], is_delta=case[1]) for case in [(1, True), (1, False), (3, False)]
    )
    known.bring(1, words("d"), is_delta=False, nbytes=20)
    assert 120 == known.held_nbytes(1, is_delta=True)


# ---- files

BLOCKS = [(1, False, "a"), (2, False, "x"), (1, True, "b"), (1, True, "c")]


def file_of(blocks):
    decoded = []

    def decode(number, _):
        decoded.append(number)
        return words(blocks[number][2])

    headers = tuple(DictionaryBlock(id_, is_delta) for id_, is_delta, _ in blocks)
    return FileDictionaries(lambda: headers, decode), decoded


def test_a_file_joins_deltas_in_the_order_of_the_footer_and_once():
    known, decoded = file_of(BLOCKS)
    assert known.find(9, PLAN) is None
    assert ["a", "b", "c"] == known.find(1, PLAN).to_pylist()
    assert known.find(1, PLAN) is known.find(1, PLAN)
    assert [0, 2, 3] == decoded


BROKEN = [
    ("a delta first", [(1, True, "a")], "dictionary batch 0: .*found a delta first"),
    ("a replacement", [(1, False, "a"), (1, False, "b")], "dictionary batch 1: .*found a second one"),
]


@pytest.mark.parametrize(("blocks", "says"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_file_has_one_dictionary_of_an_id(blocks, says):
    known, _ = file_of(blocks)
    with pytest.raises(InvalidDictionaryError, match=says):
        known.find(1, PLAN)


def test_a_dictionary_that_needs_itself_is_refused():
    known = FileDictionaries(lambda: (DictionaryBlock(1, is_delta=False),), lambda _, plan: known.find(1, plan))
    with pytest.raises(InvalidDictionaryError, match="dictionary 1 is encoded by itself"):
        known.find(1, PLAN)
