"""How long writers wait for each other."""

import pytest

from spark_arrow_ipc.dataset.write.publisher import TIMING, Timing


@pytest.mark.parametrize(("nbytes", "seconds"), [(0, 30), (50_000_000, 31), (5_000_000_000, 130)])
def test_the_grace_grows_with_the_largest_file(nbytes, seconds):
    assert seconds == Timing().grace(nbytes)


def test_one_minute_of_patience_for_all_writers_of_a_process():
    assert (60, 30, 50_000_000) == (TIMING.patience_seconds, TIMING.grace_seconds, TIMING.copied_nbytes)
