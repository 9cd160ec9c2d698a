"""Data of other libraries through Spark and the command line and back: the record sources.md, whose losses docs/howto/from_other_tools.md has.

Each source is read in Spark, counted and rewritten by the command line, written back with its types, and opened by the
library that made it, or by pyarrow where that library is not installed here (R, Julia, Go, Rust).
"""

import os
import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from spark_arrow_ipc.cli.main import main

pytestmark = pytest.mark.nightly

RECORD = Path(__file__).with_name("sources.md")
PAGE = Path(__file__).parents[2] / "docs/howto/from_other_tools.md"
CORPUS = Path(os.environ.get("ARROW_IPC_CORPUS", "missing"))


def table_of(path):
    """Return the rows of a file, or of all files of a directory in their order."""
    return pa.concat_tables(map(_table, files_of(path)))


def files_of(path):
    found = sorted(each for kind in ("arrow", "arrows", "ipc") for each in Path(path).rglob(f"*.{kind}"))
    return found if Path(path).is_dir() else [path]


def _table(path):
    with pa.memory_map(str(path)) as source:
        try:
            return pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).read_all()


def written(path, table):
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    return path


@dataclass(frozen=True)
class Source:
    """A source: a row of the table.

    `make` writes it below a directory, `opened` is what its library makes of it, a value that `same` compares.
    """

    make: Callable[[Path], Path]
    opened: Callable[[Path], Any]
    by: str
    same: Callable[[Any, Any], Any]
    reading: Mapping[str, str] = field(default_factory=dict)
    writing: Mapping[str, str] = field(default_factory=lambda: {"restoreTypes": "true"})
    not_kept: str = ""


def equal(one, other):
    assert one == other


def same_frames(one, other):
    pd.testing.assert_frame_equal(one, other)


# --- pandas and GeoPandas

FRAME = pd.DataFrame({"n": [3, 1, None], "s": ["c", None, "b"], "flag": [True, False, True]})
INDEXED = FRAME.set_index(pd.MultiIndex.from_tuples([("x", 1), ("y", 2), ("z", 3)], names=["key", "part"]))
CATEGORIES = pd.DataFrame({"c": pd.Categorical(["x", None, "y"], categories=["y", "x", "z"])})
ZONED = pd.DataFrame(
    {
        "at": pd.to_datetime(["2026-01-01", "2026-07-01 12:00:00.000001", None], format="ISO8601")
        .as_unit("us")
        .tz_localize("Europe/Paris")
    }
)
PERIODS = pd.DataFrame({"month": pd.period_range("2026-01", periods=3, freq="M")})
NULLABLE = pd.DataFrame(
    {
        "i": pd.array([1, None, 3], "Int64"),
        "b": pd.array([True, None, False], "boolean"),
        "s": pd.array(["a", None, "c"], "string"),
    }
)


def same_values(one, other):
    same_frames(one.astype(object), other.astype(object))
    assert ["category"] == [str(type_) for type_ in other.dtypes]


def of_pandas(frame, same=same_frames, **given):
    def make(directory):
        return written(directory / "a.arrow", pa.Table.from_pandas(frame))

    return Source(make, lambda path: table_of(path).to_pandas(), "pandas", same, **given)


def geopandas(directory):
    gpd = pytest.importorskip("geopandas", reason="it is of the extra 'test-ecosystem'")
    points = gpd.points_from_xy([652_000, 0], [6_862_000, 0])
    gpd.GeoDataFrame({"name": ["Paris", None]}, geometry=points, crs="EPSG:2154").to_feather(directory / "a.arrow")
    return directory / "a.arrow"


def by_geopandas(path):
    gpd = pytest.importorskip("geopandas")
    (file,) = files_of(path)
    return gpd.read_feather(file)


def same_places(one, other):
    pytest.importorskip("geopandas.testing").assert_geodataframe_equal(one, other)
    assert 2154 == other.crs.to_epsg()


# --- polars and DuckDB


def polars_frame():
    pl = pytest.importorskip("polars")
    types = {"c": pl.Categorical, "u": pl.UInt64, "f": pl.Array(pl.Float32, 2)}
    rows = {"c": ["p", "q", "p"], "u": [2**64 - 1, 0, None], "f": [[1, 2], None, [3, 4]]}
    return pl.DataFrame({**rows, "s": ["long enough for a view", "", None], "day": [1, 1, 2]}, schema_overrides=types)


