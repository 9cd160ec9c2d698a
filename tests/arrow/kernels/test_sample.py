"""Rows are chosen with equal chances, by the seed alone."""

import numpy as np
import pytest

from spark_arrow_ipc.cli.cat import RowSample


@pytest.mark.parametrize("parts", [[1000], [1, 0, 998, 1], [500, 500]])
def test_a_sample_depends_on_the_seed_and_not_on_batches(parts):
    def sample(seed):
        rows = RowSample(20, seed)
        for part in parts:
            rows.add(part)
        return rows.rows().tolist()

    whole = RowSample(20, 5)
    whole.add(1000)
    assert whole.rows().tolist() == sample(5)
    assert 20 == len(set(sample(5)))
    assert sample(5) != sample(6)


def test_each_row_has_the_same_chance():
    counts = np.zeros(50)
    for seed in range(2000):
        rows = RowSample(5, seed)
        rows.add(30)
        rows.add(20)
        counts[rows.rows()] += 1
    assert 200 == counts.mean()
    assert counts.min() > 130  # five standard deviations of 200 each
    assert counts.max() < 270


def test_a_sample_of_few_rows_has_them_all():
    rows = RowSample(20, 1)
    rows.add(3)
    assert [0, 1, 2] == rows.rows().tolist()
