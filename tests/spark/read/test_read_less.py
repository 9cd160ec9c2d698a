"""Reading less: `where`, metadata columns and the table of blocks, through Spark."""

import datetime as dt
import json
import os
import pathlib
import random
import re

import arrow_files
import numpy as np
import pyarrow as pa
import pytest
from mistakes import READS_STREAMS
from pyspark.errors import PySparkException
from statistics_cases import write_described

from spark_arrow_ipc import aggregate, count, ipc, map_in_arrow, rewrite
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource


def read(spark, path, schema=None, **options):
    reader = spark.read.format("arrowipc").options(**options)
    return (reader if schema is None else reader.schema(schema)).load(str(path))


def rows(frame):
    """Return the rows as sorted strings, in which NaN is equal to NaN."""
    return sorted(str(tuple(row)) for row in frame.collect())


def raised(act):
    with pytest.raises(PySparkException) as caught:
        act()
    return str(caught.value)


def write_with_statistics(path, table, rows_a_batch):
    """Write a file of ours with statistics of every column."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows_a_batch)
    with ipc.open_file(sink.getvalue().to_pybytes()) as reader:
        write_described(path, reader, reader.schema)
    return str(path)


ROWS, BLOCK = 1_000, 100


def table(first=0):
    numbers = np.arange(first, first + ROWS)
    return pa.table(
        {
            "id": pa.array(numbers),
            "name": pa.array([f"n{i % 97:02}" if i % 13 else None for i in numbers]),
            "score": pa.array([float(i % 50) if i % 11 else float("nan") for i in numbers]),
            "at": pa.array(numbers * 1_000_000, pa.timestamp("us", "UTC")),
            "s": pa.array([{"x": int(i) * 2, "y": str(i)} for i in numbers]),
            "u": pa.array(numbers.astype(np.uint64) + 2**63),
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Two levels of partitions; files with statistics, one without, and a stream."""
    root = tmp_path_factory.mktemp("less") / "t"
    write_with_statistics(root / "k=1" / "d=2026-01-01" / "a.arrow", table(), BLOCK)
    write_with_statistics(root / "k=1" / "d=2026-01-02" / "a.arrow", table(ROWS), BLOCK)
    arrow_files.write(root / "k=2" / "d=2026-01-01" / "a.arrow", table(2 * ROWS), rows=BLOCK)
    arrow_files.write(
        root / "k=2" / "d=__HIVE_DEFAULT_PARTITION__" / "a.arrows", table(3 * ROWS), rows=BLOCK, stream=True
    )
    return root


WHERES = [
    "id = 123", "id BETWEEN 990 AND 1010", "name LIKE 'n1%' AND id < 500", "name IS NULL", "name IS NOT NULL AND score > 40",
    "score = 'NaN'", "NOT (score < 10)", "k = 2", "k = 1 AND d = '2026-01-02'", "d IS NULL", "d <=> DATE '2026-01-01'",
    "s.x > 7000", "s.y = '17' OR id IN (5, 6, 4000)", "u >= 9223372036854775900", "at < TIMESTAMP '1970-01-01 00:10:00Z'",
    "year(d) = 2026 AND day(d) IN (1, 3) AND id < 14", "startswith(name, 'n1') AND NOT contains(name, '7')", "upper(name) = 'N12'",
    "d = DATE '2026-01-01' AND month(d) <> 2", "score = CAST('NaN' AS DOUBLE)",
    "id > 10000", "true", "id < 5 OR k = 2 AND d IS NULL AND id >= 3995",
]  # fmt: skip


@pytest.fixture(scope="module")
def kept_by_spark(spark, lake):
    """The rows of each predicate, all from one job."""
    truths = (f"coalesce({where}, false) AS p{i}" for i, where in enumerate(WHERES))
    whole = [tuple(row) for row in read(spark, lake).selectExpr("*", *truths).collect()]
    width = len(whole[0]) - len(WHERES)
    return {where: sorted(str(row[:width]) for row in whole if row[width + i]) for i, where in enumerate(WHERES)}


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("where", WHERES)
def test_the_rows_are_those_of_sparks_own_filter(spark, lake, kept_by_spark, where):
    assert rows(read(spark, lake, where=where)) == kept_by_spark[where]


