"""Tables of the session catalog: each statement does what it does to a table of Parquet, or is refused in a sentence."""

import pyspark
import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import functions as f

COLUMNS = "id bigint, s string, d int"
VALUES = "(1, 'a', 1), (2, NULL, 1), (3, 'c', 2), (4, 'd', NULL)"


def rows(spark, query):
    return sorted((tuple(row) for row in spark.sql(query).collect()), key=repr)


def run(spark, steps, names):
    """Run steps, statements of SQL or functions; yield for each whether it succeeded, its error, and the rows of the table."""
    for step in steps:
        error = None
        try:
            step(spark, names) if callable(step) else spark.sql(step.format(**names)).collect()
        except Exception as raised:  # noqa: BLE001 - its text is compared
            error = " ".join(str(raised).split("JVM stacktrace")[0].split())
        try:
            content = rows(spark, f"SELECT * FROM {names['t']}")
        except Exception as raised:  # noqa: BLE001 - its text is compared
            content = "no table" if "TABLE_OR_VIEW_NOT_FOUND" in str(raised) else str(raised)
        yield error, content


def frame(spark, first=10):
    return spark.sql(f"SELECT id + {first} AS id, concat('f', id) AS s, cast(id % 2 AS int) AS d FROM range(4)")


def save(mode=None, **partitioned):
    def step(spark, names):
        writer = frame(spark).write.format(names["f"])
        writer = writer.mode(mode) if mode else writer
        (writer.partitionBy("d") if partitioned else writer).saveAsTable(names["t"])

    return step


def insert_into(*, overwrite):
    return lambda spark, names: frame(spark, 20).write.insertInto(names["t"], overwrite=overwrite)


def save_at(path, mode):
    """Save under a name of the catalog in a directory that is not the catalog's."""
    return lambda spark, names: frame(spark).write.format(names["f"]).mode(mode).option("path", path.format(**names)).saveAsTable(names["t"])  # fmt: skip


def save_first(spark, names):
    columns = frame(spark).select("d", "id", "s")
    columns.write.format(names["f"]).mode("overwrite").partitionBy("d").saveAsTable(names["t"])


def partitions_of_times(spark, names):
    rows = spark.sql("SELECT 1 AS id, TIMESTAMP_NTZ'2020-01-01 10:00:00' AS p")
    rows.write.format("arrowipc").option("partitionBy", "p").save(names["at"])


def rows_at(spark, names):
    spark.range(5).write.format("arrowipc").save(names["at"])


FLAT = [f"CREATE TABLE {{t}} ({COLUMNS}) USING {{f}}", f"INSERT INTO {{t}} VALUES {VALUES}"]
BY_D = [f"CREATE TABLE {{t}} ({COLUMNS}) USING {{f}} PARTITIONED BY (d)", f"INSERT INTO {{t}} VALUES {VALUES}"]
CTAS = "CREATE TABLE {t} USING {f} AS SELECT id FROM range(5)"
BY_D_CTAS = "CREATE TABLE {t} USING {f} PARTITIONED BY (d) AS SELECT id % 2 AS d, id FROM range(5)"
DYNAMIC, STATIC = ("SET spark.sql.sources.partitionOverwriteMode=" + mode for mode in ("dynamic", "static"))

# (Steps, each of which leaves the rows that it leaves in a table of Parquet.)
IS_4_1 = pyspark.__version__.startswith("4.1.")

# Over a table of Parquet, Spark 4.1.0 and 4.2.0 answer it with "Cannot parse null string", and have removed the rows.
NULL_PARTITION = [
    "INSERT OVERWRITE {t} PARTITION (d = null) WITH c AS (SELECT 5L AS i) SELECT i, 'o' FROM c WHERE i > 5"
][pyspark.__version__ in {"4.1.0", "4.2.0"} :]

