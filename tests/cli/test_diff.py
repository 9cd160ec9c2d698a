"""``arrowipc diff`` finds what polars finds."""

import json

import numpy as np
import pytest

from spark_arrow_ipc.cli.main import main

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")


def write(path, table, step=None):
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=step)
    return str(path)


def diff(capsys, *arguments):
    status = main(["diff", "--json", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert "" == err
    return status, json.loads(out)


A = pa.table({"k": [1, 2, 3, 4], "s": ["a", "b", None, "d"], "l": [[1.5], [], None, [float("nan")]]})


def changed(**columns):
    table = A
    for name, values in columns.items():
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, A[name].type)
        table = table.set_column(table.column_names.index(name), name, array)
    return table


CASES = [
    ("equal", A, [], {}),
    ("other record batches", pa.concat_tables([A.slice(0, 1), A.slice(1)]), [], {}),
    ("a value", changed(s=["a", "x", None, "d"]), [], {"differing": 1, "columns": {"s": 1}}),
    ("null and empty", changed(s=["a", "b", "", "d"], l=[[1.5], None, None, [float("nan")]]), [], {"differing": 2, "columns": {"s": 1, "l": 1}}),
    ("a row more", pa.concat_tables([A, A.slice(0, 1)]), [], {"rows_b": 5, "only_b": 1}),
    ("a row less", A.slice(0, 3), [], {"rows_b": 3, "only_a": 1}),
    ("an encoding", changed(s=A["s"].dictionary_encode()), [], {"schema": ["s is utf8 in A, dictionary<int32, utf8> in B"]}),
    ("a column less", A.drop_columns(["l"]), [], {"schema": ["only A has the column l: list<item: float64>"]}),
    ("another type", changed(k=pa.array([1, 2, 3, 4], pa.int8())), [], {"schema": ["k is int64 in A, int8 in B"], "not_compared": ["k"]}),
    ("another order of columns", A.select(["s", "k", "l"]), [], {"schema": ["the columns are in another order"]}),
    ("another order of rows", A.take([3, 1, 0, 2]), ["--key", "k"], {}),
    ("rows by key", pa.concat_tables([changed(s=["z", "b", None, "d"]).take([3, 0, 2]), A.slice(0, 1).set_column(0, "k", pa.array([9]))]), ["--key", "k"], {"differing": 1, "only_a": 1, "only_b": 1, "columns": {"s": 1}}),
    ("a key of two, one null", A.take([3, 1, 0, 2]), ["--key", "s,k"], {}),
    ("keys that occur twice", pa.concat_tables([A, A]), ["--key", "k"], {"rows_b": 8, "only_b": 4}),
    ("chosen columns", changed(s=["a", "x", None, "d"]), ["--columns", "k,l"], {}),
    ("chosen rows", changed(s=["a", "x", None, "d"]), ["--where", "k > 2"], {"rows_a": 2, "rows_b": 2}),
]  # fmt: skip
NONE = {
    "schema": [],
    "rows_a": 4,
    "rows_b": 4,
    "differing": 0,
    "only_a": 0,
    "only_b": 0,
    "columns": {},
    "not_compared": [],
}


@pytest.mark.parametrize(("other", "options", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_differences(capsys, tmp_path, other, options, expected):
    a, b = write(tmp_path / "a", A, 3), write(tmp_path / "b", other, 2)
    status, found = diff(capsys, *options, a, b)
    shown = found.pop("shown")
    assert NONE | expected == found
    assert status == int(any(expected.get(key) for key in ("schema", "differing", "only_a", "only_b")))
    assert len(shown) == sum(found["columns"].values()) + (
        found["only_a"] + found["only_b"] if "--key" in options else 0
    )


def test_random_tables_by_key_as_polars_joins_them(capsys, tmp_path):
    random = np.random.default_rng(5)
    sides = [
        pl.DataFrame({"k": random.permutation(3000)[:2000], "v": random.integers(0, 3, 2000)}).with_columns(
            t=pl.col("k").cast(pl.String) + "-a-long-suffix"
        )
        for _ in range(2)
    ]
    paths = [
        write(tmp_path / name, side.to_arrow(compat_level=pl.CompatLevel.oldest()), 700)
        for name, side in zip("ab", sides, strict=True)
    ]
    both = sides[0].join(sides[1], on="k")
    for key in ("k", "t", "t,k"):
        _, found = diff(capsys, "--key", key, *paths)
        assert both.filter(pl.col("v") != pl.col("v_right")).height == found["differing"]
        assert 2000 - both.height == found["only_a"] == found["only_b"]


def test_people_see_which_rows_differ(capsys, tmp_path):
    a, b = write(tmp_path / "a", A), write(tmp_path / "b", changed(s=["a", "x\x1b", None, "d"]))
    assert 1 == main(["diff", a, b])
    lines = capsys.readouterr().out.splitlines()
    assert [
        "rows: 1 differ",
        "differing rows by column: s 1",
        "  row    column  A  B",
        "  row 1  s       b  x\\x1b",
    ] == lines[2:]
    assert 1 == main(["diff", "--key", "k", a, b])
    assert "  k 2  s       b  x\\x1b" in capsys.readouterr().out
    c = write(tmp_path / "c", changed(k=pa.array([1, 2, 3, 9], pa.int8())))
    assert 1 == main(["diff", a, c])
    assert [
        "schema: k is int64 in A, int8 in B",
        "rows: no difference in the columns that are compared",
        "not compared, as their types differ: k",
    ] == capsys.readouterr().out.splitlines()[2:]
    assert 0 == main(["diff", a, a])
    assert "no difference" in capsys.readouterr().out


def test_keys_of_two_types_are_one_sentence(capsys, tmp_path):
    a, b = write(tmp_path / "a", A), write(tmp_path / "b", changed(k=pa.array([1, 2, 3, 4], pa.int8())))
    assert 1 == main(["diff", "--key", "k", a, b])
    assert "keys must have one type" in capsys.readouterr().err
    assert 1 == main(["diff", "--key", "l", a, a])
    assert "no order" in capsys.readouterr().err