# (Options and schema, which do not have the predicate's columns.)
PROJECTIONS = {
    "columns": ({"columns": "name"}, None),
    "another field of the struct": ({"columns": "s.y, id"}, None),
    "a path's column": ({"columns": "k"}, None),
    "the user's schema": ({}, "score double, k string"),
    "the user's part of the struct": ({}, "name string, s struct<y: string>"),
}


@pytest.mark.parametrize("case", PROJECTIONS)
def test_columns_of_the_predicate_need_not_be_asked_for(spark, lake, case):
    options, schema = PROJECTIONS[case]
    where = "s.x BETWEEN 1990 AND 2010 AND d IS NOT NULL"
    found = read(spark, lake, schema, where=where, **options)
    plain = read(spark, lake, schema, **options)
    assert found.schema == plain.schema
    whole = read(spark, lake).filter(where)
    expected = whole.selectExpr(*{
        "columns": ["name"], "another field of the struct": ["named_struct('y', s.y) AS s", "id"], "a path's column": ["k"],
        "the user's schema": ["score", "cast(k AS string) AS k"], "the user's part of the struct": ["name", "named_struct('y', s.y) AS s"],
    }[case])  # fmt: skip
    assert rows(found) == rows(expected)


WRONG = {
    "no SQL": ("id = = 3", r"the option where, character 6: expected a column or a literal, found ="),
    "no such column": ("zz = 3", "zz"),
    "a function": ("length(name) = 3", "where"),
    "a function beside others": ("id = 3 AND length(name) = 3 AND k = 1", "without it where takes [id = 3 AND k = 1]"),
    "types beside others": ("id = 3 AND name = 3", "(in the condition [name = 3]; without it where takes [id = 3]"),
    "types": ("id = DATE '2020-01-01'", "where"),
    "a number that is none": ("id = 'x'", "where"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_predicate_is_an_error_before_anything_is_read(spark, lake, case):
    where, words = WRONG[case]
    message = raised(lambda: read(spark, lake, where=where).collect())
    assert words in message


def test_a_time_without_a_zone_is_understood_with_one(spark, lake):
    found = read(spark, lake, where="at < TIMESTAMP '1970-01-01 01:00:10'", timeZone="Europe/Berlin")
    assert sorted(row.id for row in found.collect()) == list(range(10))


IN_SESSION = [
    "at < TIMESTAMP '1970-01-01 01:00:10'", "at < '1970-01-01 00:50:00'", "at >= DATE '1970-01-01'", "at < TIMESTAMP_NTZ '1970-01-01 01:00:00'",
    "id < 10 OR at BETWEEN '1970-01-01 00:30:00' AND '1970-01-01 00:40:00'", "d >= TIMESTAMP '2026-01-02 00:00:00'",
    "TIMESTAMP '2026-01-02 00:00:00' = '2026-01-02 05:00:00Z' AND id < 5",
]  # fmt: skip


@pytest.mark.one_in(2, "exhaustive")
@pytest.mark.parametrize("where", IN_SESSION)
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "+00:30"])
def test_a_time_without_a_zone_is_in_the_sessions(spark, lake, where, zone):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        assert rows(read(spark, lake, where=where)) == rows(read(spark, lake).filter(where))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_a_time_without_a_zone_is_an_error_where_the_session_has_none(spark, lake):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.unset("spark.sql.session.timeZone")
    try:
        message = raised(read(spark, lake, where="at < TIMESTAMP '1970-01-01 01:00:10'").collect)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert "spark.sql.session.timeZone was not set" in message


