"""No task of a query opens a file that a table's log excludes, as the option `where` does not plan it."""

import shutil

import pyarrow as pa
import pytest
from one_job import commit_files
from pushed import scan_metrics

FILES = 40
ROWS = 10
TASKS = {"one task": {"minPartitionNum": 1, "maxPartitionBytes": "1g"}, "a task a file": {"minPartitionNum": FILES}}

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


@pytest.fixture(scope="module")
def table(pushed, tmp_path_factory):
    """A table of `FILES` files, each with `ROWS` keys that follow each other."""
    path = tmp_path_factory.mktemp("table") / "t"
    rows = pushed.range(FILES * ROWS).selectExpr(
        "id AS k", "printf('s%05d', id) AS s", "IF(id BETWEEN 200 AND 209, NULL, id) AS n"
    )
    rows.repartitionByRange(FILES, "k").write.format("arrowipc").mode("append").save(str(path))
    assert FILES == len([*path.glob("*.arrow")])
    return path


def ruin(path, kept):
    """Overwrite each file that has none of some keys by as many other bytes."""
    for file in path.glob("*.arrow"):
        if not {*pa.ipc.open_file(file).read_all()["k"].to_pylist()} & {*kept}:
            file.write_bytes(b"\xee" * file.stat().st_size)


@pytest.mark.parametrize(
    ("condition", "tasks"), [*((condition, "one task") for condition in CONDITIONS), ("a range", "a task a file")]
)
def test_files_that_the_log_excludes_are_not_opened(pushed, without, table, tmp_path, condition, tasks):
    text, kept = CONDITIONS[condition]
    shutil.copytree(table, tmp_path / "t")
    pushed.read.format("arrowipc").options(**TASKS[tasks]).load(str(tmp_path / "t")).createOrReplaceTempView("t")
    queries = [f"SELECT * FROM t WHERE {text}", f"SELECT count(*), sum(k), max(s) FROM t WHERE {text}"]
    expected = [without(sql) for sql in queries]
    ruin(tmp_path / "t", kept)
    assert expected == [pushed.sql(sql).collect() for sql in queries]
    with pytest.raises(Exception, match=r"(?s)part-.*\.arrow"):
        pushed.sql("SELECT sum(k) FROM t").collect()


def test_what_is_left_of_tasks_is_read_together(pushed, table):
    frame = pushed.read.format("arrowipc").options(minPartitionNum=4).load(str(table))
    keys = range(5, FILES * ROWS, 4 * ROWS)  # in each fourth file
    tasks = {condition: frame.where(condition).rdd.getNumPartitions() for condition in ("k >= 0", "k IN (5, 395)")}
    tasks["12 of 40 files"] = frame.where(frame.k.isin([*keys, 15, 25])).rdd.getNumPartitions()
    assert {"k >= 0": 4, "k IN (5, 395)": 1, "12 of 40 files": 2} == tasks


def files_of(frame):
    """Return the numbers of files that the SQL tab has for a query, read and skipped."""
    frame.collect()
    metrics = scan_metrics(frame)
    return metrics["number of files read"], metrics["number of files skipped"]


