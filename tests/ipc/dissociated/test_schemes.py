"""Which paths are tables of servers."""

import pytest

from spark_arrow_ipc.ipc.dissociated import is_served

PATHS = [
    ("dissociated+tcp://h:1/t", True), ("DISSOCIATED+UNIX:///s", True), ("dissociated+tcp", False),
    ("/data/dissociated+tcp://h", False), ("ucx://h:1", False), ("s3://b/k", False), ("", False),
]  # fmt: skip


@pytest.mark.parametrize(("path", "expected"), PATHS)
def test_tables_of_servers_are_known_by_their_scheme(path, expected):
    assert expected is is_served(path)