SAME = {
    "CREATE, INSERT": FLAT,
    "CREATE with PARTITIONED BY": BY_D,
    "CREATE twice": [*FLAT, FLAT[0], FLAT[0].replace("TABLE", "TABLE IF NOT EXISTS")],
    "CREATE with LOCATION": [FLAT[0] + " LOCATION '{at}'", FLAT[1], "DROP TABLE {t}", "CREATE TABLE {t} USING {f} LOCATION '{at}'"],
    "CREATE with OPTIONS (path)": [FLAT[0] + " OPTIONS (path '{at}')", FLAT[1]],
    "CTAS": ["CREATE TABLE {t} USING {f} AS SELECT id, id * 2 AS y FROM range(5)"],
    "CTAS with PARTITIONED BY": ["CREATE TABLE {t} USING {f} PARTITIONED BY (d) AS SELECT id, id % 2 AS d FROM range(5)", "INSERT INTO {t} VALUES (9, 7)"],
    "CTAS of no rows": ["CREATE TABLE {t} USING {f} AS SELECT id FROM range(5) WHERE id < 0", "INSERT INTO {t} VALUES (1)"],
    "INSERT BY NAME": [*FLAT, "INSERT INTO {t} BY NAME SELECT 1 AS d, 'n' AS s, 9L AS id"],
    "INSERT with a column list": [*FLAT, "INSERT INTO {t} (d, id) VALUES (3, 8)"],
    "INSERT PARTITION static": [*BY_D, "INSERT INTO {t} PARTITION (d = 9) VALUES (7, 'p')", "INSERT INTO {t} PARTITION (d = 1) SELECT 8L, 'q'"],
    "INSERT OVERWRITE": [*FLAT, "INSERT OVERWRITE {t} VALUES (5, 'o', 5)", "INSERT OVERWRITE {t} SELECT 5L, 'o', 5 WHERE false", FLAT[1]],
    "INSERT OVERWRITE of partitions, static mode": [*BY_D, "INSERT OVERWRITE {t} VALUES (5, 'o', 1)"],
    "INSERT OVERWRITE of partitions, dynamic mode": [*BY_D, DYNAMIC, "INSERT OVERWRITE {t} VALUES (5, 'o', 1)", "INSERT OVERWRITE {t} SELECT 5L, 'o', 5 WHERE false"],
    "INSERT OVERWRITE of one partition": [*BY_D, "INSERT OVERWRITE {t} PARTITION (d = 1) VALUES (5, 'o')"],
    "INSERT OVERWRITE of one partition by no rows": [*BY_D, "INSERT OVERWRITE {t} PARTITION (d = 1) SELECT 5L, 'o' WHERE false"],
    "INSERT OVERWRITE of one partition, dynamic mode": [*BY_D, DYNAMIC, "INSERT OVERWRITE {t} PARTITION (d = 1) VALUES (5, 'o')"],
    "INSERT OVERWRITE of one partition by no rows, dynamic mode": [
        *BY_D, DYNAMIC, "INSERT OVERWRITE {t} SELECT 5L, 'o', 1 WHERE false", "INSERT OVERWRITE {t} SELECT 5L, 'o', CAST('1' AS int) WHERE false",
        "INSERT OVERWRITE {t} PARTITION (d = 9) SELECT 5L, 'o' WHERE false", "INSERT OVERWRITE {t} PARTITION (d = 01) SELECT 5L, 'o' WHERE false",
        *NULL_PARTITION, "INSERT OVERWRITE {t} PARTITION (d = 2) BY NAME SELECT 's' AS s, 5L AS id WHERE false",
    ],
    "INSERT OVERWRITE of one of two columns of partitions by no rows, dynamic mode": [
        "CREATE TABLE {t} (id bigint, d int, s string) USING {f} PARTITIONED BY (d, s)", "INSERT INTO {t} VALUES (1, 1, 'a'), (2, 1, 'b')",
        DYNAMIC, "INSERT OVERWRITE {t} PARTITION (d = 1, s) SELECT 5L, 'a' WHERE false", "INSERT OVERWRITE {t} PARTITION (s = 'a', d = 1) SELECT 5L WHERE false",
    ],
    "INSERT of a wrong number of columns": [*FLAT, "INSERT INTO {t} VALUES (1, 2)"],
    "saveAsTable": [save(), save(), save("append"), save("overwrite"), save("ignore")],
    "saveAsTable, partitionBy": [save(d=1), save("append", d=1), save("overwrite", d=1)],
    "insertInto": [*FLAT, insert_into(overwrite=False), insert_into(overwrite=True)],
    "insertInto of partitions": [*BY_D, insert_into(overwrite=False), insert_into(overwrite=True)],
    "DROP, and again": [*FLAT, "DROP TABLE {t}", "DROP TABLE IF EXISTS {t}", *FLAT],
    "DROP of LOCATION": [FLAT[0] + " LOCATION '{at}'", FLAT[1], "DROP TABLE {t}", FLAT[0] + " LOCATION '{at}'"],
    "REFRESH": [*FLAT, "REFRESH TABLE {t}"],
    "ADD COLUMN": [*FLAT, "ALTER TABLE {t} ADD COLUMN z int", "INSERT INTO {t} VALUES (5, 'e', 5, 5)"],
    "ADD COLUMN of partitions": [*BY_D, "ALTER TABLE {t} ADD COLUMN z int", "INSERT INTO {t} VALUES (5, 'e', 6, 5)"],
    "ADD COLUMNS of partitions": [*BY_D, "ALTER TABLE {t} ADD COLUMNS (x int, y int, z int)", "INSERT INTO {t} VALUES (5, 'e', 6, 7, 8, 5)"],
    "ADD COLUMNS": [*FLAT, "ALTER TABLE {t} ADD COLUMNS (x int, y int, z int)", "INSERT INTO {t} VALUES (5, 'e', 5, 6, 7, 8)"],
    "names of partition columns": ["CREATE TABLE {t} (id bigint, `p q` int, `ü ñ` string, `x``y` int) USING {f} PARTITIONED BY (`p q`, `ü ñ`, `x``y`)", "INSERT INTO {t} VALUES (1, 2, 'a', 3)"],
    "properties and comments of partitions": [BY_D_CTAS, "ALTER TABLE {t} SET TBLPROPERTIES (a 'b')", "COMMENT ON TABLE {t} IS 'c'", "ALTER TABLE {t} RENAME TO {t}2", "ALTER TABLE {t}2 RENAME TO {t}"],
    "a partition column first": ["CREATE TABLE {t} (d int, id bigint, s string) USING {f} PARTITIONED BY (d)", "INSERT INTO {t} VALUES (1, 'a', 2)", "INSERT INTO {t} SELECT 3L, 'b', 4", "INSERT OVERWRITE {t} PARTITION (d = 2) SELECT 5L, 'c'"],
    "CTAS with a partition column first": [BY_D_CTAS, "INSERT INTO {t} VALUES (7, 8)"],
    "two partition columns": ["CREATE TABLE {t} USING {f} PARTITIONED BY (b, a) AS SELECT id % 2 AS a, id % 3 AS b, id FROM range(7)", "INSERT INTO {t} VALUES (9, 7, 8)"],
    "saveAsTable, a partition column first": [save_first, save_first],
    "RENAME": [*FLAT, "ALTER TABLE {t} RENAME TO {t}2", "ALTER TABLE {t}2 RENAME TO {t}"],
    "CACHE": [*FLAT, "CACHE TABLE {t}", "INSERT INTO {t} VALUES (5, 'e', 5)", "UNCACHE TABLE {t}"],
    "a view of a table": [*FLAT, "CREATE OR REPLACE TEMPORARY VIEW {t}_v AS SELECT * FROM {t} WHERE id > 1", "INSERT INTO {t} SELECT id + 10, s, d FROM {t}_v"],
    "SHOW and DESCRIBE": [*BY_D, "DESCRIBE {t}", "DESCRIBE EXTENDED {t}", "SHOW CREATE TABLE {t}", "SHOW COLUMNS IN {t}", "SHOW TBLPROPERTIES {t}"],
    "a path with a blank and an equals sign": [FLAT[0] + " LOCATION '{at} a=b%20c'", FLAT[1], "INSERT OVERWRITE {t} VALUES (5, 'o', 5)"],
}  # fmt: skip


