"""What pandas and GeoPandas say of a table in files of other rows or columns, with pandas as the reader."""

import json

import pandas as pd
import pyarrow as pa
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.dataset.table_pairs import fit_pairs


def feather(path, frame):
    table = pa.Table.from_pandas(frame)
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    return str(path)


LATE = pd.DataFrame({"n": [3, 1, 2], "s": ["c", "a", "b"]}, index=pd.RangeIndex(7, 10))
NAMED = pd.DataFrame({"n": [3, 1, 2], "s": ["c", "a", "b"]}, index=pd.Index(["x", "y", "z"], name="key"))
PLAIN = LATE.reset_index(drop=True)

CASES = [
    # the frame, the arguments, and what pandas reads
    ("a whole file", LATE, ["rewrite"], LATE),
    ("a whole file in smaller batches", LATE, ["rewrite", "--batch-rows", "2"], LATE),
    ("a whole file in another format", LATE, ["convert"], LATE),
    ("sorted", LATE, ["rewrite", "--sort-by", "n"], PLAIN.sort_values("n", ignore_index=True)),
    ("the rows of a predicate", LATE, ["rewrite", "--where", "n > 0"], PLAIN),
    ("other columns", LATE, ["convert", "--columns", "s"], PLAIN[["s"]]),
    ("an index that is a column", NAMED, ["rewrite", "--sort-by", "n"], NAMED.sort_values("n")),
    ("an index that is left out", NAMED, ["rewrite", "--columns", "n"], PLAIN[["n"]]),
]


@pytest.mark.parametrize(
    ("frame", "command", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_an_index_fits_what_the_command_line_writes(tmp_path, frame, command, expected):
    source, target = feather(tmp_path / "a.arrow", frame), str(tmp_path / "b.arrow")
    assert 0 == main([command[0], source, target, *command[1:]])
    pd.testing.assert_frame_equal(expected, pa.ipc.open_file(target).read_pandas())


@pytest.mark.parametrize("command", ["concat", "rewrite", "convert"])
def test_files_of_several_ranges_become_one(tmp_path, command):
    frames = [LATE, LATE.iloc[1:]]
    sources = [feather(tmp_path / f"{i}.arrow", frame) for i, frame in enumerate(frames)]
    assert 0 == main([command, *sources, str(tmp_path / "b.arrow")])
    expected = pd.concat(frames, ignore_index=True)
    pd.testing.assert_frame_equal(expected, pa.ipc.open_file(tmp_path / "b.arrow").read_pandas())


NAMES_OF_OTHER_TYPES = {
    "numbers": [0, 1],
    "times": pd.to_datetime(["2026-01-01", "2026-01-02"]),
    "levels": pd.MultiIndex.from_tuples([("n", "x"), ("n", "y")]),
    "words with a name": pd.Index(["x", "y"], name="words"),
}


@pytest.mark.parametrize("names", NAMES_OF_OTHER_TYPES.values(), ids=NAMES_OF_OTHER_TYPES)
def test_names_beside_a_column_of_another_origin_are_words(tmp_path, names):
    """pandas made numbers of all names, of which one is ``region``."""
    frame = pd.DataFrame([[1, 2]], columns=names)
    (tmp_path / "in/region=north").mkdir(parents=True)
    feather(tmp_path / "in/region=north/a.arrow", frame)
    assert 0 == main(["convert", str(tmp_path / "in"), str(tmp_path / "b.arrow")])
    read = pa.ipc.open_file(tmp_path / "b.arrow").read_pandas()
    assert [*pa.Table.from_pandas(frame).column_names, "region"] == list(read.columns)
    assert [1, 2, "north"] == read.iloc[0].to_list()
    assert frame.columns.name == read.columns.name


def test_a_part_has_no_range_of_the_whole(tmp_path):
    source = feather(tmp_path / "a.arrow", LATE)
    assert 0 == main(["split", source, str(tmp_path / "parts"), "--rows", "2"])
    for path in (tmp_path / "parts").iterdir():
        assert b'"range"' not in pa.ipc.open_file(path).schema.metadata[b"pandas"]


GEO = {
    "primary_column": "b",
    "version": "1.1.0",
    "columns": {name: {"encoding": "WKB", "bbox": [0, 0, 1, 1], "geometry_types": ["Point"]} for name in "ab"},
}
LEFT = {"encoding": "WKB", "geometry_types": []}


def test_geometries_have_no_bounds_of_other_rows():
    schema = Schema((t.field("a", t.binary), t.field("n", t.int8)), (("geo", json.dumps(GEO)), ("owner", "me")))
    pairs = dict(fit_pairs(schema).custom_metadata)
    assert {"version": "1.1.0", "primary_column": "a", "columns": {"a": LEFT}} == json.loads(pairs["geo"])
    assert "me" == pairs["owner"]


@pytest.mark.parametrize(
    "pairs", [[("pandas", "{")], [("pandas", "[]")], [("pandas", "{}")], [("geo", "{}"), ("geo", "[]")]]
)
def test_what_is_not_understood_is_left_out(pairs):
    assert () == fit_pairs(Schema((t.field("a", t.int8),), tuple(pairs))).custom_metadata


def test_nothing_else_of_a_schema_changes(tmp_path):
    feather(tmp_path / "a.arrow", NAMED)
    with ipc.open_file(tmp_path / "a.arrow") as reader:
        assert reader.schema.fields == fit_pairs(reader.schema).fields
