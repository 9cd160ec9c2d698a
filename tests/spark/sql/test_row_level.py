"""DELETE, UPDATE and MERGE of SQL: the rows of the same computed from a copy, one commit each, and files without a match stay."""

import re
import threading
import time

import arrow_files
import pyarrow as pa
import pyspark
import pytest
from commit_jobs import leftovers, newest_entry
from commit_jobs import table as table_of
from rewrite_jobs import files_of, read

from spark_arrow_ipc.table.log import read_state

COLUMNS = "id int, s string, v double, d int"
ROWS = [(i, f"s{i}", None if i % 7 == 0 else float("nan") if i == 8 else i * 1.5, i % 3) for i in range(15)]
SOURCE = [(5, "five", 50.0, 2), (9, "nine", None, 0), (100, "new", 1.0, 1), (None, "null", 2.0, 7)]

DELETES = "SELECT * FROM before WHERE NOT coalesce({0}, false)"
UPDATES = "SELECT {1} FROM (SELECT *, coalesce({0}, false) AS m FROM before)"

# A statement of the table {t}, the same over the view `before`, and the operation of the entry; None for no entry.
STEPS = {
    "rows of one file": ("DELETE FROM {t} WHERE id IN (3, 4)", DELETES.format("id IN (3, 4)"), "delete"),
    "null and NaN": ("DELETE FROM {t} WHERE v > 17", DELETES.format("v > 17"), "delete"),
    "no row": ("DELETE FROM {t} WHERE id = 999", "TABLE before", None),
    "never": ("DELETE FROM {t} WHERE false", "TABLE before", None),
    "a condition that is null": ("UPDATE {t} SET s = 'x' WHERE CAST(null AS boolean)", "TABLE before", None),
    "values of two rows": (
        "UPDATE {t} SET s = concat('u', s), v = v + 1 WHERE id = 1 OR id = 7",
        UPDATES.format("id IN (1, 7)", "id, if(m, concat('u', s), s), if(m, v + 1, v), d"), "update",
    ),
    "another partition": (
        "UPDATE {t} SET d = 9 WHERE id = 6", UPDATES.format("id = 6", "id, s, v, if(m, 9, d)"), "update"
    ),
    "insert or update": (
        "MERGE INTO {t} t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = s.s, v = s.v WHEN NOT MATCHED THEN INSERT *",
        "SELECT b.id, if(m, s.s, b.s), if(m, s.v, b.v), b.d FROM before b LEFT JOIN (SELECT *, true AS m FROM source) s ON b.id = s.id UNION ALL SELECT * FROM source s WHERE id IS NULL OR id NOT IN (SELECT id FROM before WHERE id IS NOT NULL)",
        "merge",
    ),
    "the same again": (
        "MERGE INTO {t} t USING (SELECT * FROM source WHERE id < 0) s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        "TABLE before", None,
    ),
    "only inserts": (
        "MERGE INTO {t} t USING (SELECT id + 1 AS id, s, v, d FROM source) s ON t.id = s.id WHEN NOT MATCHED AND s.id > 50 THEN INSERT *",
        "SELECT * FROM before UNION ALL SELECT 101, 'new', 1.0D, 1", "append",
    ),
    "rows that the source lacks": (
        "MERGE INTO {t} t USING source s ON t.id = s.id WHEN MATCHED AND t.id = 5 THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.id < 3 THEN DELETE",
        DELETES.format("id = 5 OR id < 3"), "merge",
    ),
    "a subquery": ("DELETE FROM {t} WHERE id IN (SELECT id FROM source)", DELETES.format("id IN (9, 100)"), "delete"),
    "the table itself": (
        "MERGE INTO {t} t USING {t} s ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET s = s.s",
        "SELECT b.id, coalesce(s.s, b.s), b.v, b.d FROM before b LEFT JOIN before s ON b.id = s.id + 1", "merge",
    ),
    "the rows of a partition": ("DELETE FROM {t} WHERE d = 1", DELETES.format("d = 1"), "delete"),
    "all rows": ("DELETE FROM {t}", "SELECT * FROM before WHERE false", "delete"),
    "none of no rows": ("UPDATE {t} SET s = 'x'", "TABLE before", None),
    "the first rows": (
        "MERGE INTO {t} t USING source s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *", "TABLE source", "merge"
    ),
}  # fmt: skip