def outcomes(spark, steps, name, tmp_path):
    result = {}
    for form in ("parquet", "arrowipc"):
        names = {"f": form, "t": f"{name}_{form}", "at": str(tmp_path / form)}
        try:
            result[form] = list(run(spark, steps, names))
        finally:
            spark.sql(STATIC)
            for table in ("", "2"):
                spark.sql(f"DROP TABLE IF EXISTS {names['t']}{table}")
    return result


@pytest.mark.parametrize("case", SAME)
def test_a_table_is_like_one_of_parquet(sql, tmp_path, case):
    steps = SAME[case]
    result = outcomes(sql, steps, f"same{list(SAME).index(case)}", tmp_path)
    expected, actual = result["parquet"], result["arrowipc"]
    assert [(error is None, content) for error, content in actual] == [
        (error is None, content) for error, content in expected
    ], [error for error, _ in actual]
    assert all(content != "no table" for _, content in expected[:2]), expected


def v2(method):
    def step(spark, names):
        writer = frame(spark, 30).writeTo(names["t"]).using(names["f"])
        writer.overwrite(f.lit(1) == 1) if method == "overwrite" else getattr(writer, method)()

    return step


# (Steps, rows of the table after each: Parquet has no tables of Spark's second version.)
OF_V2 = {
    "append": ([v2("create"), v2("append")], [4, 8]),
    "overwritePartitions": ([v2("create"), v2("append"), v2("overwritePartitions")], [4, 8, 4]),
    "overwritePartitions of one": ([*BY_D, "INSERT INTO {t} VALUES (5, 'e', 5)", v2("overwritePartitions")], [0, 4, 5, 7]),
    "createOrReplace": ([v2("create"), v2("append"), v2("createOrReplace")], [4, 8, 4]),
    "overwrite": ([v2("create"), v2("append"), v2("overwrite")], [4, 8, 4]),
    "RTAS": ([CTAS, "CREATE OR REPLACE TABLE {t} USING {f} AS SELECT 2L AS id UNION ALL SELECT 3", "REPLACE TABLE {t} USING {f} AS SELECT 4L AS id"], [5, 2, 1]),
    "RTAS of what it reads": ([CTAS, "CREATE OR REPLACE TABLE {t} USING {f} AS SELECT id + 1 AS id FROM {t} WHERE id > 0"], [5, 4]),
    "RTAS by PARTITIONED BY": ([BY_D_CTAS, "CREATE OR REPLACE TABLE {t} USING {f} PARTITIONED BY (d) AS SELECT d + 1 AS d, id FROM {t} WHERE id > 2"], [5, 2]),
    "RTAS of char and varchar": (["CREATE TABLE {t} (c char(4), v varchar(3)) USING {f}", "INSERT INTO {t} VALUES ('a', 'b')", "CREATE OR REPLACE TABLE {t} USING {f} AS SELECT * FROM {t}"], [0, 1, 1]),
    "CREATE OR REPLACE of no table": (["CREATE OR REPLACE TABLE {t} USING {f} AS SELECT 1 AS id", "SELECT * FROM {t}"], [1, 1]),
    "saveAsTable of what it reads": ([CTAS, lambda spark, names: spark.table(names["t"]).where("id > 2").write.format(names["f"]).mode("overwrite").saveAsTable(names["t"])], [5, 2]),
    "saveAsTable to a path, twice": ([save_at("{at}", "overwrite"), save_at("{at}", "overwrite")], [4, 4]),
    "saveAsTable of all partitions, by an option": ([BY_D_CTAS, lambda spark, names: spark.sql("SELECT 9L AS id, 1L AS d").write.format(names["f"]).mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy("d").saveAsTable(names["t"])], [5, 1]),
    "a comment of a column": ([BY_D_CTAS, "ALTER TABLE {t} ALTER COLUMN id COMMENT 'key'"], [5, 5]),
    "LIKE a table of another format": (["CREATE TABLE {t}2 (id bigint) USING parquet", "CREATE TABLE {t} LIKE {t}2 USING {f}", "INSERT INTO {t} VALUES (1)"], ["no table", 0, 1]),
    "INSERT OVERWRITE of what it reads": ([*FLAT, "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id < 3"], [0, 4, 2]),
    "LOCATION of a partitioned directory, without MSCK REPAIR": ([
        BY_D[0] + " LOCATION '{at}'", BY_D[1], "DROP TABLE {t}", "CREATE TABLE {t} USING {f} LOCATION '{at}'", "INSERT INTO {t} VALUES (5, 'e', 3)",
    ], [0, 4, "no table", 4, 5]),
    "statements on a table without files": ([
        FLAT[0], "DELETE FROM {t}", "DELETE FROM {t} WHERE id = 1", "UPDATE {t} SET id = 1",
        "MERGE INTO {t} t USING (SELECT 1 AS id, 's' AS s, 1 AS d) n ON t.id = n.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
    ], [0, 0, 0, 0, 1]),
    "a MERGE into a partitioned table without files": ([
        BY_D[0], "MERGE INTO {t} t USING (SELECT 1 AS id, 's' AS s, 1 AS d) n ON t.id = n.id WHEN NOT MATCHED THEN INSERT *", BY_D[1],
    ], [0, 1, 5]),
    "TRUNCATE": ([*FLAT, "TRUNCATE TABLE {t}", FLAT[1]], [0, 4, 0, 4]),
}  # fmt: skip


