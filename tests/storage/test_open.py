"""The storage of a path is chosen by its scheme."""

import pathlib
import sys

import pytest

from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.object_store import ObjectStorage
from spark_arrow_ipc.storage.open import storage_of


@pytest.mark.parametrize("path", ["/d/a b", pathlib.PurePosixPath("/d/a b"), "file:/d/a%20b", "file:///d/a%20b"])
def test_local_paths_are_in_the_local_storage(path):
    assert (LOCAL, "/d/a b") == storage_of(path)


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "az", "abfs", "abfss", "https", "http", "memory", "S3"])
def test_urls_of_object_stores_are_in_theirs(scheme):
    options = (("region", "eu-central-1"),)
    assert (ObjectStorage(options), f"{scheme.lower()}://bucket/a%20b") == storage_of(
        f"{scheme}://bucket//a%20b/", options
    )


def test_options_of_object_stores_are_refused_for_local_paths():
    with pytest.raises(OptionError, match=r"storage\.region is for object stores, and the path is a local one"):
        storage_of("/a", (("region", "eu-central-1"),))


def test_without_the_library_an_object_store_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    storage, path = storage_of("s3://bucket/a")
    with pytest.raises(UnsupportedError, match=r"pip install 'spark-arrow-ipc\[cloud\]'"):
        storage.status(path)


def test_other_schemes_and_empty_paths_are_refused():
    with pytest.raises(UnsupportedError, match="scheme ftp"):
        storage_of("ftp://bucket/x")
    with pytest.raises(OptionError, match="expected a path, found an empty string"):
        storage_of("")