LAYOUTS = {"flat": {}, "partitioned": {"partitionBy": '["d"]'}}


def save(spark, path, **options):
    """Write three files, or three of each partition."""
    for first in (0, 5, 10):
        frame = spark.createDataFrame(ROWS[first : first + 5], COLUMNS).coalesce(1)
        frame.write.format("arrowipc").mode("append").options(**options).save(str(path))


def rows(spark, query):
    return sorted((tuple(map(repr, row)) for row in spark.sql(query).collect()), key=str)


@pytest.fixture(params=LAYOUTS.values(), ids=LAYOUTS)
def lake(sql, tmp_path, request):
    save(sql, tmp_path / "lake", **request.param)
    sql.createDataFrame(SOURCE, COLUMNS).createOrReplaceTempView("source")
    return tmp_path / "lake"


def entry_number(path):
    return read_state(table_of(path)).number


def test_statements_do_what_they_do_to_a_copy(sql, lake):
    table = f"arrowipc.`{lake}`"
    for name, (statement, oracle, operation) in STEPS.items():
        before = [tuple(row) for row in sql.sql(f"SELECT * FROM {table}").collect()]
        sql.createDataFrame(before, COLUMNS).createOrReplaceTempView("before")
        expected, number, files = rows(sql, oracle), entry_number(lake), {*files_of(lake)}
        sql.sql(statement.format(t=table))
        assert expected == rows(sql, f"SELECT * FROM {table}"), name
        assert entry_number(lake) == number + (operation is not None), name
        if operation is not None:
            assert operation == newest_entry(lake).operation, name
        if name == "rows of one file":
            assert files & {*files_of(lake)}, f"{name}: files without a match stay"
    assert [] == leftovers(lake)


@pytest.mark.parametrize(
    "setting", ["spark.sql.adaptive.enabled", "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled"]
)
def test_statements_without_a_setting(sql, lake, setting):
    sql.conf.set(setting, "false")
    try:
        sql.sql(f"UPDATE arrowipc.`{lake}` SET s = 'x' WHERE id = 3")
        sql.sql(f"DELETE FROM arrowipc.`{lake}` WHERE id = 4")
    finally:
        sql.conf.unset(setting)
    assert [("3", "'x'")] == rows(sql, f"SELECT id, s FROM arrowipc.`{lake}` WHERE id IN (3, 4)")


CHARS = ["c = 'ab'", "id = 3 AND c < 'zz'", "v = 'z'", "c LIKE 'e%' OR a[1] = 'r'", "c = 'nothing'"]


def test_conditions_on_chars_compare_padded_values(sql, tmp_path):
    sql.sql(
        f"CREATE TABLE chars (id int, c char(5), v varchar(4), a array<char(3)>) USING arrowipc LOCATION '{tmp_path}/t'"
    )
    try:
        for condition in CHARS:
            sql.sql(
                "INSERT OVERWRITE chars VALUES (1, 'ab', 'x', array('q', 'r')), (2, 'cd', 'z', array('q', null)), (3, 'ef', 'z', null)"
            )
            expected = rows(sql, f"SELECT * FROM chars WHERE NOT coalesce({condition}, false)")
            sql.sql(f"DELETE FROM chars WHERE {condition}")
            assert expected == rows(sql, "SELECT * FROM chars"), condition
    finally:
        sql.sql("DROP TABLE chars")