@pytest.mark.parametrize("options", [{}, {"timeZone": "Europe/Amsterdam"}])
def test_a_time_that_python_and_java_place_differently_is_refused(spark, tmp_path, options):
    """Java has the history of Amsterdam before 1940, Python that of Brussels."""
    hours = pa.array([-(i * 3600 * 10**6) for i in range(349_000, 351_500, 5)], pa.timestamp("us", "UTC"))
    arrow_files.write(tmp_path / "a.arrow", pa.table({"at": hours}))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Amsterdam")
    try:
        for where in ("at >= TIMESTAMP '1930-01-01 00:00:00'", "at < TIMESTAMP '1850-01-01 00:00:00'"):
            message = raised(lambda where=where: read(spark, tmp_path, where=where, **options).collect())
            assert "write the literal with an offset" in message
        where = "at >= TIMESTAMP '1930-01-01 00:00:00+00:20'"
        assert rows(read(spark, tmp_path, where=where, **options)) == rows(read(spark, tmp_path).filter(where))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_blocks_that_cannot_match_are_not_read(spark, tmp_path):
    """The bodies of all other blocks are damaged: reading them would fail. A plan reads headers alone."""
    path = write_with_statistics(tmp_path / "a.arrow", table(), BLOCK)
    with ipc.open_file(path) as file:
        blocks = file.blocks
    with pathlib.Path(path).open("r+b") as file:
        for i, block in enumerate(blocks):
            if i != 4:
                file.seek(block.byte_offset + block.metadata_nbytes)
                file.write(b"\xff" * block.body_nbytes)
    assert [row.id for row in read(spark, path, where="id BETWEEN 420 AND 423").collect()] == [420, 421, 422, 423]
    raised(read(spark, path, where="id = 399").collect)


def test_partitions_that_cannot_match_are_not_opened(spark, tmp_path):
    arrow_files.write(tmp_path / "k=1" / "a.arrow", pa.table({"n": [1]}))
    frame = read(spark, tmp_path, "n long, k int", where="k = 1")
    (tmp_path / "k=2").mkdir()
    (tmp_path / "k=2" / "b.arrow").write_bytes(b"no arrow at all")
    assert rows(read(spark, tmp_path, "n long, k int", where="k = 1")) == ["(1, 1)"]
    assert rows(frame) == ["(1, 1)"]


def test_where_with_merged_schemas(spark, tmp_path):
    arrow_files.write(tmp_path / "1.arrow", pa.table({"a": pa.array([1, 2], pa.int32())}))
    arrow_files.write(tmp_path / "2.arrow", pa.table({"b": ["x", "y"], "a": pa.array([1 << 40, 2])}))
    for where in ("b IS NULL", "b = 'x' OR a = 2", "a > 100"):
        found, plain = (read(spark, tmp_path, mergeSchema="true", **o) for o in ({"where": where}, {}))
        assert rows(found) == rows(plain.filter(where))
        only = read(spark, tmp_path, mergeSchema="true", columns="a", where=where)
        assert rows(only) == rows(plain.filter(where).select("a"))


def test_where_in_a_view(spark, lake):
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW less USING arrowipc OPTIONS (path '{lake}', `where` 'id < 7 AND k = 1')"
    )
    assert spark.table("less").count() == 7
    spark.sql("DROP VIEW less")


def test_rows_know_where_they_are_from(spark, lake):
    frame = read(spark, lake, metadataColumns="true", maxPartitionBytes="5k", openCostInBytes="1")
    assert frame.columns[-5:] == ["_file_path", "_file_size", "_file_modification_time", "_block", "_row_index"]
    assert frame.rdd.getNumPartitions() > 8
    found = frame.selectExpr("id % 1000 = _row_index", "_block = floor(_row_index / 100)").distinct().collect()
    assert [tuple(row) for row in found] == [(True, True)]
    for row in frame.select("_file_path", "_file_size", "_file_modification_time").distinct().collect():
        state = pathlib.Path(row[0]).stat()
        assert (state.st_size, state.st_mtime_ns // 1000) == (
            row[1], round(row[2].astimezone(dt.UTC).timestamp() * 1_000_000),
        )  # fmt: skip


def test_metadata_columns_with_everything_else(spark, lake):
    frame = read(spark, lake, metadataColumns="true", columns="name", where="id IN (15, 2015)")
    found = sorted((row["_row_index"], row["_block"], pathlib.Path(row["_file_path"]).name) for row in frame.collect())
    assert found == [(15, 0, "a.arrow"), (15, 0, "a.arrow")]
    asked = read(spark, lake, "_row_index long, id long, k int", metadataColumns="true", where="name IS NULL AND k = 2")
    assert asked.columns == ["_row_index", "id", "k"]
    assert {(row.id - row["_row_index"], row.k) for row in asked.collect()} == {(2 * ROWS, 2), (3 * ROWS, 2)}


