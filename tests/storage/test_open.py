"""The storage of a path is chosen by its scheme."""

import pathlib

import pytest

from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.open import storage_of


@pytest.mark.parametrize("path", ["/d/a b", pathlib.PurePosixPath("/d/a b"), "file:/d/a%20b", "file:///d/a%20b"])
def test_local_paths_are_in_the_local_storage(path):
    assert (LOCAL, "/d/a b") == storage_of(path)


def test_other_schemes_and_empty_paths_are_refused():
    with pytest.raises(UnsupportedError, match="scheme s3a"):
        storage_of("s3a://bucket/x")
    with pytest.raises(OptionError, match="expected a path, found an empty string"):
        storage_of("")