def test_types_of_files_of_another_program_stay(sql, tmp_path):
    types = {
        "id": pa.uint16(),
        "s": pa.dictionary(pa.int8(), pa.string()),
        "t": pa.timestamp("ns"),
        "u": pa.large_utf8(),
    }
    values = {"id": [1, 2, 65535], "s": ["a", "b", "a"], "t": [1000, None, 3000], "u": ["x", None, "z"]}
    table = pa.table(
        {
            name: pa.array(column).cast(types[name])
            if name != "s"
            else pa.array(column).dictionary_encode().cast(types[name])
            for name, column in values.items()
        }
    )
    (tmp_path / "lake").mkdir()
    with pa.ipc.new_file(tmp_path / "lake" / "rows.arrow", table.schema) as file:
        file.write_table(table)
    sql.sql(f"UPDATE arrowipc.`{tmp_path}/lake` SET u = 'new', id = 7 WHERE id = 2")
    ((_, path),) = files_of(tmp_path / "lake").items()
    after = read(path)
    assert types == {field.name: field.type for field in after.schema}
    after = after.set_column(2, "t", after["t"].cast(pa.int64()))
    assert {**values, "id": [1, 7, 65535], "u": ["x", "new", "z"]} == after.to_pydict()


FAILING = {
    "UPDATE {t} SET s = CAST(raise_error('boom') AS string) WHERE id >= 3": "boom",
    "MERGE INTO {t} t USING (SELECT 3 AS id UNION ALL SELECT 3) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = 'x'": "MERGE_CARDINALITY",
    "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 3 AS id, 1 AS new) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *": "(?i)evolution|new|resolve",
}  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "words"), FAILING.items(), ids=["a row fails", "two rows match", "schema evolution"]
)
def test_a_statement_that_fails_changes_nothing(sql, lake, statement, words):
    table = f"arrowipc.`{lake}`"
    before = rows(sql, f"SELECT * FROM {table}")
    with pytest.raises(Exception, match=words):
        sql.sql(statement.format(t=table))
    assert before == rows(sql, f"SELECT * FROM {table}")
    assert [] == leftovers(lake)


REFUSED = {
    "where": "id > 1",
    "columns": "id, s, v, d",
    "metadataColumns": "true",
    "pathGlobFilter": "*.arrow",
    "modifiedAfter": "2000-01-01",
    "recursiveFileLookup": "true",
    "ignoreCorruptFiles": "true",
    "versionAsOf": "1",
}


@pytest.mark.parametrize(("option", "value"), REFUSED.items(), ids=REFUSED)
def test_a_table_with_an_option_that_leaves_out_rows_is_refused(sql, tmp_path, option, value):
    save(sql, tmp_path / "lake")
    before = sorted(tmp_path.rglob("*"))
    sql.sql(f"CREATE TABLE refused USING arrowipc OPTIONS (path '{tmp_path}/lake', {option} '{value}')")
    try:
        for condition in ("", " WHERE id = 3"):
            with pytest.raises(Exception, match=option):
                sql.sql("DELETE FROM refused" + condition)
    finally:
        sql.sql("DROP TABLE refused")
    assert before == sorted(tmp_path.rglob("*"))


INSERTS = "MERGE INTO {t} t USING source s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, slow(s.s))"

# One task waits, after the table is read and before it is written.
SLOWLY = "SELECT id, concat(s, (SELECT slow(s) FROM (SELECT max(s) AS s FROM source))) AS s, v, d FROM {t}"

# A statement that waits while it writes, another one that is committed meanwhile, and whether both are.
MEANWHILE = {
    "an append stays": ("UPDATE {t} SET s = slow(s) WHERE id = 3", "INSERT INTO {t} VALUES (50, 'z', 1.0, 1)", True),
    "the same file": ("UPDATE {t} SET s = slow(s) WHERE id = 3", "DELETE FROM {t} WHERE id = 3", False),
    "another file": ("UPDATE {t} SET s = slow(s) WHERE id = 3", "DELETE FROM {t} WHERE id = 14", True),
    "two merges of one key": (
        "MERGE INTO {t} t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = slow(t.s) WHEN NOT MATCHED THEN INSERT *",
        INSERTS.replace("slow(s.s)", "s.s"), False,
    ),
    "an insert that reads": ("INSERT INTO {t} " + SLOWLY.replace("SELECT id", "SELECT id + 1000"), "INSERT INTO {t} VALUES (50, 'z', 1.0, 1)", False),
    "an overwrite that reads": ("INSERT OVERWRITE {t} " + SLOWLY, "INSERT INTO {t} VALUES (50, 'z', 1.0, 1)", False),
    "an overwrite that reads by another text of the path": ("INSERT OVERWRITE {t} " + SLOWLY.replace("{t}", "{same}"), "INSERT INTO {t} VALUES (50, 'z', 1.0, 1)", False),
    "a replacement that reads": ("CREATE OR REPLACE TABLE {t} AS " + SLOWLY, "INSERT INTO {t} VALUES (50, 'z', 1.0, 1)", False),
    "an overwrite that does not read": ("INSERT OVERWRITE {t} " + SLOWLY.replace("{t}", "source"), "INSERT INTO {t} VALUES (50, 'z', 1.0, 1)", True),
    "two merges that only insert": (INSERTS, INSERTS.replace("slow(s.s)", "s.s"), False),
}  # fmt: skip