@pytest.mark.parametrize("case", OF_V2)
def test_what_tables_of_parquet_cannot(sql, tmp_path, case):
    steps, expected = OF_V2[case]
    result = outcomes(sql, steps, f"second{list(OF_V2).index(case)}", tmp_path)["arrowipc"]
    assert [error for error, _ in result if error] == []
    assert [len(content) if isinstance(content, list) else content for _, content in result] == expected


# (Steps of which the last is refused, the words.)
REFUSED = {
    "bucketBy": (
        ["CREATE TABLE {t} (id bigint) USING {f} CLUSTERED BY (id) INTO 4 BUCKETS"],
        "by columns",
    ),
    "clusterBy": (["CREATE TABLE {t} (id bigint) USING {f} CLUSTER BY (id)"], "by columns"),
    "CREATE LIKE": ([*FLAT, "CREATE TABLE {t}_l LIKE {t} USING {f}"], "does not support CREATE TABLE LIKE"),
    "two INSERT OVERWRITE of partitions in one statement, dynamic mode": (
        [
            *BY_D,
            DYNAMIC,
            "FROM range(0) INSERT OVERWRITE {t} PARTITION (d = 1) SELECT id, 'o' INSERT OVERWRITE {t} PARTITION (d = 2) SELECT id, 'o'",
        ],
        "write one statement for each",
    ),
    "MSCK REPAIR": ([*BY_D, "MSCK REPAIR TABLE {t}"], "not supported for v2 tables"),
    "REPLACE WHERE": (
        [*BY_D, "INSERT INTO {t} REPLACE WHERE id > 1 VALUES (9, 'n', 9)"],
        "overwrites the rows of a partition",
    ),
    "REPLACE WHERE without partitions": (
        [*FLAT, "INSERT INTO {t} REPLACE WHERE id > 1 VALUES (9, 'n', 9)"],
        "overwrites the rows of a partition",
    ),
    "a directory": (["INSERT OVERWRITE DIRECTORY '{at}' USING {f} SELECT 1 AS a"], "FileFormat"),
    "ADD PARTITION": ([*BY_D, "ALTER TABLE {t} ADD PARTITION (d = 7)"], "when it has rows"),
    "DROP PARTITION": ([*BY_D, "ALTER TABLE {t} DROP PARTITION (d = 1)"], "use DELETE FROM"),
    "TRUNCATE PARTITION": ([*BY_D, "TRUNCATE TABLE {t} PARTITION (d = 1)"], "not supported"),
    "RTAS of other columns": (
        [CTAS, "CREATE OR REPLACE TABLE {t} USING {f} AS SELECT 1 AS a"],
        "columns would change from id bigint to a int",
    ),
    "RTAS of other partitions": (
        [BY_D_CTAS, "CREATE OR REPLACE TABLE {t} USING {f} AS SELECT * FROM {t}"],
        'partition columns would change from ["d"] to none',
    ),
    "RTAS with OPTIONS": (
        [CTAS, "CREATE OR REPLACE TABLE {t} USING {f} OPTIONS (maxBatchBytes '1m') AS SELECT * FROM {t}"],
        "the option maxBatchBytes would change",
    ),
    "RTAS with a property": (
        [CTAS, "CREATE OR REPLACE TABLE {t} USING {f} TBLPROPERTIES (a 'b') AS SELECT * FROM {t}"],
        "property a would change",
    ),
    "RTAS with LOCATION": (
        [CTAS, "CREATE OR REPLACE TABLE {t} USING {f} LOCATION '{at}' AS SELECT * FROM {t}"],
        "location would change",
    ),
    "RTAS of longer strings": (
        ["CREATE TABLE {t} (v varchar(3)) USING {f}", "CREATE OR REPLACE TABLE {t} USING {f} AS SELECT 'long' AS v"],
        "columns would change from v varchar(3) to v string",
    ),
    "RTAS that fails": (
        [CTAS, "CREATE OR REPLACE TABLE {t} USING {f} AS SELECT if(id = 3, raise_error('boom'), id) AS id FROM {t}"],
        "boom",
    ),
    "RTAS of another format": (
        [CTAS, "CREATE OR REPLACE TABLE {t} USING noop AS SELECT * FROM {t}"],
        "of another format",
    ),
    "REPLACE TABLE": ([CTAS, "REPLACE TABLE {t} (id bigint) USING {f}"], "use TRUNCATE TABLE"),
    "saveAsTable of other columns": ([CTAS, save("overwrite")], "columns would change"),
    "CTAS that fails": (
        ["CREATE TABLE {t} USING {f} AS SELECT if(id = 3, raise_error('boom'), id) AS id FROM range(5)"],
        "boom",
    ),
    "CTAS in a directory with rows": (
        [rows_at, "CREATE TABLE {t} USING {f} LOCATION '{at}' AS SELECT 100L AS id"],
        "has rows, to which CREATE TABLE AS SELECT",
    ),
    "CTAS in a directory with rows, by an option": (
        [rows_at, "CREATE TABLE {t} USING {f} OPTIONS (PATH '{at}') AS SELECT 100L AS id"],
        "has rows",
    ),
    "saveAsTable in a directory with rows, error": ([rows_at, save_at("{at}", "error")], "has rows"),
    "saveAsTable in a directory with rows, ignore": ([rows_at, save_at("{at}", "ignore")], "has rows"),
    "saveAsTable in a directory with rows, append": ([rows_at, save_at("{at}", "append")], "has rows"),
    "saveAsTable in a directory with rows, overwrite": ([rows_at, save_at("{at}", "overwrite")], "has rows"),
    "RTAS of files with more columns": (
        [
            CTAS.replace("id FROM", "id, id AS b FROM").replace("AS SELECT", "LOCATION '{at}' AS SELECT"),
            "DROP TABLE {t}",
            "CREATE TABLE {t} (id bigint) USING {f} LOCATION '{at}'",
            "CREATE OR REPLACE TABLE {t} USING {f} AS SELECT id FROM {t}",
        ],
        "have a column b that the table does not list",
    ),
    "ADD COLUMN NOT NULL": ([*FLAT, "ALTER TABLE {t} ADD COLUMN z int NOT NULL"], "null in rows that exist"),
    "partitions by TIMESTAMP": (
        ["CREATE TABLE {t} (id int, p timestamp) USING {f} PARTITIONED BY (p)"],
        "have no time zone",
    ),
    "INSERT into partitions by TIMESTAMP": (
        [
            partitions_of_times,
            "CREATE TABLE {t} USING {f} OPTIONS (path '{at}', timeZone 'UTC')",
            "INSERT INTO {t} SELECT * FROM {t}",
        ],
        "have no time zone",
    ),
    "only partition columns": (
        ["CREATE TABLE {t} (d int) USING {f} PARTITIONED BY (d)"],
        "needs a column that is not a partition column",
    ),
    "RENAME COLUMN": ([CTAS, "ALTER TABLE {t} RENAME COLUMN id TO key"], "keep their columns"),
    "DROP COLUMN": ([*FLAT, "ALTER TABLE {t} DROP COLUMN s"], "keep their columns"),
    "another type": (
        ["CREATE TABLE {t} USING {f} AS SELECT 1 AS a", "ALTER TABLE {t} ALTER COLUMN a TYPE bigint"],
        "keep their columns",
    ),
    "REPLACE COLUMNS": ([*FLAT, "ALTER TABLE {t} REPLACE COLUMNS (x int)"], "keep their columns"),
    "ADD COLUMN of a struct": (
        ["CREATE TABLE {t} USING {f} AS SELECT struct(1 AS b) AS a", "ALTER TABLE {t} ADD COLUMN a.c int"],
        "keep their columns",
    ),
    "CLUSTER BY": ([*FLAT, "ALTER TABLE {t} CLUSTER BY (id)"], "no clustered files"),
    "ANALYZE": ([*FLAT, "ANALYZE TABLE {t} COMPUTE STATISTICS"], "ANALYZE TABLE is not supported for v2 tables"),
}


