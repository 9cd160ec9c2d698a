"""``arrowipc rewrite`` and ``split``: what pyarrow and polars read of what is written."""

import json
from pathlib import Path

import numpy as np
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.cli.shared.file_metadata import read_file_metadata
from spark_arrow_ipc.dataset.statistics.read import file_statistics

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

RANDOM = np.random.default_rng(3)
TABLE = pa.table(
    {
        "a": pa.array(RANDOM.integers(0, 20, 500), mask=RANDOM.random(500) < 0.1),
        "f": pa.array(RANDOM.choice([0.5, -1.5, np.nan, np.inf], 500), mask=RANDOM.random(500) < 0.1),
        "s": pa.array([f"{'long common prefix ' * (i % 2)}{i % 50}" for i in range(500)]).dictionary_encode(),
        "l": [[i, None] for i in range(500)],
    }
).replace_schema_metadata({"origin": "a test"})


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.arrow"
    with pa.ipc.new_file(str(path), TABLE.schema, metadata={"kept": "yes"}) as writer:
        writer.write_table(TABLE, max_chunksize=120)
    return str(path)


def run(capsys, *arguments):
    status = main(list(map(str, arguments)))
    out, err = capsys.readouterr()
    return status, out, err


def test_a_rewritten_file_has_statistics_and_all_else(capsys, source, tmp_path):
    target = tmp_path / "out.arrow"
    status, out, err = run(capsys, "rewrite", source, target, "--compression", "zstd", "--batch-rows", "200")
    assert (0, f"{target}: 500 rows in 3 record batches\n", "") == (status, out, err)
    opened = pa.ipc.open_file(str(target))
    assert [200, 200, 100] == [opened.get_batch(i).num_rows for i in range(3)]
    assert TABLE.schema.metadata == opened.schema.metadata
    assert b"yes" == opened.metadata[b"kept"]
    assert TABLE["l"].to_pylist() == opened.read_all()["l"].to_pylist()
    with ipc.open_file(str(target)) as reader:
        statistics = file_statistics(reader)
        assert {("a",), ("f",), ("s",)} == set(statistics.columns)
    run(capsys, "rewrite", source, target, "--statistics", "none", "--force")
    with ipc.open_file(str(target)) as reader:
        assert file_statistics(reader) is None


CODECS = {
    "a file": ("out.arrow", [], "zstd"),
    "a stream": ("out.arrows", [], "lz4"),
    "a file of that codec": ("out.arrow", ["--compression", "lz4"], "lz4"),
    "a stream of that codec": ("out.arrows", ["--compression", "zstd"], "zstd"),
    "none": ("out.arrow", ["--compression", "none"], "none"),
}


@pytest.mark.parametrize("command", ["rewrite", "concat", "repair", "convert"])
@pytest.mark.parametrize("case", CODECS)
def test_the_codec_of_a_command(capsys, source, tmp_path, command, case):
    name, arguments, codec = CODECS[case]
    target = tmp_path / name
    statistics = ["--statistics", "none"] if command == "rewrite" else []
    assert 0 == run(capsys, command, source, target, *arguments, *statistics)[0]
    assert (codec,) == read_file_metadata(str(target)).compressions
    opened = pa.ipc.open_stream(str(target)) if name.endswith("s") else pa.ipc.open_file(str(target))
    read = opened.read_all()
    assert all(TABLE[name].to_pylist() == read[name].to_pylist() for name in ("a", "s", "l"))


SORTED = [("a", []), ("a", ["--descending"]), ("f", []), ("s", []), ("s,a", []), ("f,s,a", [])]


@pytest.mark.parametrize(("names", "options"), SORTED, ids=str)
def test_sorted_rows_are_those_of_polars(capsys, source, tmp_path, names, options):
    target = tmp_path / "out.arrow"
    assert 0 == run(capsys, "rewrite", source, target, "--sort-by", names, *options, "--batch-rows", "64")[0]
    descending = bool(options)
    plain = TABLE.set_column(2, "s", TABLE["s"].cast(pa.string()))
    expected = pl.from_arrow(plain).sort(
        names.split(","), descending=descending, nulls_last=descending, maintain_order=True
    )
    found = pa.ipc.open_file(str(target)).read_all()
    columns = [
        str(found[name].cast(pa.string()).to_pylist() if name == "s" else found[name].to_pylist())
        for name in ("a", "f", "s", "l")
    ]
    assert [str(expected[name].to_list()) for name in ("a", "f", "s", "l")] == columns


def test_rows_and_columns_are_chosen(capsys, source, tmp_path):
    target = tmp_path / "out.arrows"
    assert 0 == run(capsys, "rewrite", source, target, "--columns", "s,a", "--where", "a > 10", "--sort-by", "a")[0]
    found = pa.ipc.open_stream(str(target)).read_all()
    assert ["s", "a"] == found.column_names
    assert sorted(v for v in TABLE["a"].to_pylist() if v is not None and v > 10) == found["a"].to_pylist()