@pytest.mark.parametrize(("slow", "other", "are_both"), MEANWHILE.values(), ids=MEANWHILE)
def test_two_statements_at_once(sql, tmp_path, slow, other, are_both):
    save(sql, tmp_path / "lake")
    sql.createDataFrame([SOURCE[0], SOURCE[2]], COLUMNS).createOrReplaceTempView("source")
    begun, gate, table, errors = tmp_path / "begun", tmp_path / "gate", f"arrowipc.`{tmp_path}/lake`", []
    same = f"arrowipc.`file://{tmp_path}//lake/`"

    def wait(text):
        begun.touch()
        while not gate.exists():
            time.sleep(0.05)
        return text

    def run():
        try:
            sql.sql(slow.format(t=table, same=same))
        except Exception as error:  # noqa: BLE001 - of any statement
            errors.append(str(error))

    sql.udf.register("slow", wait)
    sql.table(table), sql.table(same), sql.sql("SHOW TABLES")  # only this thread finds the classes of catalogs
    thread = threading.Thread(target=run)
    thread.start()
    try:
        while not begun.exists() and thread.is_alive():
            time.sleep(0.05)
        sql.sql(other.format(t=table))
    finally:
        gate.touch()
        thread.join()
    ids = [row[0] for row in sql.sql(f"SELECT id FROM {table}").collect()]
    if are_both:
        assert [] == errors
    elif pyspark.__version__ < "4.2" and "SELECT slow" in slow and not errors:
        # Spark 4.1 runs the subquery first: the read is planned after the other statement, and has its row.
        assert ({50, 1050} if "INSERT INTO" in slow else {50}) <= {*ids}
    else:
        assert len(errors) == 1
        assert "ConcurrentWriteError" in errors[0]
    assert len(ids) == len({*ids})
    assert [] == leftovers(tmp_path / "lake")


@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="reading a stream needs Spark 4.2 or later")
def test_the_path_of_a_file_is_a_column_of_tables_and_their_streams(sql, tmp_path):
    """Statements find files by it. Spark gives a stream no sign of it, and would read past the end of its rows."""
    save(sql, tmp_path / "lake")
    expected = sorted(
        (str(tmp_path / "lake" / path), row["id"])
        for path, at in files_of(tmp_path / "lake").items()
        for row in read(at).to_pylist()
    )
    table = f"arrowipc.`{tmp_path}/lake`"
    assert expected == sorted(tuple(row) for row in sql.sql(f"SELECT _file_path, id FROM {table}").collect())
    sql.sql(f"CREATE TABLE streamed USING arrowipc LOCATION '{tmp_path}/lake'")
    try:
        for number, columns in enumerate([("_file_path", "id"), ("id", "s", "v", "d")]):
            writer = (
                sql.readStream.table("streamed").select(*columns).writeStream.format("memory").queryName(f"of_{number}")
            )
            query = writer.option("checkpointLocation", str(tmp_path / str(number))).trigger(availableNow=True).start()
            query.awaitTermination()
        assert expected == sorted(tuple(row) for row in sql.table("of_0").collect())
        assert sorted(map(repr, ROWS)) == sorted(repr(tuple(row)) for row in sql.table("of_1").collect())
    finally:
        sql.sql("DROP TABLE streamed")


