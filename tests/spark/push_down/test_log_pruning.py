"""Tasks of a query do not open the files that a table's log excludes, as the option `where` does not plan them."""

import pyarrow as pa
import pytest

FILES = 40
ROWS = 10
ONE_TASK = {"minPartitionNum": 1, "maxPartitionBytes": "1g"}
FEW = FILES // 2
"""A task of fewer files than `_FEWEST_PRUNED` opens them: it would read the log for longer."""

# A condition, and the keys whose files it has to open.
CONDITIONS = {
    "a range": ("k BETWEEN 95 AND 104", range(95, 105)),
    "a key": ("k = 123", [123]),
    "keys": ("k IN (7, 233)", [7, 233]),
    "a text": ("s = 's00042'", [42]),
    "one of two": ("k = 3 OR s > 's00395'", [3, 396]),
    "nulls": ("n IS NULL AND k < 300", [200]),
    "a condition that tasks do not know": ("k = 50 AND hash(s) <> 0", [50]),
    "no row": ("k = 5000", []),
}


def write(spark, path, files=FILES):
    rows = spark.range(files * ROWS).selectExpr(
        "id AS k", "printf('s%05d', id) AS s", "IF(id BETWEEN 200 AND 209, NULL, id) AS n"
    )
    rows.repartitionByRange(files, "k").write.format("arrowipc").mode("append").save(str(path))
    assert files == len([*path.glob("*.arrow")])


def ruin(path, kept):
    """Overwrite each file that has none of some keys by as many other bytes."""
    for file in path.glob("*.arrow"):
        if not {*pa.ipc.open_file(file).read_all()["k"].to_pylist()} & {*kept}:
            file.write_bytes(b"\xee" * file.stat().st_size)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_files_that_the_log_excludes_are_not_opened(pushed, without, tmp_path, condition):
    text, kept = CONDITIONS[condition]
    write(pushed, tmp_path / "t")
    pushed.read.format("arrowipc").options(**ONE_TASK).load(str(tmp_path / "t")).createOrReplaceTempView("t")
    queries = [f"SELECT * FROM t WHERE {text}", f"SELECT count(*), sum(k), max(s) FROM t WHERE {text}"]
    expected = [without(sql) for sql in queries]
    ruin(tmp_path / "t", kept)
    assert expected == [pushed.sql(sql).collect() for sql in queries]
    with pytest.raises(Exception, match=r"(?s)part-.*\.arrow"):
        pushed.sql("SELECT sum(k) FROM t").collect()


@pytest.mark.parametrize("change", ["few files", "another size", "ignoreCorruptFiles"])
def test_files_are_opened(pushed, tmp_path, change):
    """A task of few files; a file that is not the one of the log; where broken files have no rows, also in other queries."""
    path = tmp_path / "t"
    write(pushed, path, FEW if change == "few files" else FILES)
    options = {"ignoreCorruptFiles": "true"} if change == "ignoreCorruptFiles" else {}
    frame = pushed.read.format("arrowipc").options(**ONE_TASK, **options).load(str(path)).where("k = 5")
    ruin(path, [5])
    if change == "another size":
        for file in path.glob("*.arrow"):
            if file.read_bytes()[:1] == b"\xee":
                file.write_bytes(b"\xee")
    if change == "ignoreCorruptFiles":
        assert [5] == [row.k for row in frame.collect()]
    else:
        with pytest.raises(Exception, match=r"(?s)part-.*\.arrow"):
            frame.collect()