@pytest.fixture(scope="module")
def origins(tmp_path_factory):
    """Files of three sizes and times: with statistics, without, a stream of small batches, and one without rows."""
    root = tmp_path_factory.mktemp("origins")
    write_with_statistics(root / "k=1" / "a.arrow", table(), BLOCK)
    arrow_files.write(root / "k=1" / "b.arrow", table(ROWS).slice(0, 250), rows=7)
    arrow_files.write(root / "k=2" / "c.arrows", table(2 * ROWS).slice(0, 120), rows=50, stream=True)
    arrow_files.write(root / "k=2" / "empty.arrow", table().slice(0, 0))
    for i, path in enumerate(sorted(root.rglob("*.arrow*"))):
        os.utime(path, ns=(0, HOUR_NS * i + 1_999))
    return root


HOUR_NS = 3_600_000_000_000
ORIGINS = {"metadataColumns": "true"}
SMALL_SPLITS = {"maxPartitionBytes": "5k", "openCostInBytes": "1"}


def origin_predicates(root, count):
    """Random predicates on the metadata columns, among them with other columns; zones and microseconds matter."""
    rng = random.Random(11)
    paths = [str(path) for path in root.rglob("*.arrow*")]
    times = [f"TIMESTAMP '1970-01-01 0{rng.randrange(4)}:00:00{point}{zone}'" for point in ("", ".000001", ".000002") for zone in ("", "Z", "+01:00")]  # fmt: skip
    leaves = [
        lambda: f"_row_index {rng.choice(['<', '>=', '=', '<>'])} {rng.choice([0, 6, 7, 99, 100, 249, 998, 5000])}",
        lambda: f"_block {rng.choice(['<', '>', '=', '<=>'])} {rng.choice([0, 1, 3, 9, 35, 'NULL'])}",
        lambda: f"_block {rng.choice(['', 'NOT '])}IN (0, 2, {rng.randrange(12)})",
        lambda: f"_file_path {rng.choice(['=', '<>', '<'])} '{rng.choice(paths)}'",
        lambda: rng.choice(["_file_path LIKE '%.arrows'", "_file_path LIKE '%/k=1/%'", "endswith(_file_path, 'a.arrow')"]),
        lambda: f"_file_size {rng.choice(['<', '>', '='])} {(root / 'k=1' / 'b.arrow').stat().st_size}",
        lambda: f"_file_modification_time {rng.choice(['<', '>=', '='])} {rng.choice(times)}",
        lambda: rng.choice(["_row_index = id", "_row_index < s.x", "_block IS NULL", "_FILE_SIZE IS NOT NULL", "_block >= k"]),
        lambda: rng.choice(["k = 1", "id < 1100", "name IS NULL"]),
    ]  # fmt: skip

    def predicate(depth):
        if depth == 0:
            return rng.choice(["", "", "NOT "]) + rng.choice(leaves)()
        return f"({predicate(depth - 1)} {rng.choice(['AND', 'OR'])} {predicate(depth - 1)})"

    return [predicate(rng.randrange(4)) for _ in range(count)]


def ids_in_this_process(path, schema, **options):
    """Return the ids that the reader of tasks gives, without a query of Spark's for each predicate."""
    reader = ArrowIpcDataSource({"path": str(path), **options}).reader(schema)
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return sorted(row for batch in batches for row in batch.column(batch.schema.get_field_index("id")).to_pylist())


@pytest.mark.exhaustive
def test_random_predicates_on_the_origin_of_rows_keep_the_rows_that_spark_keeps(spark, origins):
    """One job evaluates all predicates in Spark."""
    wheres = origin_predicates(origins, 80)
    plain = read(spark, origins, **ORIGINS)
    truths = plain.selectExpr("id", *(f"coalesce({where}, false) AS p{i}" for i, where in enumerate(wheres))).toArrow()
    sizes = set()
    zone = spark.conf.get("spark.sql.session.timeZone")
    for i, where in enumerate(wheres):
        expected = sorted(truths.filter(truths.column(f"p{i}")).column("id").to_pylist())
        sizes.add(len(expected))
        for splits in ({}, SMALL_SPLITS) if i % 4 == 0 else ({},):
            found = ids_in_this_process(origins, plain.schema, where=where, timeZone=zone, **ORIGINS, **splits)
            assert expected == found, where
    assert len(sizes) > 20


def streamed(spark, path, where, name):
    """Return the rows of a stream of what is there."""
    source = spark.readStream.format("arrowipc").options(where=where, **ORIGINS).load(str(path))
    query = source.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    return spark.table(name)


