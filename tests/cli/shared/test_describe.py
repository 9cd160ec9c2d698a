"""`arrowipc inspect` shows the statistics of a file's record batches."""

import json

from statistics_cases import write_described

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.main import main

SCHEMA = Schema.of([t.field("when", t.Timestamp(t.TimeUnit.MICROSECOND)), t.field("n", t.struct([("x", t.float64)])), t.field("s", t.utf8)])  # fmt: skip
ROWS = [
    [{"when": 0, "n": {"x": 1.5}, "s": "b"}, {"when": None, "n": None, "s": "\x1b[31m"}],
    [{"when": 86_400_000_000, "n": {"x": float("nan")}, "s": "y" * 100}],
]


def written(path):
    write_described(path, [RecordBatch.from_pylist(rows, SCHEMA) for rows in ROWS], SCHEMA)
    return str(path)


def test_a_table_of_columns(tmp_path, capsys):
    path = written(tmp_path / "a.arrow")
    assert main(["inspect", path]) == 0
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    assert ["statistics:", "3", "columns,", "of", "each", "record", "batch;", "--stats", "shows", "them"] in lines
    assert main(["inspect", "--stats", path]) == 0
    shown += (of_columns := capsys.readouterr().out)
    lines = [" ".join(line.split()) for line in of_columns.splitlines()]
    assert any(
        line.startswith("when timestamp[us]") and " 1 1970-01-01 00:00:00 1970-01-02 00:00:00 - " in line
        for line in lines
    )
    assert any(line.startswith("n.x float64 1 1.5 1.5 - ") for line in lines)
    assert "\x1b" not in shown
    assert "spark_arrow_ipc." not in shown


def test_json_has_each_record_batch(tmp_path, capsys):
    path = written(tmp_path / "a.arrow")
    assert main(["inspect", "--json", path]) == 0
    statistics = json.loads(capsys.readouterr().out)["statistics"]
    assert statistics["row_counts"] == [2, 1]
    assert statistics["columns"][1] == {
        "path": ["n", "x"], "null_counts": [1, 0], "nan_counts": [0, 1], "least": ["1.5", None], "least_exact": [True, False],
        "greatest": ["1.5", None], "greatest_exact": [True, False],
    }  # fmt: skip
    assert statistics["columns"][2]["greatest"] == ["b", "y" * 63 + "z"]
