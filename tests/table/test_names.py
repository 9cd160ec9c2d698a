"""Names: which files are managed, and which paths a log may name."""

from itertools import product

import pytest

from spark_arrow_ipc.table.names import (
    are_visible,
    data_file_name,
    is_visible,
    managed_name,
    parse_number,
    parse_numbers,
)

JOB = "0123456789abcdef" * 2

NAMES = {
    data_file_name(0, "0a1b2c3d", JOB): ("0a1b2c3d", JOB),
    data_file_name(123_456, "0a1b2c3d", JOB, 7): ("0a1b2c3d", JOB),
    f"k=1/{data_file_name(0, '0a1b2c3d', JOB, suffix='.arrows')}": ("0a1b2c3d", JOB),
    f"part-00000-{JOB}.arrow": None,
    f"part-00000-0a1b2c3d-{JOB}.parquet": None,
    f"part-00000-0A1B2C3D-{JOB}.arrow": None,
    f"xpart-00000-0a1b2c3d-{JOB}.arrow": None,
    "flights.arrow": None,
}


@pytest.mark.parametrize(("name", "ids"), NAMES.items(), ids=NAMES)
def test_a_managed_file_has_its_tables_id_in_its_name(name, ids):
    assert ids == managed_name(name)


PATHS = {
    "a.arrow": True,
    "k=1/a.arrow": True,
    "_k=1/a.arrow": True,
    "k=%2F/a b.arrow": True,
    "": False,
    "/a": False,
    "../a": False,
    "a/../b": False,
    "a//b": False,
    "a/": False,
    ".a": False,
    "_a": False,
    "_ipc_log/table": False,
    "k=1/_tmp/a": False,
    "a\0b": False,
}


@pytest.mark.parametrize(("path", "visible"), PATHS.items(), ids=map(repr, PATHS))
def test_a_log_names_visible_files_inside_the_table_only(path, visible):
    assert visible is is_visible(path)
    for paths in ([path], [path, "a.arrow"], ["a.arrow", path], ["k=1/a", path, path]):
        assert visible is are_visible(paths), "one search for all says the same"


@pytest.mark.exhaustive
def test_one_search_for_all_paths_says_what_one_for_each_does():
    parts = ["a", ".", "_", "=", "/", "\0"]
    for length in range(1, 7):
        for path in map("".join, product(parts, repeat=length)):
            assert is_visible(path) is are_visible([path]) is are_visible(["b", path, "_c=1/d"]), repr(path)


def test_a_value_that_is_no_text_is_no_path():
    assert not are_visible(["a", 1])
    assert are_visible([])


NUMBERS = {
    "00000000000000000007.json": (7, "json"),
    "00000000000000000032.checkpoint": (32, "checkpoint"),
    "00000000000000000000.json": None,
    "7.json": None,
    "99999999999999999999.json": None,
    "00000000000000000007.json.staged": None,
    "table": None,
}


@pytest.mark.parametrize(("name", "parsed"), NUMBERS.items(), ids=NUMBERS)
def test_numbers_of_entries(name, parsed):
    assert parsed == parse_number(name)


def test_the_numbers_among_many_names_are_those_of_each_name():
    digits = [f"{number:020d}" for number in (0, 1, 42, (1 << 63) - 1, 1 << 63)] + [
        "1",
        "0" * 21,
        "x" * 20,
        "\u0661" * 20,
    ]
    parts = ["", "\n", "a"]
    suffixes = [".json", ".checkpoint", ".jsonx", "", ".json\n", "xjson"]
    names = [before + number + suffix for before, number, suffix in product(parts, digits, suffixes)]
    parsed = list(filter(None, map(parse_number, names)))
    entries, checkpoints = (
        {number for number, other in parsed if other == suffix} for suffix in ("json", "checkpoint")
    )
    assert (entries, checkpoints) == parse_numbers(names)
    assert ({1}, set()) == parse_numbers([f"{1:020d}.json"])
    assert (set(), set()) == parse_numbers([])