# Spark 4.1 makes an empty table of the same columns, which is a table like any other.
@pytest.mark.parametrize("case", [case for case in REFUSED if not (IS_4_1 and case == "CREATE LIKE")])
def test_what_is_refused_leaves_the_rows(sql, tmp_path, case):
    steps, words = REFUSED[case]
    result = outcomes(sql, steps, f"refused{list(REFUSED).index(case)}", tmp_path)["arrowipc"]
    assert words in str(result[-1][0])
    assert all(error is None for error, _ in result[:-1]), result
    assert result[-1][1] in ("no table", *(content for _, content in result[-2:-1]))
    files = tmp_path / "arrowipc"
    assert rows_at not in steps or sql.read.format("arrowipc").load(str(files)).count() == 5


def test_an_option_of_a_time_is_of_the_session(sql):
    zone = sql.conf.get("spark.sql.session.timeZone")
    try:
        sql.sql("CREATE TABLE at_time USING arrowipc AS SELECT id FROM range(5)")
        sql.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
        (now,) = rows(sql, "SELECT cast(now() AS string)")[0]
        sql.sql("INSERT INTO at_time VALUES (5)")
        assert rows(sql, f"SELECT count(*) FROM at_time TIMESTAMP AS OF '{now}'") == [(5,)]
        assert sql.read.option("timestampAsOf", now).table("at_time").count() == 5
        assert sql.read.option("versionAsOf", 1).table("at_time").count() == 5
    finally:
        sql.conf.set("spark.sql.session.timeZone", zone)
        sql.sql("DROP TABLE IF EXISTS at_time")


