"""One directory: what is listed, hidden and refused."""

import os

import pytest

from spark_arrow_ipc.dataset.listing.directory import (
    Listing,
    count_noun,
    is_hidden,
    is_loop,
    is_staging,
    list_directory,
    read_directory,
)
from spark_arrow_ipc.errors import NoFilesError
from spark_arrow_ipc.storage.local import LOCAL


def fill(root, *names):
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())


def test_value_of_a_partition_may_end_like_a_staged_file(tmp_path):
    fill(tmp_path, "k=x.staged/a.arrow", "b.staged")
    assert ("k=x.staged",) == list_directory(LOCAL, str(tmp_path)).directories


NAMES = [
    ("a.arrow", False),
    ("_SUCCESS", True),
    ("_k=v", False),
    (".a.arrow.crc", True),
    (".k=v", True),
    ("a._COPYING_", True),
    ("a_COPYING_", False),
]


@pytest.mark.parametrize(("name", "expected"), NAMES, ids=[case[0] for case in NAMES])
def test_hidden_names_are_those_of_spark(name, expected):
    assert expected == is_hidden(name)


def test_staged_names():
    names = ("a.staged", "_ipc_stage", "_ipc_log", "staged", "a.staged.arrow")
    assert [True, True, False, False, False] == [is_staging(name) for name in names]


def test_numbers_with_their_nouns():
    assert ["1 name", "2 names", "1 subdirectory", "1,000 subdirectories"] == [
        count_noun(1, "name"),
        count_noun(2, "name"),
        count_noun(1, "subdirectory"),
        count_noun(1000, "subdirectory"),
    ]


def test_one_directory_is_listed_by_kind(tmp_path):
    fill(tmp_path, "b.arrow", "a.arrow", "_ipc_stage/", "_ipc_log/", ".hidden", "c.staged", "sub/x.arrow")
    (tmp_path / "link").symlink_to(tmp_path / "sub")
    os.mkfifo(tmp_path / "pipe")
    listing = list_directory(LOCAL, str(tmp_path))
    assert ["a.arrow", "b.arrow"] == [file.path.rpartition("/")[2] for file in listing.files]
    assert (("link", "sub"), frozenset({"link"})) == (listing.directories, listing.links)
    assert (4, 1, True, True) == (listing.hidden, listing.special, listing.staging, listing.is_table)
    skipped = listing.describe_skipped()
    assert "4 names (beginning with _ or ., or ending in .staged) and 2 subdirectories and 1 name (no" in skipped
    assert skipped.endswith("_ipc_stage holds the staged files of a write that has not committed")
    assert "" == Listing().describe_skipped()


def test_a_dangling_link_is_listed_by_look_and_refused_by_list_directory(tmp_path):
    (tmp_path / "b").symlink_to(tmp_path / "absent")
    assert ("b",) == read_directory(LOCAL, str(tmp_path)).dangling
    with pytest.raises(NoFilesError, match="leads to nothing") as caught:
        list_directory(LOCAL, str(tmp_path))
    assert str(tmp_path / "b") == caught.value.path


def test_a_loop_is_a_link_to_a_directory_that_contains_it(tmp_path):
    fill(tmp_path, "d/a/", "d/b/", "other/")
    targets = {"up": "d", "here": "d/a", "root": "", "across": "d/b", "out": "other"}
    for name, target in targets.items():
        (tmp_path / "d/a" / name).symlink_to(tmp_path / target)
    loops = [name for name in targets if is_loop(LOCAL, str(tmp_path / "d/a" / name))]
    assert ["up", "here", "root"] == loops