def polars_file(directory):
    polars_frame().drop("day").write_ipc(directory / "a.arrow")
    return directory / "a.arrow"


def polars_enum(directory):
    pl = pytest.importorskip("polars")
    pl.DataFrame({"e": ["high", None, "low"]}, schema={"e": pl.Enum(["low", "high"])}).write_ipc(directory / "a.arrow")
    return directory / "a.arrow"


def polars_lake(directory):
    pl = pytest.importorskip("polars")
    polars_frame().select("u", "s", "day").lazy().sink_ipc(pl.PartitionBy(directory / "lake", key="day"), mkdir=True)
    return directory / "lake"


def by_polars(path):
    pl = pytest.importorskip("polars")
    return pl.scan_ipc(files_of(path), hive_partitioning=Path(path).is_dir()).collect()


def same_polars(one, other):
    testing = pytest.importorskip("polars.testing")
    testing.assert_frame_equal(one, other, check_row_order=False, check_column_order=False, categorical_as_str=True)


def same_texts(one, other):
    pl = pytest.importorskip("polars")
    assert one.select(pl.all().cast(pl.String)).equals(other.select(pl.all().cast(pl.String)))


def duckdb_file(directory):
    duckdb = pytest.importorskip("duckdb")
    query = (
        "SELECT range AS n, range::UTINYINT AS u, 'r' || range AS s, (range / 3)::DECIMAL(9, 2) AS d, [range, NULL] AS l, "
        "{'a': range, 'b': NULL::INT} AS t, MAP {'k': range} AS m, TIMESTAMPTZ '2026-01-01 00:00:00+00' + to_days(range::INT) "
        "AS at, DATE '2026-01-01' AS day, ('x' || range)::ENUM ('x0', 'x1', 'x2') AS e FROM range(3)"
    )
    return written(directory / "a.arrow", duckdb.sql(query).to_arrow_table())


def by_duckdb(path):
    duckdb = pytest.importorskip("duckdb")
    found = table_of(path)  # noqa: F841 - DuckDB finds it by its name
    return duckdb.sql("SELECT * FROM found ORDER BY n").fetchall()


# --- HuggingFace


def hugging_face(make):
    def saved(directory):
        hf = pytest.importorskip("datasets", reason="it is of the extra 'test-ecosystem'")
        made = runpy.run_path(str(Path(__file__).with_name("test_datasets.py")))["made"]
        make(hf, made).save_to_disk(directory / "saved")
        return directory / "saved"

    return saved


def by_datasets(path):
    hf = pytest.importorskip("datasets")
    opened = hf.load_from_disk(str(path))
    return opened.features, opened.with_format("arrow")[:].to_pylist()


def by_splits(path):
    hf = pytest.importorskip("datasets")
    opened = hf.load_from_disk(str(path))
    if isinstance(opened, hf.DatasetDict):
        return sorted((row["n"], split) for split, rows in opened.items() for row in rows)
    return sorted((row["n"], row["split"]) for row in opened)


HF = {"layout": "huggingface"}


# --- files of others


def of_corpus(pattern, writer, **given):
    def make(directory):
        found = sorted(CORPUS.glob(f"others/{pattern}"))
        if not found:
            pytest.skip("the corpus is not there: ARROW_IPC_CORPUS")
        target = directory / "a.arrow"
        target.write_bytes(found[0].read_bytes())
        return target

    return Source(make, lambda path: table_of(path).to_pylist(), f"pyarrow ({writer} not tried)", equal, **given)


def rust(directory):
    return written_bytes(directory, Path(__file__).parents[1] / "extension_data/arrow_rs.arrow")


def written_bytes(directory, source):
    (directory / "a.arrow").write_bytes(source.read_bytes())
    return directory / "a.arrow"


