"""Paths as strings: joined, split, and made relative."""

import pytest

from spark_arrow_ipc.storage.paths import above, join, name_of, parent, relative


def test_parts_are_joined_and_empty_ones_add_nothing():
    assert ["/d", "/d", "/d/a", "/d/a/b", "/a"] == [
        join("/d"),
        join("/d", "", ""),
        join("/d", "", "a"),
        join("/d", "a", "b"),
        join("/", "a"),
    ]
    assert ["a", ""] == [join("", "a"), join("", "")]


@pytest.mark.parametrize(
    ("path", "directory", "name"), [("/d/a", "/d", "a"), ("/a", "/", "a"), ("/", "/", ""), ("a", "", "a")]
)
def test_a_path_has_a_directory_and_a_name(path, directory, name):
    assert (directory, name) == (parent(path), name_of(path))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/d/k=1/a", ["/d/k=1", "/d", "/"]),
        ("/", []),
        ("s3://bucket/d/a", ["s3://bucket/d", "s3://bucket"]),
        ("s3://bucket", []),
        ("k=1/a", ["k=1"]),
        ("a", []),
    ],
)
def test_the_directories_above_a_path(path, expected):
    assert expected == list(above(path))


RELATIVE = [
    ("inside", "/d/k=1/a", "/d", "k=1/a"),
    ("the directory itself", "/d", "/d", ""),
    ("below the root", "/d/a", "/", "d/a"),
    ("a name that begins alike", "/dd/a", "/d", "/dd/a"),
    ("elsewhere", "/x", "/d", "/x"),
]


@pytest.mark.parametrize(
    ("path", "directory", "expected"), [case[1:] for case in RELATIVE], ids=[case[0] for case in RELATIVE]
)
def test_a_path_relative_to_a_directory(path, directory, expected):
    assert expected == relative(path, directory)
