"""Options of functions become the strings that Spark would pass, with the paths that are arguments."""

from datetime import UTC, datetime
from pathlib import PurePosixPath

import pytest

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.typed import strings_of_read, strings_without_paths

READS = [
    ("/a", {"path": "/a"}),
    (PurePosixPath("/a"), {"path": "/a"}),
    (["/a", PurePosixPath("/b")], {"paths": '["/a", "/b"]'}),
]


@pytest.mark.parametrize(("path", "expected"), READS, ids=str)
def test_paths_are_options_of_spark(path, expected):
    given = {"columns": ["a", "b"], "mergeSchema": True, "modifiedAfter": datetime(2026, 6, 1, tzinfo=UTC)}
    strings = {"columns": '["a", "b"]', "mergeSchema": "true", "modifiedAfter": "2026-06-01T00:00:00+00:00"}
    assert strings | expected == strings_of_read(path, given)


@pytest.mark.parametrize("name", ["path", "PATHS"])
def test_paths_are_no_options_of_functions(name):
    with pytest.raises(OptionError, match=f"the option {name} is for load and save"):
        strings_without_paths({name: "/x"})


def test_a_value_of_a_wrong_type_is_an_error():
    with pytest.raises(OptionError, match="mergeSchema takes bool"):
        strings_of_read("/a", {"mergeSchema": 7})
