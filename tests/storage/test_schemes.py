"""The storage of a path, by its scheme alone."""

import pytest

from spark_arrow_ipc.storage.paths import OBJECT_SCHEMES, Place, is_remote, place_of

PLACES = {
    "/a": Place.LOCAL, "a.arrow": Place.LOCAL, "file:/a": Place.LOCAL, "FILE:///a": Place.LOCAL, "dbfs:/a": Place.LOCAL,
    "k=s3://a": Place.LOCAL, "a//b": Place.LOCAL, "": Place.LOCAL, "x://a": Place.LOCAL,
    "hdfs://nn/a": Place.HADOOP, "HDFS:///a": Place.HADOOP, "viewfs://c/a": Place.HADOOP,
    "hf://datasets/a": Place.OTHER, "s3n://b/a": Place.OTHER,
}  # fmt: skip


@pytest.mark.parametrize("path", PLACES)
def test_a_path_is_in_one_place(path):
    assert PLACES[path] is place_of(path)
    assert (PLACES[path] is not Place.LOCAL) is is_remote(path)


@pytest.mark.parametrize("scheme", OBJECT_SCHEMES)
def test_object_stores_are_in_theirs(scheme):
    assert Place.OBJECTS is place_of(f"{scheme}://b/a")