def rewritten(spark, path, where, target):
    rewrite(spark, str(path), str(target), where=where, metadataColumns=True)
    return read(spark, target)


@pytest.mark.one_in(2, "exhaustive")
@pytest.mark.parametrize(
    "where", ["_row_index BETWEEN 95 AND 110 AND _file_path LIKE '%a.arrow'", "_block = 2 OR _file_size < 2000"]
)
def test_predicates_on_the_origin_of_rows_in_every_kind_of_read(spark, origins, tmp_path, where):
    """Columns of the origin that only the predicate needs are made for it alone."""
    plain = read(spark, origins, **ORIGINS).filter(where)
    expected = rows(plain)
    assert 10 < len(expected) < 300
    assert expected == rows(read(spark, origins, where=where, **ORIGINS))
    if READS_STREAMS:
        assert expected == rows(streamed(spark, origins, where, f"origins_{len(expected)}"))
    assert expected == rows(
        map_in_arrow(spark, str(origins), lambda batches: batches, plain.schema, where=where, metadataColumns=True)
    )
    assert expected == rows(rewritten(spark, origins, where, tmp_path / "t").select(plain.columns))
    assert len(expected) == count(spark, str(origins), where, metadataColumns=True)
    by_name = aggregate(
        spark,
        str(origins),
        aggregates={"n": "count(*)", "m": "max(id)"},
        group_by=["name"],
        where=where,
        metadataColumns=True,
    )
    assert rows(plain.groupBy("name").agg({"*": "count", "id": "max"})) == rows(by_name)
    narrow = read(spark, origins, "score double, _BLOCK int", where=where, **ORIGINS)
    assert rows(plain.select("score", "_block")) == rows(narrow)
    assert rows(plain.select("u")) == rows(read(spark, origins, "u decimal(20,0)", where=where, **ORIGINS))


def test_files_and_record_batches_that_are_none_of_the_named_ones_are_not_read(spark, tmp_path):
    """A file that is no Arrow file, and damaged bodies: reading them would fail."""
    path = pathlib.Path(arrow_files.write(tmp_path / "a.arrow", table(), rows=BLOCK))
    with ipc.open_file(path) as file:
        blocks = file.blocks
    with path.open("r+b") as file:
        for i, block in enumerate(blocks):
            if i != 4:
                file.seek(block.byte_offset + block.metadata_nbytes)
                file.write(b"\xff" * block.body_nbytes)
    size = path.stat().st_size
    (tmp_path / "b.arrow").write_bytes(b"no arrow at all")
    for where in ("_block = 4", "_row_index BETWEEN 420 AND 423"):
        found = read(
            spark, tmp_path, "id long, name string", where=f"{where} AND _file_path LIKE '%a.arrow'", **ORIGINS
        )
        assert set(range(420, 424)) <= {row.id for row in found.collect()} <= set(range(400, 500))
        assert (
            0
            < read(spark, tmp_path, "id long, name string", where=f"{where} AND _file_size = {size}", **ORIGINS).count()
        )
    assert "no arrow at all" in raised(
        read(spark, tmp_path, "id long, name string", where="_block = 4", **ORIGINS).collect
    )
    raised(read(spark, path, "id long, name string", where="_block = 3", **ORIGINS).collect)


def test_without_its_option_a_column_of_the_origin_is_an_error_that_names_it(spark, lake):
    message = raised(lambda: read(spark, lake, where="_row_index < 5"))
    assert "the option where: there is no column '_row_index'" in message
    assert "reads in Spark have the columns of a row's origin with metadataColumns=true" in message


def test_a_clash_of_names_is_an_error(spark, tmp_path):
    arrow_files.write(tmp_path / "a.arrow", pa.table({"_Block": [1]}))
    assert "_Block" in raised(lambda: read(spark, tmp_path, metadataColumns="true"))
    assert read(spark, tmp_path).columns == ["_Block"]