SPELLINGS = {
    "zeros before": ("zip=01067", "zip = '01067'", "zip=01067 would move to zip=1067"),
    "zeros behind": ("zip=1.50", "zip = 1.5", "zip=1.50 would move to zip=1.5"),
    "a plus": ("zip=+5", "zip = 5", "zip=+5 would move to zip=5"),
    "as it is written": ("zip=1067", "zip = '1067'", None),
    "a date": ("zip=2026-01-05", "zip = '2026-01-05'", None),
    "not a match": ("zip=01067", "zip = 5", None),
}


@pytest.mark.parametrize("case", SPELLINGS)
@pytest.mark.parametrize("statement", ["DELETE FROM {} WHERE {}", "UPDATE {} SET id = -1 WHERE {}"])
def test_rows_do_not_move_to_a_partition_of_another_spelling(sql, tmp_path, case, statement):
    """A read infers a number, so that rows of 01067 and of 1067 are one partition."""
    name, condition, error = SPELLINGS[case]
    value = name.partition("=")[2]
    for zip_ in {value, "7"}:
        frame = sql.range(2).selectExpr("id", f"'{zip_}' AS zip")
        frame.write.format("arrowipc").mode("append").option("partitionBy", "zip").save(str(tmp_path / "t"))
    before = files_of(tmp_path / "t")
    run = lambda: sql.sql(statement.format(f"arrowipc.`{tmp_path / 't'}`", condition))  # noqa: E731
    if error is None:
        run()
        return
    with pytest.raises(Exception, match=re.escape(error)):
        run()
    assert before == files_of(tmp_path / "t")
    location = f"USING arrowipc PARTITIONED BY (zip) LOCATION '{tmp_path / 't'}'"
    sql.sql(f"CREATE TABLE spelled (id BIGINT, zip STRING) {location}")
    try:
        sql.sql(statement.format("spelled", f"zip = '{value}'"))
        left = {value: -1} if "UPDATE" in statement else {}
        assert {"7": 1, **left} == {
            row.zip: row.m for row in sql.sql("SELECT zip, max(id) AS m FROM spelled GROUP BY zip").collect()
        }
    finally:
        sql.sql("DROP TABLE spelled")


NUMBERS = {
    "a float": ("FLOAT", ["0.1", "3.4028235E38", "NaN"], "p=0.1"),
    "a double": ("DOUBLE", ["1.0E7", "0.1", "-0.0"], "p=0.1"),
    "a double of whole digits": ("DOUBLE", ["5.0"], "p=5"),
    "a decimal": ("DECIMAL(5,2)", ["1.50", "-0.25"], "p=1.50"),
    "a long": ("BIGINT", ["-9223372036854775808", "7"], "p=7"),
}


@pytest.mark.parametrize("case", NUMBERS)
@pytest.mark.parametrize("below", ["", "sub"])
def test_rows_of_numbers_that_have_their_spelling_are_changed(sql, tmp_path, case, below):
    type_, values, name = NUMBERS[case]
    sql.sql(
        f"CREATE TABLE numbers (id BIGINT, p {type_}) USING arrowipc PARTITIONED BY (p) LOCATION '{tmp_path / 't'}'"
    )
    try:
        rows = ", ".join(f"({i}, CAST('{value}' AS {type_}))" for i, value in enumerate(values))
        sql.sql(f"INSERT INTO numbers VALUES {rows}")
        arrow_files.write(tmp_path / "t" / name / below / "other.arrow", pa.table({"id": [100, 101]}))
        sql.sql("DELETE FROM numbers WHERE id = 100")
        assert [*range(len(values)), 101] == [row.id for row in sql.sql("SELECT id FROM numbers ORDER BY id").collect()]
        assert 1 == sql.sql(f"SELECT * FROM numbers WHERE id = 101 AND p <=> CAST('{name[2:]}' AS {type_})").count()
    finally:
        sql.sql("DROP TABLE numbers")
