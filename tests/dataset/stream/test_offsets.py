"""Offsets that come back from a checkpoint, sound and otherwise."""

import json
import pickle

import pytest

from spark_arrow_ipc.dataset.stream.mode import MAX_OFFSET_CHARS, OffsetValues, make_offset, mode_of_offset
from spark_arrow_ipc.errors import StreamOffsetError


def values(offset, mode="log", names=("log", "name")):
    return OffsetValues(offset, mode, names)


def test_an_offset_survives_the_checkpoint_and_its_text_is_the_same():
    offset = make_offset("log", log=17, name="a")
    again = json.loads(json.dumps(offset))
    assert json.dumps(offset) == json.dumps(again) == '{"v": 1, "mode": "log", "log": 17, "name": "a"}'
    assert "log" == mode_of_offset(again)
    assert (17, "a") == (values(again).integer("log"), values(again).string("name"))


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (None, "a JSON object"),
        ([1], "a JSON object"),
        ({}, "made by another source"),
        ({"v": True, "mode": "log"}, "made by another source"),
        ({"v": 1, "mode": 3}, "made by another source"),
        ({"logOffset": 3}, "made by another source"),
        ({"v": 2, "mode": "log", "log": 1, "name": ""}, "a later release"),
        (make_offset("window", log=1, name=""), "made in the mode 'window'.*the mode 'log'"),
        (make_offset("log", log=1), "found the names"),
        (make_offset("log", log=1, name="", more=2), "found the names"),
    ],
)
def test_what_is_no_offset_of_the_mode_is_refused(offset, message):
    with pytest.raises(StreamOffsetError, match=message) as caught:
        values(offset)
    assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value)))


@pytest.mark.parametrize("wrong", [None, True, 1.0, "1", -1, 2**63, [1]])
def test_integers_have_their_type_and_range(wrong):
    with pytest.raises(StreamOffsetError, match="expected an integer of 0 to 9,223,372,036,854,775,807 for log"):
        values(make_offset("log", log=wrong, name="")).integer("log")


@pytest.mark.parametrize("wrong", [None, 1, ["a"], "a" * (MAX_OFFSET_CHARS + 1)])
def test_strings_have_their_type_and_length(wrong):
    with pytest.raises(StreamOffsetError, match="expected a string of at most 1,048,576 characters for name"):
        values(make_offset("log", log=1, name=wrong)).string("name")
