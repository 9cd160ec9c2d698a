"""The limit of a batch, and what a batch holds."""

import pytest

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Limit, StreamBatch


@pytest.mark.parametrize(
    ("limit", "sizes", "fitting"),
    [
        (ALL_AVAILABLE, [5, 5, 5], 3),
        (ALL_AVAILABLE, [], 0),
        (Limit(max_files=2), [5, 5, 5], 2),
        (Limit(max_bytes=10), [5, 5, 5], 2),
        (Limit(max_bytes=10), [11, 5], 1),  # no file is too large for ever
        (Limit(max_bytes=4), [0, 5, 5], 1),
        (Limit(max_files=3, max_bytes=6), [1, 5, 5, 5], 2),
        (Limit(max_files=1, max_bytes=100), [5, 5], 1),
    ],
)
def test_a_batch_takes_what_fits_and_at_least_one(limit, sizes, fitting):
    assert fitting == limit.fitting(iter(sizes))


def test_the_bytes_of_a_batch_are_those_of_its_files():
    assert 7 == StreamBatch(files=(DataFile("/a", 3, 1), DataFile("/b", 4, 1)), roots=("/", "/")).nbytes