def test_the_table_of_blocks(spark, lake):
    frame = read(spark, lake, metadataOnly="true")
    assert frame.selectExpr("sum(rows)", "count(*)").first()[:] == (4 * ROWS, 4 * ROWS // BLOCK)
    assert {row.format for row in frame.collect()} == {"file", "stream"}
    first = frame.filter("path LIKE '%k=1/d=2026-01-01%' AND block = 3").first()
    assert first.statistics["id"][:] == (0, "300", "399")
    assert first.compression == "none"
    assert frame.filter("statistics IS NULL").count() == 2 * ROWS // BLOCK
    for row in frame.collect():
        with ipc.open(row.path) as reader:
            if row.format == "file":
                block = reader.blocks[row.block]
                assert (block.byte_offset, block.metadata_nbytes, block.body_nbytes) == row[3:6]
    chosen = read(spark, lake, "rows long, path string", metadataOnly="true")
    assert chosen.columns == ["rows", "path"]
    assert chosen.agg({"rows": "sum"}).first()[0] == 4 * ROWS


def test_the_table_of_blocks_reads_no_body(spark, tmp_path):
    path = arrow_files.write(tmp_path / "a.arrow", table(), rows=BLOCK)
    with ipc.open_file(path) as file:
        blocks = file.blocks
    with pathlib.Path(path).open("r+b") as file:
        for block in blocks:
            file.seek(block.byte_offset + block.metadata_nbytes)
            file.write(b"\xff" * block.body_nbytes)
    assert read(spark, tmp_path, metadataOnly="true").agg({"rows": "sum"}).first()[0] == ROWS


@pytest.mark.parametrize("number", [10, pytest.param(25, marks=pytest.mark.nightly)])
def test_random_predicates_on_a_partitioned_lake(spark, lake, number):
    """One job evaluates all predicates in Spark; each of ours is a read of its own."""
    rng = random.Random(7)
    leaves = [
        lambda: f"id {rng.choice(['<', '>=', '=', '<>'])} {rng.randrange(-10, 4100)}",
        lambda: f"k {rng.choice(['=', '<>', '<=>'])} {rng.choice([1, 2, 'NULL'])}",
        lambda: f"d {rng.choice(['=', '<', '>='])} '2026-01-0{rng.randrange(1, 4)}'",
        lambda: f"name LIKE 'n{rng.randrange(10)}%'",
        lambda: f"score > {rng.randrange(60)}",
        lambda: f"s.x {rng.choice(['<', '>'])} {rng.randrange(8100)}",
        lambda: rng.choice(["name IS NULL", "d IS NULL", "NOT score <= 3"]),
    ]

    def predicate(depth):
        if depth == 0:
            return rng.choice(leaves)()
        return f"({predicate(depth - 1)} {rng.choice(['AND', 'OR'])} {predicate(depth - 1)})"

    wheres = [predicate(rng.randrange(3)) for _ in range(number)]
    plain = read(spark, lake)
    counts = plain.selectExpr(*(f"count_if({w}) AS c{i}" for i, w in enumerate(wheres)), *(f"sum(if({w}, id, 0)) AS s{i}" for i, w in enumerate(wheres))).first()  # fmt: skip
    expected = {w: (counts[f"c{i}"], counts[f"s{i}"]) for i, w in enumerate(wheres)}
    found = {w: read(spark, lake, where=w).selectExpr("count(*)", "coalesce(sum(id), 0)").first()[:] for w in wheres}
    assert json.dumps(expected) == json.dumps(found)


def test_other_columns_are_read_beside_an_int128_of_polars(spark, tmp_path):
    pl = pytest.importorskip("polars")
    path = tmp_path / "a.arrow"
    big = pl.Series([2**100, None], dtype=pl.Int128)
    pl.DataFrame({"id": [1, 2], "big": big, "st": pl.DataFrame({"x": [3, 4], "y": big}).to_struct()}).write_ipc(path)
    expected = [((3,), 1), ((4,), 2)]
    assert expected == read(spark, path, "st struct<x: bigint>, id bigint").collect()
    assert expected == read(spark, path, columns="st.x,id").collect()
    assert [(2,)] == read(spark, tmp_path, columns="id", where="id > 1", mergeSchema=True).collect()
    assert 2 == count(spark, str(path))
    asks = [
        {},
        {"columns": "id,big"},
        {"columns": "st"},
        {"columns": "id", "where": "big = 1"},
        {"schema": "big string"},
    ]
    for options in asks:
        error = raised(lambda given=options: read(spark, path, **given).collect())
        assert re.search(r"field (big|st\.y): int128 is a type of polars that Arrow lacks: .*cast\(", error), options
