"""Merged schemas and rows against what Spark's own Parquet source makes of the same tables, over generated trees."""

import random

import arrow_files
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

TYPES = {
    "int": pa.int32(), "long": pa.int64(), "double": pa.float64(), "text": pa.string(), "day": pa.date32(),
    "flag": pa.bool_(), "money": pa.decimal128(12, 2), "at": pa.timestamp("us", "UTC"), "octets": pa.binary(),
}  # fmt: skip
VALUES = {
    "int": [1, None], "long": [1 << 40, -1], "double": [0.5, None], "text": ["x", "größe"], "day": [None, 18_000],
    "flag": [True, None], "money": [None, 7], "at": [0, None], "octets": [b"\0", None],
}  # fmt: skip


TREES = 50
CONFLICTS = 8
"""Of the trees: one column has two kinds there."""
SEEDS = [pytest.param(seed, marks=pytest.mark.exhaustive if seed % 3 else ()) for seed in range(TREES)]


def column(kind, depth, rng):
    """Return a type and two values of a kind, sometimes inside a struct, an array or a map."""
    type_, values = TYPES[kind], pa.array(VALUES[kind], TYPES[kind]).to_pylist()
    if depth and rng.random() < 0.5:
        name = rng.choice("xyz")
        shape = rng.choice(("struct", "list", "map"))
        if shape == "struct":
            more = rng.choice("uvw")
            return pa.struct([(name, type_), (more, pa.int32())]), [{name: v, more: 3} for v in values]
        if shape == "list":
            return pa.list_(pa.struct([(name, type_)])), [[{name: v}] for v in values]
        return pa.map_(pa.string(), type_), [[("k", v)] for v in values]
    return type_, values


def tree(seed):
    """Return the tables of a tree, and whether they conflict."""
    rng = random.Random(seed)
    kinds = {f"c{i}": rng.choice(list(TYPES)) for i in range(6)}
    shapes = {name: rng.randrange(1 << 30) for name in kinds}
    conflicts = seed < CONFLICTS
    tables = []
    for number in range(rng.randrange(2, 5)):
        names = rng.sample(sorted(kinds), rng.randrange(2, 6))
        if conflicts and "c0" not in names:
            names.append("c0")
        made = {}
        for name in names:
            kind = kinds[name]
            if conflicts and name == "c0":
                kind = ("text", "double")[number % 2]
                made[name] = (TYPES[kind], pa.array(VALUES[kind], TYPES[kind]).to_pylist())
                continue
            # The shape of a column is that of its name; what a struct has beside may differ by file.
            own = random.Random(shapes[name])
            type_, values = column(kind, 1, own)
            if pa.types.is_struct(type_) and rng.random() < 0.5:
                first = type_.field(0)
                type_, values = pa.struct([first]), [{first.name: v[first.name]} for v in values]
            made[name] = (type_, values)
        tables.append(pa.table([pa.array(values, type_) for type_, values in made.values()], names=list(made)))
    return tables, conflicts


def plain(type_):
    """Return a Spark type as a string, without details that only Parquet adds."""
    return type_.simpleString()


@pytest.mark.one_in(2, "exhaustive")
@pytest.mark.parametrize("seed", SEEDS)
def test_merged_like_parquet(spark, tmp_path, seed):
    tables, conflicts = tree(seed)
    for number, table in enumerate(tables):
        folder = tmp_path / "parquet" / f"p={number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / f"{number}.parquet")
        arrow_files.write(tmp_path / "arrow" / f"p={number % 2}" / f"{number}.arrow", table)
    parquet = spark.read.option("mergeSchema", "true")
    ours = spark.read.format("arrowipc").option("mergeSchema", "true")
    if conflicts:
        with pytest.raises(Py4JJavaError, match=r"CANNOT_MERGE|ailed to merge"):
            parquet.parquet(str(tmp_path / "parquet")).schema  # noqa: B018 - inferred when it is asked for
        with pytest.raises(PySparkException, match="SchemaMismatchError"):
            ours.load(str(tmp_path / "arrow"))
        return
    expected, found = parquet.parquet(str(tmp_path / "parquet")), ours.load(str(tmp_path / "arrow"))
    assert [(f.name, plain(f.dataType)) for f in expected.schema] == [(f.name, plain(f.dataType)) for f in found.schema]
    assert sorted(map(str, expected.collect())) == sorted(map(str, found.collect()))