VERSIONS = {
    "VERSION AS OF 1": 5,
    "VERSION AS OF 2": 7,
    "TIMESTAMP AS OF now()": 8,
    "VERSION AS OF 9": "expected an entry 9",
}


@pytest.mark.parametrize("of", VERSIONS)
def test_a_former_version_of_a_table(sql, of):
    try:
        sql.sql("CREATE TABLE former USING arrowipc AS SELECT id FROM range(5)")
        sql.sql("INSERT INTO former VALUES (5), (6)")
        sql.sql("CACHE TABLE former")
        sql.sql("INSERT INTO former VALUES (7)")
        query = f"SELECT count(*) FROM former {of}"
        if isinstance(VERSIONS[of], int):
            assert rows(sql, query) == [(VERSIONS[of],)]
        else:
            with pytest.raises(Exception, match=VERSIONS[of]):
                rows(sql, query)
    finally:
        sql.sql("DROP TABLE IF EXISTS former")


COUNTS = ["count(*)", "count(id)", "count(v)", "min(id), max(id), count(*)", "max(v), count(*)"]


def test_counts_of_a_table_whose_columns_are_not_null(sql):
    try:
        sql.sql("CREATE TABLE not_null (id BIGINT NOT NULL, v STRING) USING arrowipc")
        sql.sql("INSERT INTO not_null VALUES (1, 'a'), (2, NULL), (3, 'b')")
        expected = [[(3,)], [(3,)], [(2,)], [(1, 3, 3)], [("b", 3)]]
        assert [rows(sql, f"SELECT {each} FROM not_null") for each in COUNTS] == expected
        assert [rows(sql, f"SELECT {each} FROM not_null VERSION AS OF 1") for each in COUNTS] == expected
        assert sql.table("not_null").count() == 3
    finally:
        sql.sql("DROP TABLE IF EXISTS not_null")


def test_sessions_without_the_catalog_refuse_its_tables(sql, tmp_path):
    sql.sql("CREATE TABLE catalogs USING arrowipc AS SELECT id FROM range(5)")
    other = sql.newSession()
    try:
        for statement in (
            "CREATE TABLE catalogs2 (id int) USING arrowipc",
            "CREATE TABLE catalogs2 USING arrowipc AS SELECT 1 AS id",
        ):
            with pytest.raises(Exception, match="safe only with"):
                other.sql(statement)
            assert not sql.catalog.tableExists("catalogs2")
        with pytest.raises(
            Exception, match=r"safe only with spark\.sql\.catalog\.spark_catalog=sparkarrowipc\.SessionCatalog"
        ):
            other.sql("SELECT * FROM catalogs").collect()
        other.conf.set("spark.sql.catalog.spark_catalog", "sparkarrowipc.SessionCatalog")
        assert other.sql("SELECT * FROM catalogs").count() == 5
    finally:
        sql.sql("DROP TABLE catalogs")


@pytest.mark.skipif(IS_4_1, reason="reading a stream needs Spark 4.2 or later")
def test_options_of_a_table_are_for_reads_or_for_writes(sql, tmp_path):
    options = "OPTIONS (compression 'zstd', mergeSchema 'true', maxBatchBytes '1m', maxFilesPerTrigger '1')"
    where = f"LOCATION '{tmp_path / 'at'}'"
    try:
        sql.sql(f"CREATE TABLE of_both USING arrowipc {options} {where} AS SELECT id, id % 2 AS d FROM range(5)")
        sql.sql("INSERT INTO of_both VALUES (5, 1)")
        sql.sql("DELETE FROM of_both WHERE id = 0")
        assert rows(sql, "SELECT count(*), sum(id) FROM of_both") == [(5, 15)]
        sql.sql("DROP TABLE of_both")
        sql.sql(f"CREATE TABLE of_both USING arrowipc {options} {where}")
        assert rows(sql, "SELECT count(*), sum(id) FROM of_both") == [(5, 15)]
        stream = sql.readStream.table("of_both").writeStream.format("memory").queryName("of_both_rows")
        stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()
        assert rows(sql, "SELECT count(*), sum(id) FROM of_both_rows") == [(5, 15)]
        sql.sql("ALTER TABLE of_both SET TBLPROPERTIES ('option.compression' = 'lz4')")
        assert rows(sql, "SELECT count(*), sum(id) FROM of_both") == [(5, 15)]
    finally:
        sql.sql("DROP TABLE IF EXISTS of_both")


NO_OPTIONS = {
    "OPTIONS (compresion 'zstd')": "there is no option compresion; .* Nothing is changed",
    "TBLPROPERTIES ('option.compresion' = 'zstd')": "there is no option compresion; .* Nothing is changed",
    "TBLPROPERTIES (Compression = 'zstd')": "Compression is an option, and has no effect as a property .* option.Compression. Nothing is changed",
    "TBLPROPERTIES ('storage.region' = 'x')": "storage.region is an option, and has no effect",
}