REFUSED = [
    ("sorting by lists", ["--sort-by", "l"], "no order"),
    ("a column that is not there", ["--sort-by", "x"], "there is no column 'x'"),
]


@pytest.mark.parametrize(("options", "words"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_cannot_be_done_writes_nothing(capsys, source, tmp_path, options, words):
    status, out, err = run(capsys, "rewrite", source, tmp_path / "out.arrow", *options)
    assert (1, "") == (status, out)
    assert words in err
    assert ["in.arrow"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("command", ["rewrite", "concat", "convert"])
def test_files_are_replaced_by_force_alone_and_inputs_never(capsys, source, tmp_path, command):
    target = tmp_path / "out.arrow"
    target.write_bytes(b"precious")
    assert 1 == run(capsys, command, source, target)[0]
    assert b"precious" == target.read_bytes()
    broken = tmp_path / "broken.arrow"
    broken.write_bytes(Path(source).read_bytes()[:-50])
    assert 1 == run(capsys, command, broken, target, "--force")[0]
    assert b"precious" == target.read_bytes()
    assert 0 == run(capsys, command, source, target, "--force")[0]
    assert 500 == pa.ipc.open_file(str(target)).read_all().num_rows
    link = tmp_path / "link.arrow"
    link.hardlink_to(source)
    for same in (source, link):
        status, _, err = run(capsys, command, source, same, "--force")
        assert (1, True) == (status, "this file is read" in err)
    assert 500 == pa.ipc.open_file(source).read_all().num_rows
    assert {"in.arrow", "out.arrow", "broken.arrow", "link.arrow"} == {path.name for path in tmp_path.iterdir()}


SPLITS = [
    ("rows", ["--rows", "150"], [150, 150, 150, 50]),
    ("all rows in one", ["--rows", "1000"], [500]),
    ("a predicate without a match", ["--rows", "10", "--where", "a > 1000"], [0]),
]


@pytest.mark.parametrize(("options", "expected"), [c[1:] for c in SPLITS], ids=[c[0] for c in SPLITS])
def test_files_of_so_many_rows(capsys, source, tmp_path, options, expected):
    target = tmp_path / "parts"
    status, _, err = run(capsys, "split", source, target, *options)
    assert (0, "") == (status, err)
    tables = [pa.ipc.open_file(str(path)).read_all() for path in sorted(target.iterdir())]
    assert expected == [table.num_rows for table in tables]
    if sum(expected):
        assert TABLE["l"].to_pylist() == pa.concat_tables(tables)["l"].to_pylist()
    assert 1 == run(capsys, "split", source, target, "--rows", "1")[0]


def test_a_broken_file_leaves_no_part(capsys, tmp_path):
    with pa.ipc.new_stream(str(tmp_path / "torn.arrows"), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=100)
    content = (tmp_path / "torn.arrows").read_bytes()
    (tmp_path / "torn.arrows").write_bytes(content[: len(content) - 200])
    assert 1 == run(capsys, "split", tmp_path / "torn.arrows", tmp_path / "parts", "--rows", "50")[0]
    assert ["torn.arrows"] == [path.name for path in tmp_path.iterdir()]


def test_files_of_so_many_bytes(capsys, source, tmp_path):
    target = tmp_path / "parts"
    assert 0 == run(capsys, "split", source, target, "--bytes", "9000", "--compression", "none")[0]
    paths = sorted(target.iterdir())
    assert len(paths) > 2
    assert max(path.stat().st_size for path in paths) <= 9000
    tables = [pa.ipc.open_file(str(path)).read_all() for path in paths]
    assert TABLE["l"].to_pylist() == pa.concat_tables(tables)["l"].to_pylist()


def test_partition_columns_are_kept(capsys, source, tmp_path):
    for k in (1, 2):
        (tmp_path / "lake" / f"k={k}").mkdir(parents=True)
        (tmp_path / "lake" / f"k={k}" / "x.arrow").write_bytes((tmp_path / "in.arrow").read_bytes())
    assert 0 == run(capsys, "rewrite", tmp_path / "lake", tmp_path / "out.arrow")[0]
    run(capsys, "inspect", "--stats", "--json", "--columns", "k", tmp_path / "out.arrow")
    assert [1] * 500 + [2] * 500 == pa.ipc.open_file(str(tmp_path / "out.arrow")).read_all()["k"].to_pylist()


def test_stats_of_a_rewritten_file_come_from_its_footer(capsys, source, tmp_path):
    run(capsys, "rewrite", source, tmp_path / "out.arrow")
    _, out, _ = run(capsys, "inspect", "--stats", "--json", "--columns", "a", tmp_path / "out.arrow")
    found = json.loads(out)
    assert (None, str(pa.compute.max(TABLE["a"]))) == (found["distinct"], found["max"])
