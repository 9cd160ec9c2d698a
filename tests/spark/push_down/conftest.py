"""The session of all tests, with push-down on in this folder alone."""

import pytest
from pushed import SETTING, THRESHOLD, sql_session


@pytest.fixture(scope="module")
def pushed(spark):
    """The session with push-down."""
    with sql_session(spark):
        yield spark


@pytest.fixture(scope="module")
def large(pushed):
    """Every table counts as too large to be broadcast, so that tasks hold its conditions exactly and Spark drops its filter."""
    pushed.conf.set(THRESHOLD, "-1")
    yield
    pushed.conf.unset(THRESHOLD)


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
