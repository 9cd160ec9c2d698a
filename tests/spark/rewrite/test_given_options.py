"""The options of a rewrite go to the side that the table says, or to both."""

import pytest

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.options import READING, WRITING
from spark_arrow_ipc.spark.rewrite.rewrite import split_options

CASES = [
    ({}, {}, {}),
    ({"where": "id > 1", "columns": ["a", "b"]}, {"where": "id > 1", "columns": '["a", "b"]'}, {}),
    ({"compression": "zstd", "partitionBy": ["k"]}, {}, {"compression": "zstd", "partitionBy": '["k"]'}),
    ({"storage.region": "x"}, {"storage.region": "x"}, {"storage.region": "x"}),
    ({"storage": {"region": "x"}}, {"storage.region": "x"}, {"storage.region": "x"}),
    ({"vectors": "binary"}, {"vectors": "binary"}, {"vectors": "binary"}),
    ({"metadata": {"owner": "me"}, "MERGESCHEMA": True}, {"MERGESCHEMA": "true"}, {"metadata.owner": "me"}),
]


@pytest.mark.parametrize(("given", "read", "written"), CASES, ids=[str(case[0]) for case in CASES])
def test_sides(given, read, written):
    assert (read, written) == split_options(given, "/in", "/out")


def test_every_option_is_taken_but_paths():
    for side, position in ((READING, 0), (WRITING, 1)):
        for option in side:
            if option.name in ("path", "paths"):
                continue
            name = option.name.replace("*", "key")
            assert {name: option.example} == split_options({name: option.example}, "/in", "/out")[position]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wheer", "did you mean where?"),
        ("compresion", "did you mean compression?"),
        ("sortBy", "'python -m spark_arrow_ipc.spark.options' prints all of them"),
        ("paths", "here paths are arguments"),
        ("startingFrom", "for reading streams, and here data is rewritten"),
    ],
)
def test_mistakes(name, words):
    with pytest.raises(OptionError, match=words):
        split_options({name: "x"}, "/in", "/out")
