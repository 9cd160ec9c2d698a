"""URLs of object stores: where the bucket ends, and what is no path."""

import pytest

from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.storage.paths import (
    StoreKind,
    join_url,
    kind_of,
    object_path,
    parent,
    real_url,
    root_of,
    scheme_of,
    split_url,
)


@pytest.mark.parametrize(
    ("given", "path", "root", "key", "kind"),
    [
        ("s3://b", "s3://b", "s3://b", "", StoreKind.S3),
        ("s3://b/", "s3://b", "s3://b", "", StoreKind.S3),
        ("S3A://b/a//c/", "s3a://b/a/c", "s3a://b", "a/c", StoreKind.S3),
        ("s3://b/a%2Fb", "s3://b/a%2Fb", "s3://b", "a%2Fb", StoreKind.S3),
        ("s3://b/a b#c?d", "s3://b/a b#c?d", "s3://b", "a b#c?d", StoreKind.S3),
        ("gs://b/ä", "gs://b/ä", "gs://b", "ä", StoreKind.GCS),
        ("abfss://c@acc.dfs.core.windows.net/a", "abfss://c@acc.dfs.core.windows.net/a", "abfss://c@acc.dfs.core.windows.net", "a", StoreKind.AZURE),
        ("az://c/a", "az://c/a", "az://c", "a", StoreKind.AZURE),
        ("https://host:8080/a.arrow", "https://host:8080/a.arrow", "https://host:8080", "a.arrow", StoreKind.HTTP),
        ("memory://x/a", "memory://x/a", "memory://x", "a", StoreKind.MEMORY),
    ],
)  # fmt: skip
def test_a_url_has_a_root_and_a_key(given, path, root, key, kind):
    assert path == object_path(given) == object_path(path)
    assert (root, key) == split_url(path)
    assert path == join_url(root, key)
    assert root == root_of(path)
    assert kind is kind_of(path)


SPELLINGS = [
    # what two spellings name, the account of the options, and whether it is the same
    ("s3://b/a", "S3A://b//a/", "", True),
    ("s3://b/a", "s3://B/a", "", False),
    ("s3://b/a", "gs://b/a", "", False),
    ("abfs://c@acc.dfs.core.windows.net/a", "abfss://c@ACC.dfs.core.windows.net/a", "", True),
    ("abfss://c@acc.dfs.core.windows.net/a", "abfss://c@acc.blob.core.windows.net/a", "", True),
    ("abfss://c@acc.dfs.core.windows.net/a", "az://c/a", "acc", True),
    ("abfss://c@acc.dfs.core.windows.net/a", "az://c/a", "other", False),
    ("abfss://c@acc.dfs.core.windows.net/a", "abfss://d@acc.dfs.core.windows.net/a", "", False),
    ("az://c", "abfs://c", "", True),
]


@pytest.mark.parametrize(("one", "other", "account", "is_same"), SPELLINGS)
def test_spellings_of_one_place(one, other, account, is_same):
    assert is_same == (real_url(object_path(one), account) == real_url(object_path(other), account))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("/a/b", UnsupportedError, "either local paths or those of object stores"),
        ("file:///a", UnsupportedError, "either local paths or those of object stores"),
        ("ftp://host/a", UnsupportedError, "either local paths or those of object stores"),
        ("s3:///a", OptionError, "a bucket, container or host after s3://"),
        ("s3://b/../a", OptionError, "a path without . and .."),
        ("s3://b/a/./c", OptionError, "a path without . and .."),
        ("s3://b/a\0", OptionError, "a NUL"),
        ("s3://b/a\tb/c", OptionError, "a tab, line end or other control character"),
        ("s3://b/a\nb", OptionError, "a tab, line end or other control character"),
        ("gs://b/a\x7fb", OptionError, "a tab, line end or other control character"),
        ("s3://b/a\ud800", OptionError, "lone surrogate"),
        ("s3://b/" + "a" * 70_000, OptionError, "at most 65,536 characters"),
    ],
)
def test_what_is_no_url_of_an_object_store_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        object_path(given)


@pytest.mark.parametrize(
    "given", ["s3://AKIAKEY:hunter2@bucket/a", "s3://AKIAKEY@bucket/a", "https://me:hunter2@host/a", "abfss://c:hunter2@acc/a"]
)  # fmt: skip
def test_a_password_in_a_url_is_refused_and_not_shown(given):
    with pytest.raises(OptionError, match="holds a password or a key before @") as caught:
        object_path(given)
    assert "hunter2" not in str(caught.value)
    assert "AKIAKEY" not in str(caught.value)


@pytest.mark.parametrize("path", ["/a/b", "a.arrow", "file:/a", "ftp://x", "s3:/a", "hdfs://x/a", "k=s3:/a"])
def test_other_paths_have_no_scheme_of_ours(path):
    assert scheme_of(path) is None


def test_going_up_ends_at_the_root():
    path, seen = "s3://b/a/c", []
    while path != parent(path):
        path = parent(path)
        seen.append(path)
    assert ["s3://b/a", "s3://b"] == seen
