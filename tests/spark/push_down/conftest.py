"""The session of all tests, with push-down on in this folder alone."""

import pytest
from pushed import SETTING

from spark_arrow_ipc import push_down


@pytest.fixture(scope="module")
def pushed(spark):
    """The session with push-down."""
    assert push_down(spark)
    spark.conf.set(SETTING, "true")
    yield spark
    spark.conf.set(SETTING, "false")


@pytest.fixture
def without(pushed):
    """Return a function that gives the rows of SQL without push-down."""

    def rows(sql):
        pushed.conf.set(SETTING, "false")
        try:
            return pushed.sql(sql).collect()
        finally:
            pushed.conf.set(SETTING, "true")

    return rows
