"""Tables named by their paths, arrowipc.`/path`: what reads and writes them, and what is refused before a file is touched."""

import os

import pyspark
import pytest

ROWS = "SELECT id, concat('v', id) AS s, cast(id % 2 AS int) AS d FROM range(6)"
FIRST = [(i, f"v{i}", i % 2) for i in range(6)]


def rows(spark, query):
    return sorted((tuple(row) for row in spark.sql(query).collect()), key=repr)


def content(directory):
    """The names and bytes of all files of a table."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def path(sql, tmp_path):
    """A partitioned directory."""
    sql.sql(f"CREATE TABLE arrowipc.`{tmp_path}/t` PARTITIONED BY (d) AS {ROWS}")
    return tmp_path / "t"


# (Query of {t}, rows.)
QUERIES = {
    "SELECT * FROM {t}": FIRST,
    "SELECT id FROM {t} WITH (where = 'id > 3') WHERE d = 1": [(5,)],
    "SELECT a.id, b.s FROM {t} a JOIN {t} b ON a.id = b.id + 4": [(4, "v0"), (5, "v1")],
    "SELECT count(*) FROM {t} VERSION AS OF 1": [(6,)],
    "SELECT count(*) FROM {t} TIMESTAMP AS OF '2999-01-01 00:00:00'": [(6,)],
    "SELECT count(*) FROM {relative}": [(6,)],
    "SELECT count(*) FROM arrowipc.`{path}/d=*`": [(6,)],
    "SELECT count(*) FROM arrowipc.`file://{path}`": [(6,)],
}


def test_paths_are_read(sql, path):
    names = {"t": f"arrowipc.`{path}`", "path": path, "relative": f"arrowipc.`{os.path.relpath(path)}`"}
    assert {query: rows(sql, query.format(**names)) for query in QUERIES} == QUERIES
    assert sql.table(names["t"]).count() == sql.read.table(names["t"]).count() == 6
    assert [field.metadata for field in sql.table(names["t"]).schema] == [{}, {}, {}]


# (Statement, rows of the table and its partitions afterwards.)
CHANGES = {
    "INSERT INTO {t} VALUES (9, 'new', 7)": ([*FIRST, (9, "new", 7)], {0, 1, 7}),
    "INSERT INTO {t} PARTITION (d = 7) VALUES (9, 'new')": ([*FIRST, (9, "new", 7)], {0, 1, 7}),
    "INSERT INTO {t} BY NAME SELECT 1 AS d, 9L AS id, 'new' AS s": ([*FIRST, (9, "new", 1)], {0, 1}),
    "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE d = 1": ([row for row in FIRST if row[2]], {1}),
    "INSERT OVERWRITE {t} PARTITION (d = 1) VALUES (9, 'new')": ([*(r for r in FIRST if not r[2]), (9, "new", 1)], {0, 1}),
    "INSERT OVERWRITE {t} PARTITION (d = 1) SELECT 9L, 'new' WHERE false": ([r for r in FIRST if not r[2]], {0}),
    "CREATE OR REPLACE TABLE {t} PARTITIONED BY (d) AS SELECT id + 1 AS id, s, d FROM {t} WHERE d = 0": ([(i + 1, s, d) for i, s, d in FIRST if not d], {0}),
    "TRUNCATE TABLE {t}": ([], set()),
}  # fmt: skip


@pytest.mark.parametrize("statement", CHANGES)
def test_paths_are_written(sql, path, statement):
    expected, partitions = CHANGES[statement]
    sql.sql(statement.format(t=f"arrowipc.`{path}`"))
    assert rows(sql, f"SELECT id, s, d FROM arrowipc.`{path}`") == sorted(expected, key=repr)
    kept = {int(name.parent.name.removeprefix("d=")) for name in path.glob("d=*/*.arrow")}
    assert kept == partitions


def test_a_truncated_path_keeps_its_partitions(sql, path):
    sql.sql(f"TRUNCATE TABLE arrowipc.`{path}`")
    sql.sql(f"INSERT INTO arrowipc.`{path}` VALUES (9, 'new', 7)")
    assert rows(sql, f"SELECT * FROM arrowipc.`{path}`") == [(9, "new", 7)]
    assert [name.parent.name for name in path.rglob("*.arrow")] == ["d=7"]


def test_partitions_of_nulls_alone_take_values(sql, tmp_path):
    """A read calls such a column void, as Spark does for Parquet, and no statement could give it a value."""
    table = f"arrowipc.`{tmp_path}/t`"
    values = "SELECT id, if(id = 0, 'a', null) AS p, cast(null AS int) AS d FROM range(3)"
    sql.sql(f"CREATE TABLE {table} PARTITIONED BY (p, d) AS {values}")
    sql.sql(f"DELETE FROM {table} WHERE p = 'a'")
    sql.sql(f"UPDATE {table} SET id = id + 10")
    sql.sql(f"MERGE INTO {table} t USING (SELECT 12L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET d = 7")
    sql.sql(f"INSERT INTO {table} VALUES (4, 'b', 8), (5, null, null)")
    assert [(11, None, None), (12, None, 7), (4, "b", 8), (5, None, None)] == rows(sql, f"SELECT * FROM {table}")


def test_dataframes_write_paths(sql, tmp_path):
    name, frame = f"arrowipc.`{tmp_path}/w`", sql.sql(ROWS)
    counts = []
    for act in [
        lambda: frame.write.format("arrowipc").saveAsTable(name),
        lambda: frame.write.format("arrowipc").mode("append").saveAsTable(name),
        lambda: frame.write.insertInto(name),
        lambda: frame.writeTo(name).append(),
        lambda: frame.writeTo(name).createOrReplace(),
        lambda: frame.write.format("arrowipc").mode("overwrite").saveAsTable(name),
        lambda: frame.write.insertInto(name, overwrite=True),
    ]:
        act()
        counts.append(sql.table(name).count())
    assert counts == [6, 12, 18, 24, 6, 6, 6]


@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="reading a stream needs Spark 4.2 or later")
def test_streams_read_and_write_paths(sql, path, tmp_path):
    sql.sql(f"CREATE TABLE arrowipc.`{path}2` AS {ROWS}")
    stream = sql.readStream.table(f"arrowipc.`{path}`").writeStream.option("checkpointLocation", str(tmp_path / "c"))
    query = stream.trigger(availableNow=True).toTable(f"arrowipc.`{path}2`")
    assert query.awaitTermination(120)
    assert sql.table(f"arrowipc.`{path}2`").count() == 12


# (Statement, the words of its refusal.)
REFUSED = {
    "CREATE TABLE {t} AS SELECT 1 AS a": "TABLE_OR_VIEW_ALREADY_EXISTS",
    "CREATE TABLE {new} (a int)": "add AS SELECT",
    "REPLACE TABLE {t} (a int)": "TRUNCATE TABLE",
    "REPLACE TABLE {new} AS SELECT 1 AS a": "TABLE_OR_VIEW_NOT_FOUND",
    "CREATE TABLE {new} PARTITIONED BY (bucket(4, a)) AS SELECT 1 AS a": "by columns",
    "CREATE TABLE {new} CLUSTERED BY (a) INTO 4 BUCKETS AS SELECT 1 AS a": "by columns",
    "CREATE TABLE {new} TBLPROPERTIES ('k' = 'v') AS SELECT 1 AS a": "has no property k",
    "CREATE TABLE {new} COMMENT 'c' AS SELECT 1 AS a": "has no property comment",
    "CREATE TABLE {new} LOCATION '/x' AS SELECT 1 AS a": "has no property location",
    "CREATE TABLE {new} USING parquet AS SELECT 1 AS a": "not parquet",
    "CREATE TABLE {new} OPTIONS (nonsense 'x') AS SELECT 1 AS a": "nonsense",
    "DROP TABLE {t}": "delete the directory yourself",
    "ALTER TABLE {t} ADD COLUMN z int": "those of its files",
    "ALTER TABLE {t} RENAME TO arrowipc.`x`": "move ",
    "SELECT * FROM {new}": "NoFilesError",
    "INSERT INTO {new} VALUES (1)": "arrowipc",
    "SELECT * FROM arrowipc.a.`{path}`": "has one name",
    "SELECT * FROM {t} VERSION AS OF 99": "an entry 99",
    "SELECT * FROM {t} TIMESTAMP AS OF '1999-01-01'": "timestampAsOf",
    "INSERT INTO {t} REPLACE WHERE id > 3 SELECT * FROM {t}": "overwrites the rows of a partition",
}


def test_what_is_refused_changes_nothing(sql, path, tmp_path):
    names = {"t": f"arrowipc.`{path}`", "new": f"arrowipc.`{tmp_path}/new`", "path": path}
    before = content(tmp_path)
    for statement, words in REFUSED.items():
        with pytest.raises(Exception) as caught:
            sql.sql(statement.format(**names)).collect()
        assert words in str(caught.value), (statement, str(caught.value)[:400])
        assert content(tmp_path) == before, statement