@pytest.mark.parametrize("text", NO_OPTIONS)
def test_what_is_no_option_or_would_have_no_effect_is_refused_before_there_is_a_table(sql, tmp_path, text):
    table, words = "of_no_options", NO_OPTIONS[text]
    try:
        for create in (
            f"(id bigint) USING arrowipc {text} LOCATION '{tmp_path / 'd'}'",
            f"USING arrowipc {text} AS SELECT 1 AS id",
        ):
            with pytest.raises(IllegalArgumentException, match=words):
                sql.sql(f"CREATE TABLE {table} {create}")
            assert not sql.catalog.tableExists(table)
        sql.sql(
            f"CREATE TABLE {table} (id bigint) USING arrowipc TBLPROPERTIES (mine = 'yes') LOCATION '{tmp_path / 'd'}'"
        )
        if text.startswith("TBL"):
            with pytest.raises(Exception, match=words):  # of the JVM, around ours
                sql.sql(f"ALTER TABLE {table} SET {text}")
    finally:
        sql.sql(f"DROP TABLE IF EXISTS {table}")


@pytest.mark.parametrize("name", ["columns", "metadataColumns", "metadataOnly", "readChangeFeed"])
def test_options_of_columns_are_refused_by_a_name(sql, tmp_path, name):
    value = "id" if name == "columns" else "true"
    words = f"the option {name} changes the columns"
    path = str(tmp_path / "named")
    try:
        sql.sql(f"CREATE TABLE of_columns USING arrowipc LOCATION '{path}' AS SELECT id, 1 AS d FROM range(5)")
        if name == "readChangeFeed":
            stream = sql.readStream.option(name, value).table("of_columns").writeStream.format("noop")
            stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
            with pytest.raises(Exception, match=words):
                stream.start().awaitTermination()
        else:
            with pytest.raises(Exception, match=words):
                sql.read.option(name, value).table("of_columns").collect()
            with pytest.raises(Exception, match=words):
                rows(sql, f"SELECT * FROM of_columns WITH ({name} = '{value}')")
            assert sql.read.format("arrowipc").option(name, value).load(path).count()
        assert rows(sql, "SELECT count(*) FROM of_columns") == [(5,)]
    finally:
        sql.sql("DROP TABLE IF EXISTS of_columns")


SHOWN = ["", " PARTITION (d = 1)", " PARTITION (e = DATE'2020-01-03')", " PARTITION (s = 'a b/=', d = 1)", " PARTITION (d = 9)", " PARTITION (x = 1)"]  # fmt: skip


def test_partitions_are_shown_as_those_of_parquet(sql):
    def shown(form, clause):
        try:
            names = [name for (name,) in rows(sql, f"SHOW PARTITIONS shown_{form}{clause}")]
        except Exception as error:  # noqa: BLE001 - its text is compared
            return str(error).partition("]")[0]
        return sorted(
            name.replace("__HIVE_DEFAULT_PARTITION__", "null") for name in names
        )  # Spark's word for tables of V2

    try:
        for form in ("parquet", "arrowipc"):
            sql.sql(
                f"CREATE TABLE shown_{form} (id int, s string, d int, e date) USING {form} PARTITIONED BY (s, d, e)"
            )
            sql.sql(
                f"INSERT INTO shown_{form} VALUES (1, 'a b/=', 1, DATE'2020-01-01'), (2, 'b', NULL, DATE'2020-01-02'), "
                "(3, NULL, 3, NULL), (4, 'a b/=', 1, DATE'2020-01-03')"
            )
        expected = {clause: shown("parquet", clause) for clause in SHOWN}
        assert {clause: shown("arrowipc", clause) for clause in SHOWN} == expected
        assert len(expected[""]) == 4
    finally:
        for form in ("parquet", "arrowipc"):
            sql.sql(f"DROP TABLE IF EXISTS shown_{form}")


# (Name, end of CREATE TABLE.)
DESCRIBED = {
    "managed": "",
    "external": " LOCATION '{at}'",
    "by_path": " OPTIONS (path '{at}')",
}


@pytest.mark.parametrize("kind", DESCRIBED)
def test_a_description_is_that_of_parquet(sql, tmp_path, kind):
    """What statements and the catalog say of a table: its comment, kind and location, and the statement that creates it."""

    def of(form):
        table, at = f"described_{kind}_{form}", tmp_path / form

        def shown(statement):
            text = repr([tuple(row) for row in sql.sql(statement.format(t=table)).collect()])
            return text.replace(form, "FORMAT")

        def described():
            rows = {row[0]: row[1] for row in sql.sql(f"DESCRIBE EXTENDED {table}").collect()}
            names = ("Comment", "Type", "Location", "Table Properties", "Provider")
            (listed,) = [each for each in sql.catalog.listTables() if each.name == table]
            of_catalog = [(each.description, each.tableType) for each in (sql.catalog.getTable(table), listed)]
            return of_catalog, [str(rows.get(name)).replace(form, "FORMAT").replace("file:", "") for name in names]

        ends = f"COMMENT 'first'{DESCRIBED[kind].format(at=at)} TBLPROPERTIES (a 'b')"
        try:
            sql.sql(f"CREATE TABLE {table} (id bigint COMMENT 'key') USING {form} {ends}")
            texts = [described(), shown("SHOW TBLPROPERTIES {t}"), shown("SHOW CREATE TABLE {t}")]
            sql.sql(f"COMMENT ON TABLE {table} IS 'second'")
            sql.sql(f"INSERT INTO {table} VALUES (1)")
            texts += [described(), sql.table(table).count()]
            sql.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES (comment)")
            return [*texts, described()]
        finally:
            sql.sql(f"DROP TABLE IF EXISTS {table}")

    assert of("arrowipc") == of("parquet")


