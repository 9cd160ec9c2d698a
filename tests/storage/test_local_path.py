"""Paths as people write them."""

import pytest

from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.storage.paths import is_relative, local_path

PATHS = [
    ("absolute", "/data/x.arrow", "/data/x.arrow"),
    ("trailing slash", "/data/x/", "/data/x"),
    ("dots are resolved as text", "/data/./a/../x", "/data/x"),
    ("file URI of Hadoop", "file:/data/x", "/data/x"),
    ("file URI", "file:///data/x", "/data/x"),
    ("file URI of this host", "file://localhost/data/x", "/data/x"),
    ("scheme in capitals", "FILE:///data/x", "/data/x"),
    ("escapes of a URI", "file:///data/a%20b%25.arrow", "/data/a b%.arrow"),
    ("no escapes in a plain path", "/data/a%20b", "/data/a%20b"),
    ("question mark and hash are no URI syntax here", "file:///data/part-?#1", "/data/part-?#1"),
    ("colon in a name", "/data/12:30.arrow", "/data/12:30.arrow"),
    ("root", "file:///", "/"),
]


@pytest.mark.parametrize(("path", "expected"), [case[1:] for case in PATHS], ids=[case[0] for case in PATHS])
def test_path_becomes_absolute(path, expected):
    assert expected == local_path(path)


def test_relative_path_is_resolved_against_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path / "a" / "b.arrow") == local_path("a/b.arrow")
    assert str(tmp_path / "a:b.arrow") == local_path("a:b.arrow")


RELATIVE = {
    "x.arrow": True, "./x": True, "../x": True, "~/x": True, "a:b.arrow": True, "{/a,/b}": True, "*.arrow": True,
    "/x": False, "//x": False, "file:/x": False, "FILE:///x": False, "file:x": False, "s3://bucket/x": False,
    "hdfs://host/x": False, "hf://datasets/x": False,
}  # fmt: skip


def test_relative_paths_are_those_that_the_working_directory_changes():
    """A relative ``file:`` URI is refused everywhere."""
    assert {path: is_relative(path) for path in RELATIVE} == RELATIVE


REFUSED = [
    ("s3", "s3a://bucket/x", UnsupportedError, "either local paths or those of object stores"),
    ("hdfs", "hdfs://host/x", UnsupportedError, "either local paths or those of object stores"),
    ("ftp", "ftp://host/x", UnsupportedError, "either local paths or those of object stores"),
    ("dbfs", "dbfs:/x", UnsupportedError, "scheme dbfs: and a single slash"),
    ("another host", "file://server/x", UnsupportedError, "host 'server'"),
    ("relative URI", "file:x.arrow", OptionError, "absolute path after file:"),
    ("empty", "", OptionError, "empty string"),
    ("NUL", "/data/\0", OptionError, "NUL"),
    ("half a character pair", "/data/\ud800", OptionError, "lone surrogate '.ud800'"),
    ("longer than any path", "/" + "a" * 70_000, OptionError, "at most 65,536 characters, found 70,001"),
]


@pytest.mark.parametrize(("path", "error", "text"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_path_that_is_not_local_is_refused_by_name(path, error, text):
    with pytest.raises(error, match=text):
        local_path(path)