LONG = {"nanoseconds": "long"}
SOURCES = {
    "HuggingFace: a Dataset of 17 kinds of features": Source(hugging_face(lambda _hf, made: made()), by_datasets, "datasets", equal, writing=HF),
    "HuggingFace: a DatasetDict": Source(hugging_face(lambda hf, _: hf.DatasetDict({"train": hf.Dataset.from_dict({"n": [1, 2]}), "test": hf.Dataset.from_dict({"n": [3]})})), by_splits, "datasets", equal, writing=HF, not_kept="splits are the column `split` of one Dataset"),
    "HuggingFace: selected rows (`select`)": Source(hugging_face(lambda hf, _: hf.Dataset.from_dict({"n": range(9)}).select([7, 2])), by_datasets, "datasets", equal, writing=HF),
    "pandas: an index of a range": of_pandas(FRAME),
    "pandas: an index of two columns": of_pandas(INDEXED),
    "pandas: categories": of_pandas(CATEGORIES, same_values, not_kept="without a category that does not occur, and their order"),
    "pandas: a time zone": of_pandas(ZONED),
    "pandas: periods": of_pandas(PERIODS),
    "pandas: nullable types": of_pandas(NULLABLE),
    "GeoPandas: `to_feather`, EPSG:2154": Source(geopandas, by_geopandas, "geopandas", same_places, not_kept="without bounds and kinds of geometries"),
    "polars: Categorical, UInt64, Array, views": Source(polars_file, by_polars, "polars", same_polars),
    "polars: Enum": Source(polars_enum, by_polars, "polars", same_texts, writing={}, not_kept="an Enum comes back as String"),
    "polars: a partitioned directory": Source(polars_lake, by_polars, "polars", same_polars, writing={"restoreTypes": "true", "partitionBy": "day"}),
    "DuckDB: ENUM, MAP, STRUCT, UTINYINT": Source(duckdb_file, by_duckdb, "duckdb", equal),
    "R: a Feather file of arrow 2.0": of_corpus("apache+arrow/*/r/tests/testthat/golden-files/data-arrow_2.0.0_lz4.feather", "R"),
    "R: `sf`, arrow 7.0": of_corpus("apache+arrow/*/r/tests/testthat/golden-files/data-arrow-sf_7.0.0.feather", "R"),
    "Julia: run ends": of_corpus("apache+arrow-julia/*/test/test_ree_data.arrow", "Julia"),
    "Go: a frame of Grafana": of_corpus("grafana+grafana-plugin-sdk-go/*/backend/testdata/querydata_scenarios/FullMetadata_1Frame*.arrow", "Go", reading=LONG),
    "Rust: arrow-rs, timestamps with an offset": Source(rust, lambda path: table_of(path).to_pylist(), "pyarrow (Rust not tried)", equal, reading={**LONG, "timestampsWithOffset": "struct"}),
}  # fmt: skip


def plain(type_):
    """Return a type without what restoring leaves out: whether parts may be null."""
    return str(type_).replace(" not null", "")


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_goes_there_and_back(spark, tmp_path, capsys, name):
    source = SOURCES[name]
    path = source.make(tmp_path)
    expected = source.opened(path)
    rows = table_of(path).num_rows

    frame = spark.read.format("arrowipc").options(**source.reading).load(str(path))
    assert rows == frame.count()

    assert 0 == main(["count", str(path)])
    assert str(rows) == capsys.readouterr().out.split()[-2 if path.is_dir() else 0].replace(",", "")
    if path.is_file():
        assert 0 == main(["rewrite", str(path), str(tmp_path / "cli.arrow")])
        source.same(expected, source.opened(tmp_path / "cli.arrow"))

    frame.coalesce(1).write.format("arrowipc").options(**source.writing).mode("overwrite").save(str(tmp_path / "back"))
    source.same(expected, source.opened(tmp_path / "back"))
    if not source.not_kept and "partitionBy" not in source.writing:
        before, after = table_of(path).schema, table_of(tmp_path / "back").schema
        assert [(f.name, plain(f.type), f.metadata) for f in before] == [
            (f.name, plain(f.type), f.metadata) for f in after
        ]
        # `datasets` has compared its features, which are left out where the types say them.
        assert {*(before.metadata or {})} - {*(after.metadata or {}), b"huggingface"} == set()
    line = f"| {name} | yes | yes | yes | {source.by} | {source.not_kept or 'equal'} |"
    print(line)
    assert line in RECORD.read_text().splitlines()


def test_the_record_has_no_other_sources():
    names = [line.split(" | ")[0].removeprefix("| ") for line in RECORD.read_text().splitlines() if " | yes | " in line]
    assert list(SOURCES) == names


def test_the_page_says_what_is_not_kept():
    assert [] == [source.not_kept for source in SOURCES.values() if source.not_kept not in PAGE.read_text()]
