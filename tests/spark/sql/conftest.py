"""The session of all tests, with the source of the JVM in this folder alone."""

import pytest
from pushed import sql_session


@pytest.fixture(scope="module")
def sql(spark):
    """The session with the jar, push-down and the catalog of paths, as after `register`."""
    with sql_session(spark):
        yield spark
