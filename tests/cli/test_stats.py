"""``arrowipc inspect --stats`` is what pyarrow computes, from footers and from values."""

import io

import pytest
from cli_lake import ROWS, rows, table, write_lake

from spark_arrow_ipc import ipc
from spark_arrow_ipc.cli import stats as module
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.dataset.statistics import Statistics
from spark_arrow_ipc.dataset.statistics.collect import StatisticsCollector

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return write_lake(tmp_path_factory.mktemp("lake"))


def stats(capsys, *arguments):
    return {".".join(column["column"]): column for column in rows(capsys, "inspect", "--stats", *arguments)}


def write_with_statistics(path, rows):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=30)
    with (
        ipc.open(sink.getvalue()) as reader,
        ipc.create(path, reader.schema, ipc.WriteOptions(checksums=True)) as writer,
    ):
        collector = StatisticsCollector(reader.schema, Statistics.ALL)
        for batch in reader:
            writer.write(batch)
            collector.add(batch)
        writer.custom_metadata.update([collector.pair(fingerprint=writer.fingerprint)])


def test_stats_are_pyarrows(capsys, lake):
    found = stats(capsys, lake)
    whole = pa.concat_tables([table(1), table(2)]).unify_dictionaries()
    assert ["a", "name", "nested.x", "k"] == list(found)
    names = whole["name"].cast(pa.string())
    for path, column in [("a", whole["a"]), ("name", names), ("nested.x", pc.struct_field(whole["nested"], ["x"]))]:
        ends = pc.min_max(column)
        expected = (column.null_count, str(ends["min"]), str(ends["max"]), pc.count_distinct(column).as_py(), 200)
        own = found[path]
        assert expected == (own["nulls"], own["min"], own["max"], own["distinct"], own["rows"]), path
    assert ("1", "2", 2, 0) == tuple(found["k"][key] for key in ("min", "max", "distinct", "nulls"))
    assert 8 * 2 * ROWS == found["a"]["nbytes"]


def test_stats_of_chosen_rows_are_of_those(capsys, lake):
    found = stats(capsys, "--where", "a BETWEEN 1050 AND 1059", "--columns", "a,name", lake)
    assert (10, "1050", "1059", 10) == tuple(found["a"][key] for key in ("rows", "min", "max", "distinct"))
    assert 1 == found["name"]["nulls"]


def test_stats_come_from_the_footer_without_a_body(capsys, tmp_path, monkeypatch):
    path = str(tmp_path / "x.arrow")
    write_with_statistics(path, table(1))
    scanned = stats(capsys, "--scan", path)
    monkeypatch.setattr(module, "leaf_array", None)
    monkeypatch.setattr(ipc.FileReader, "read_batch", None)
    stored = stats(capsys, path)
    for key in ("rows", "nulls", "min", "max", "nbytes"):
        assert {c: scanned[c][key] for c in stored} == {c: stored[c][key] for c in stored}
    assert {None} == {column["distinct"] for column in stored.values()}
    assert 7 == scanned["name"]["distinct"]


def test_partition_columns_are_the_same_from_the_footer_and_from_values(capsys, tmp_path):
    """A text and a null, in files with statistics: null counts are those of all rows."""
    for k in ("x", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"k={k}").mkdir()
        write_with_statistics(tmp_path / f"k={k}" / "a.arrow", table(1))
    scanned, stored = (stats(capsys, *options, str(tmp_path))["k"] for options in (["--scan"], []))
    assert scanned == stored
    assert ("x", "x", ROWS, 2 * ROWS, 1) == tuple(stored[key] for key in ("min", "max", "nulls", "rows", "distinct"))


OF_STATS = [("--scan",), ("--columns", "a"), ("--where", "a > 1"), ("--arrow", "out.arrow")]


@pytest.mark.parametrize("options", OF_STATS, ids=lambda options: options[0])
def test_options_of_statistics_without_them_are_refused(capsys, lake, options):
    assert 1 == main(["inspect", *options, str(lake)])
    out, err = capsys.readouterr()
    assert ("", True) == (out, "options of --stats" in err)
