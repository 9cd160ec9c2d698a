"""Files that others rewrote below their statistics: `where` and `_row_index` tell what is there."""

import random
import warnings

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import rewrite_cases as cases

from spark_arrow_ipc.dataset.statistics.read import StatisticsWarning

TABLE = {
    "values shifted": (cases.shift, "a >= 800", lambda table: pc.greater_equal(table["a"], 800)),
    "batches in another order": (lambda _, batches: batches[::-1], "a < 10", lambda table: pc.less(table["a"], 10)),
    "rows filtered": (cases.filter_rows, "a = 350", lambda table: pc.equal(table["a"], 350)),
    "batches appended": (cases.append, "a >= 600", lambda table: pc.greater_equal(table["a"], 600)),
}


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("writer", cases.WRITERS[:3], ids=lambda writer: writer.__name__)
def test_statistics_that_were_copied_are_ignored_with_one_warning(tmp_path, name, writer):
    change, where, mask = TABLE[name]
    numbers = [range(i, i + 100) for i in range(0, 800, 100)]
    batches = [
        pa.record_batch({"a": pa.array(rows), "s": pa.array(map(str, rows)), "x": pa.array(rows, pa.float64())})
        for rows in numbers
    ]
    r = random.Random(1)
    data = writer(r, cases.described(batches), change(r, batches))
    path = tmp_path / "a.arrow"
    path.write_bytes(data)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        found = cases.found_rows(path, where)
    assert cases.expected_rows(data, mask) == found
    assert [StatisticsWarning] == [warning.category for warning in told]
    assert f"{path}: the statistics of a file are not used" in str(told[0].message)


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("i", range(24))
def test_random_rewrites_give_no_wrong_row(tmp_path, i):
    r = random.Random(f"tests {i}")
    path = tmp_path / "a.arrow"
    if i % 6 == 5:
        assert cases.check_edit(r, path) in {"error", "skipped as written"}
        return
    change, write = cases.CHANGES[i % len(cases.CHANGES)], r.choice(cases.WRITERS)
    assert cases.check_rewrite(r, path, change, write) in {"used", "ignored", "refused", "skipped as written"}


def test_a_file_that_nobody_touched_keeps_its_statistics(tmp_path):
    r = random.Random(3)
    assert "used" == cases.check_rewrite(r, tmp_path / "a.arrow", cases.nothing, lambda _, original, __: original)