def test_the_sql_tab_counts_files(pushed, table, tmp_path):
    frame = pushed.read.format("arrowipc").options(minPartitionNum=8).load(str(table))
    counts = {text: files_of(frame.where(text)) for text, kept in CONDITIONS.values()}
    files = {text: len({key // ROWS for key in kept}) for text, kept in CONDITIONS.values()}
    assert counts == {text: (n, FILES - n) for text, n in files.items()}
    assert (FILES, 0) == files_of(frame)
    assert (0, FILES) == files_of(frame.selectExpr("max(k)", "count(*)"))  # the log answers
    one = pushed.range(1000).coalesce(1).write.format("arrowipc").mode("append").option("recordBatchRows", 10)
    one.save(str(tmp_path / "one"))
    split = pushed.read.format("arrowipc").options(maxPartitionBytes="2k").load(str(tmp_path / "one"))
    assert split.rdd.getNumPartitions() > 1
    assert (1, 0) == files_of(split.where("id > 5"))
    # Of a task with files of several partitions it is not known which ones a condition on them keeps.
    parts = pushed.range(40).selectExpr("id", "cast(id % 4 AS int) AS p").repartition("p").write.format("arrowipc")
    parts.mode("append").option("partitionBy", "p").save(str(tmp_path / "parts"))
    mixed = pushed.read.format("arrowipc").options(minPartitionNum=1).load(str(tmp_path / "parts"))
    assert [(0, 0), (4, 0)] == [files_of(mixed.where(condition)) for condition in ("p = 1", "id >= 0")]


@pytest.mark.parametrize("change", ["another size", "ignoreCorruptFiles"])
def test_files_are_opened(pushed, table, tmp_path, change):
    """A file that is not the one of the log; where broken files have no rows, also in other queries."""
    path = tmp_path / "t"
    shutil.copytree(table, path)
    options = {"ignoreCorruptFiles": "true"} if change == "ignoreCorruptFiles" else {}
    frame = pushed.read.format("arrowipc").options(**options).load(str(path)).where("k = 5")
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


WIDE = 260
"""Files of a table whose notes are longer than the 64 KiB of one frame of a pickle."""


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A table of `WIDE` files of one row, with the number of its file in each of 32 columns, and that modulo 8 as a byte."""
    path = tmp_path_factory.mktemp("wide")
    tables = [
        pa.table({"k": [n], "b": pa.array([n % 8], pa.int8()), **{f"c{i}": [n] for i in range(30)}})
        for n in range(WIDE)
    ]
    commit_files(path / "t", *tables)
    return path / "t"


def test_long_notes_are_read(pushed, wide, tmp_path):
    shutil.copytree(wide, tmp_path / "t")
    frame = pushed.read.format("arrowipc").options(**TASKS["one task"]).load(str(tmp_path / "t"))
    ruin(tmp_path / "t", [5])
    assert [5] == [row.k for row in frame.where("k = 5").collect()]


@pytest.mark.parametrize(
    ("aggregates", "is_one_task"),
    [("count(*), max(k), min(c29)", True), ("max(b)", False), ("count(b)", False), ("max(k), max(b)", False)],
)
def test_one_task_answers_what_the_log_does(pushed, without, wide, aggregates, is_one_task):
    """A byte may be stored for a boolean in some file, so that files are opened, by tasks on all cores."""
    pushed.read.format("arrowipc").options(minPartitionNum=WIDE // 4).load(str(wide)).createOrReplaceTempView("wide")
    sql = f"SELECT {aggregates} FROM wide"
    frame = pushed.sql(sql)
    assert is_one_task == (scan_tasks(frame) == 1)
    assert without(sql) == frame.collect()


@pytest.mark.parametrize(
    "read", ["SELECT count(*) AS n FROM wide", f"SELECT k FROM wide WHERE k IN ({str([*range(20)])[1:-1]})"]
)
def test_a_task_is_no_larger_than_spark_sends(pushed, without, wide, read):
    """The pickles of all partitions that one task reads have bounds of all their files."""
    pushed.read.format("arrowipc").options(minPartitionNum=10).load(str(wide)).createOrReplaceTempView("wide")
    conf = pushed.sparkContext._jsc.sc().conf()
    tasks = [scan_tasks(pushed.sql(read))]
    conf.set("spark.rpc.message.maxSize", "1")  # 128 KiB for partitions
    try:
        frame = pushed.sql(read)
        tasks.append(scan_tasks(frame))
        rows = sorted(frame.collect())
    finally:
        conf.remove("spark.rpc.message.maxSize")
    assert tasks[0] == 1 < tasks[1] < 10
    assert rows == sorted(without(read))


def scan_tasks(frame):
    """Return the number of tasks of the only scan of a query."""
    plan = frame._jdf.queryExecution().sparkPlan()
    while plan.children().length():
        plan = plan.children().apply(0)
    return plan.inputRDD().getNumPartitions()


# Values of a type, in Spark's order: each has a file of its own, and is compared with all.
VALUES = {
    "BYTE": ["-128Y", "-1Y", "0Y", "127Y"],
    "INT": ["-2147483648", "-1", "0", "1", "2147483647"],
    "BIGINT": ["-9223372036854775808L", "-1L", "0L", "9223372036854775807L"],
    "FLOAT": ["float('-Infinity')", "-1.5F", "float('-0.0')", "0.0F", "1.5F", "float('Infinity')", "float('NaN')"],
    "DOUBLE": ["double('-Infinity')", "-1e300D", "-0.0D", "0.0D", "1e-300D", "double('NaN')"],
    "DECIMAL(18, 2)": ["-9999999999999999.99BD", "-0.01BD", "0.00BD", "0.01BD", "9999999999999999.99BD"],
    "DECIMAL(38, 2)": ["-0.01BD", "999999999999999999999999999999999999.99BD"],
    "DATE": ["DATE'-0044-03-15'", "DATE'1969-12-31'", "DATE'1970-01-01'", "DATE'9999-12-31'"],
    "TIMESTAMP": ["TIMESTAMP'1969-12-31 23:59:59.999999Z'", "TIMESTAMP'2026-11-30 00:00:00Z'"],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'", "TIMESTAMP_NTZ'2026-11-30 00:00:00'"],
    "STRING": ["''", "'a'", "'a\\0'", "'prefix a'", "'prefix b and more'", "'prefix b and other'", "'z'", "'\u00e9'", "'\U0001f600'"],
    "BINARY": ["X''", "X'00'", "X'7F'", "X'80'", "X'FFFFFFFFFFFFFFFFFF'", "X'FFFFFFFFFFFFFFFFFFFF'"],
    "BOOLEAN": ["false", "true"],
}  # fmt: skip


@pytest.mark.parametrize(
    "type_",
    [name if name in {"STRING", "DOUBLE"} else pytest.param(name, marks=pytest.mark.nightly) for name in VALUES],
)
def test_no_value_is_left_out(pushed, without, tmp_path, type_):
    values = [*VALUES[type_], "NULL"]
    rows = [*enumerate(values), (len(values), values[0]), (len(values), "NULL")]
    table = ", ".join(f"({number}, CAST({value} AS {type_}))" for number, value in rows)
    frame = pushed.sql(f"SELECT * FROM VALUES {table} AS t(n, x)").repartitionByRange(len(values) + 1, "n")
    frame.write.format("arrowipc").mode("append").save(str(tmp_path / "t"))
    pushed.read.format("arrowipc").load(str(tmp_path / "t")).createOrReplaceTempView("t")
    signs = ("=", "<=>", "<", "<=", ">", ">=", "<>")
    conditions = [f"x {sign} CAST({value} AS {type_})" for value in values for sign in signs]
    conditions += [f"CAST({value} AS {type_}) < x" for value in values]
    values_of_type = ", ".join(f"CAST({value} AS {type_})" for value in values)
    conditions += [f"x IN ({values_of_type})", f"x IN ({', '.join([values_of_type] * 6)})"]
    conditions += ["x IS NULL", "x IS NOT NULL", f"x IN ({values[0]}, {values[-2]})", f"x = {values[0]} OR x IS NULL"]
    sql = " UNION ALL ".join(f"SELECT {i} AS c, n FROM t WHERE {text}" for i, text in enumerate(conditions))
    assert sorted(without(sql)) == sorted(pushed.sql(sql).collect())
