"""The programs of the reports for Spark show on this release what the page says of it."""

from pathlib import Path

import page_programs
import pyspark
import pytest

PAGE = Path(__file__).with_name("upstream.md")


@pytest.mark.nightly
@pytest.mark.skipif(
    not pyspark.__version__.startswith("4.3."), reason="the page is about 4.3; others may have mended it"
)
def test_each_program_prints_what_the_page_says(spark, tmp_path):
    """In one session, as the page has them. A day on which this fails is a good one: Spark has mended something."""
    namespace = {"__name__": "__main__"}  # so that Spark ships its classes by value
    before = spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch"), spark.conf.get("spark.sql.session.timeZone")
    try:
        for number, block in enumerate(page_programs.blocks(PAGE), 1):
            printed = page_programs.printed_by(block.code, namespace, tmp_path, f"{PAGE.name}, block {number}")
            assert page_programs.PRINTS.findall(block.code) == printed.splitlines(), block.code
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", before[0])
        spark.conf.set("spark.sql.session.timeZone", before[1])
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
