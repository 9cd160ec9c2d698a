"""Spark reads the tables that earlier releases wrote, and their older versions."""

import pytest
from archives import unpack
from release_facts import AFTER, BEFORE, ENTRIES_OF_A_CHECKPOINT, RELEASES

READS = [(ENTRIES_OF_A_CHECKPOINT, BEFORE), (ENTRIES_OF_A_CHECKPOINT + 1, AFTER)]


@pytest.mark.parametrize("release", sorted(RELEASES.iterdir()), ids=lambda folder: folder.name)
@pytest.mark.parametrize(("version", "expected"), READS, ids=["before", "after"])
def test_each_version_of_a_table_of_an_earlier_release_is_read(spark, tmp_path, release, version, expected):
    unpack(release / "table.tar.gz", tmp_path)
    frame = spark.read.format("arrowipc").option("versionAsOf", version).load(str(tmp_path / "table"))
    assert expected == [row.asDict() for row in frame.orderBy("id").collect()]