def test_queries_do_not_ask_the_catalog_for_what_is_shown(sql):
    """The entry of a table is asked for again only by what shows it, as each request of a metastore takes time."""
    table = "asked"

    def has_asked(query):
        frame = sql.sql(query)
        frame.collect()
        source = frame._jdf.queryExecution().analyzed().collectLeaves().apply(0).table()
        field = source.getClass().getDeclaredField("propertiesOfEntry")
        field.setAccessible(True)
        before = field.get(source)
        return before, source.properties()["comment"], field.get(source) is not None

    try:
        sql.sql(f"CREATE TABLE {table} USING arrowipc COMMENT 'c' AS SELECT 1 AS a")
        for query in (
            "SELECT * FROM asked",
            "SELECT count(*) FROM asked WHERE a > 0",
            "SELECT * FROM asked VERSION AS OF 1",
        ):
            assert has_asked(query) == (None, "c", True)
    finally:
        sql.sql(f"DROP TABLE {table}")


def test_a_created_table_is_created_again_by_what_is_shown(sql):
    """The statement of a managed table has no location, which would make two tables of one directory."""
    try:
        sql.sql("CREATE TABLE shown USING arrowipc COMMENT 'c' AS SELECT 1 AS a")
        (statement,) = [row[0] for row in sql.sql("SHOW CREATE TABLE shown").collect()]
        sql.sql(statement.replace("shown", "shown_again"))
        assert [rows(sql, f"SELECT * FROM {name}") for name in ("shown", "shown_again")] == [[(1,)], []]
        assert sql.catalog.getTable("shown_again").description == "c"
    finally:
        for name in ("shown", "shown_again"):
            sql.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_replaced_table_has_the_comment_of_the_statement(sql):
    def replaced(comment, query="SELECT 2 AS a"):
        sql.sql(f"CREATE OR REPLACE TABLE commented USING arrowipc {comment} AS {query}")
        return sql.catalog.getTable("commented").description, rows(sql, "SELECT * FROM commented")

    try:
        assert replaced("COMMENT 'x'") == ("x", [(2,)])
        assert replaced("COMMENT 'x'", "SELECT 3 AS a") == ("x", [(3,)])
        assert replaced("COMMENT 'it''s \\n y'", "SELECT 4 AS a") == ("it's \n y", [(4,)])
        assert replaced("", "SELECT 5 AS a") == ("it's \n y", [(5,)])
        with pytest.raises(Exception, match="boom"):
            replaced("COMMENT 'z'", "SELECT CAST(raise_error('boom') AS int) AS a")
        assert sql.catalog.getTable("commented").description == "it's \n y"
        assert rows(sql, "SELECT * FROM commented") == [(5,)]
    finally:
        sql.sql("DROP TABLE IF EXISTS commented")


# (Statement of a table of another format, which behaves as before.)
OF_SPARK = ["SELECT * FROM spark_t", "INSERT INTO spark_t VALUES (9)", "INSERT OVERWRITE spark_t VALUES (8)", "ALTER TABLE spark_t ADD COLUMN z int", "ALTER TABLE spark_t SET TBLPROPERTIES (a 'b')", "ANALYZE TABLE spark_t COMPUTE STATISTICS", "CREATE OR REPLACE VIEW spark_v AS SELECT * FROM spark_t", "SELECT * FROM spark_v", "DROP VIEW spark_v", "CREATE FUNCTION spark_f(x INT) RETURNS INT RETURN x + 1", "SELECT default.spark_f(2)", "DROP FUNCTION spark_f", "CREATE DATABASE spark_d", "CREATE TABLE spark_d.u USING parquet AS SELECT 1 AS i", "SELECT * FROM spark_d.u", "DROP DATABASE spark_d CASCADE", "SHOW TABLES", "CREATE TABLE spark_l LIKE spark_t", "DROP TABLE spark_l", "DELETE FROM spark_t", "UPDATE spark_t SET id = 1", "CREATE OR REPLACE TABLE spark_t USING parquet AS SELECT 1 AS id", "ALTER TABLE spark_t RENAME COLUMN id TO k", "DESCRIBE EXTENDED spark_t", "TRUNCATE TABLE spark_t", "DROP TABLE spark_t"]  # fmt: skip


def test_tables_of_other_formats_are_those_of_spark(sql):
    def outcome(statement):
        try:
            return "rows", len(sql.sql(statement).collect())
        except Exception as error:  # noqa: BLE001 - its text is compared
            return "error", str(error).split("\n")[0].split("SQLSTATE")[0]

    def outcomes_of_all():
        sql.sql("CREATE TABLE spark_t USING parquet AS SELECT id FROM range(5)")
        return {statement: outcome(statement) for statement in OF_SPARK}

    ours = outcomes_of_all()
    catalog = sql.conf.get("spark.sql.catalog.spark_catalog")
    sql.conf.unset("spark.sql.catalog.spark_catalog")
    try:
        assert outcomes_of_all() == ours
    finally:
        sql.conf.set("spark.sql.catalog.spark_catalog", catalog)
    assert sum(kind == "error" for kind, _ in ours.values()) == 4, ours
