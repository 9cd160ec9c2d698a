"""Partitions that polars and pyarrow wrote, and those named by this package as polars and pyarrow read them."""

import pytest

from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.partition_values import partition_directory
from spark_arrow_ipc.dataset.listing.tree import list_tree

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")

WORDS = ["é", "a b", "100%", "日本", "a=b", "%C3%A9", "ÿ", None, "a+b", "😀", "é%", "Ã©", "a/b:c", "x#y?z", "ß[1]"]
"""Values of the partition column; the number of each is in its file."""

HIVE = ds.partitioning(pa.schema([("clé", pa.string())]), flavor="hive")


def by_polars(root, table):
    pl.DataFrame(table).lazy().sink_ipc(pl.PartitionBy(root, key="clé", include_key=False), mkdir=True)


def by_pyarrow(root, table):
    ds.write_dataset(table, root, format="ipc", partitioning=HIVE)


def by_us(root, table):
    for word, n in zip(*table.to_pydict().values(), strict=True):
        directory = root / partition_directory(["clé"], [word])
        directory.mkdir(parents=True)
        with pa.OSFile(str(directory / "0.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema.remove(0)) as sink:
            sink.write_table(pa.table({"n": [n]}))


def read_by_us(root):
    partitioning = discover(list_tree([str(root)]))
    assert ["clé"] == [field.name for field in partitioning.fields]
    return {pa.ipc.open_file(file.path).read_all()["n"][0].as_py(): file.partition[0] for file in partitioning.files}


def read_by_polars(root):
    return dict(pl.scan_ipc(f"{root}/**/*", hive_partitioning=True).select("n", "clé").collect().iter_rows())


def read_by_pyarrow(root):
    return {row["n"]: row["clé"] for row in ds.dataset(root, format="ipc", partitioning=HIVE).to_table().to_pylist()}


@pytest.mark.parametrize(
    ("write", "read"),
    [(by_polars, read_by_us), (by_pyarrow, read_by_us), (by_us, read_by_us), (by_us, read_by_polars), (by_us, read_by_pyarrow)],
)  # fmt: skip
def test_words_come_back(tmp_path, write, read):
    """Each writer escapes in its own way, and a value is the same for every reader."""
    root = tmp_path / "lake"
    write(root, pa.table({"clé": pa.array(WORDS, pa.string()), "n": list(range(len(WORDS)))}))
    assert dict(enumerate(WORDS)) == read(root)
