"""``arrowipc convert`` between formats: pyarrow and polars read the same values."""

import io
import sys

import pytest

from spark_arrow_ipc.cli.main import main

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
csv = pytest.importorskip("pyarrow.csv")
pl = pytest.importorskip("polars")

TABLE = pa.table({"a": [1, None, 3], "s": pa.array(["x", 'ä,"', None]).dictionary_encode(), "f": [0.5, -2.0, None]})
PLAIN = TABLE.set_column(1, "s", TABLE["s"].cast(pa.string()))
ROWS = TABLE.to_pylist()


def write(path, form):
    if form == "parquet":
        pq.write_table(PLAIN, path)
    elif form == "csv":
        csv.write_csv(PLAIN, path)
    elif form == "jsonl":
        pl.from_arrow(PLAIN).write_ndjson(path)
    else:
        with (pa.ipc.new_stream if form == "arrows" else pa.ipc.new_file)(str(path), TABLE.schema) as writer:
            writer.write_table(TABLE, max_chunksize=2)


READ = {
    "arrow": lambda path: pa.ipc.open_file(path).read_all().to_pylist(),
    "arrows": lambda path: pa.ipc.open_stream(path).read_all().to_pylist(),
    "parquet": lambda path: pq.read_table(path).to_pylist(),
    "csv": lambda path: csv.read_csv(path, convert_options=csv.ConvertOptions(strings_can_be_null=True)).to_pylist(),
    "jsonl": lambda path: pl.read_ndjson(path).to_dicts(),
}


@pytest.mark.parametrize("to", list(READ))
@pytest.mark.parametrize("source", list(READ))
def test_every_format_into_every_other(capsys, tmp_path, source, to):
    given, target = tmp_path / f"in.{source}", tmp_path / f"out.{to}"
    write(given, source)
    status = main(["convert", str(given), str(target)])
    out, err = capsys.readouterr()
    assert (0, f"{target}: 3 rows\n", "") == (status, out, err)
    expected = ROWS
    if source == "csv":  # a null string is an empty one there
        expected = [{**row, "s": row["s"] or ""} for row in ROWS]
    found = READ[to](str(target))
    if to == "csv":
        expected, found = ([{**row, "s": row["s"] or None} for row in rows] for rows in (expected, found))
    assert expected == found
    assert {given.name, target.name} == {path.name for path in tmp_path.iterdir()}


def test_stdin_to_stdout(capsysbinary, tmp_path, monkeypatch):
    write(tmp_path / "x.arrows", "arrows")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "x.arrows").read_bytes())))
    assert 0 == main(["convert", "-", "-"])
    assert ROWS == pl.read_ndjson(capsysbinary.readouterr().out).to_dicts()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,x\n")))
    assert 0 == main(["convert", "--from", "csv", "--to", "stream", "-", "-"])
    assert [{"a": 1, "b": "x"}] == pa.ipc.open_stream(capsysbinary.readouterr().out).read_all().to_pylist()


def test_rows_and_columns_of_a_lake(capsys, tmp_path):
    for k in (1, 2):
        (tmp_path / "lake" / f"k={k}").mkdir(parents=True)
        write(tmp_path / "lake" / f"k={k}" / "x.arrow", "arrow")
    target = tmp_path / "out.parquet"
    assert 0 == main(["convert", "--columns", "k,a", "--where", "a = 3", str(tmp_path / "lake"), str(target)])
    assert [{"k": 1, "a": 3}, {"k": 2, "a": 3}] == pq.read_table(target).to_pylist()


NESTED = pa.table({"l": [[1]]})
REFUSED = [
    ("lists in CSV", lambda path: pq.write_table(NESTED, path / "x.parquet"), "x.parquet", "out.csv", "CSV has no list"),
    ("no Parquet", lambda path: (path / "x.parquet").write_bytes(b"nothing at all"), "x.parquet", "out.arrow", "pyarrow cannot"),
    ("CSV that breaks off", lambda path: (path / "x.csv").write_text("a,b\n1,2\n3\n"), "x.csv", "out.arrow", "pyarrow cannot"),
    ("no JSON", lambda path: (path / "x.jsonl").write_text("{"), "x.jsonl", "out.arrow", "pyarrow cannot"),
    ("a directory", lambda path: (path / "x.parquet").mkdir(), "x.parquet", "out.arrow", "name the files, such as"),
    ("no file", lambda _: None, "x.csv", "out.arrow", "x.csv"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "name", "target", "words"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_cannot_be_converted_writes_nothing(capsys, tmp_path, make, name, target, words):
    make(tmp_path)
    assert 1 == main(["convert", str(tmp_path / name), str(tmp_path / target)])
    err = capsys.readouterr().err
    assert words in err
    assert 1 == len(err.splitlines())
    assert not (tmp_path / target).exists()
    assert {name} >= {path.name for path in tmp_path.iterdir()}


def test_what_is_no_arrow_file_is_named_by_its_files_or_its_format(capsys, tmp_path):
    for name in ("d/p=1/x.parquet", "files/x", "plain"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(NESTED, tmp_path / name)
    advice = {
        "d": f"name the files, such as {tmp_path}/d/p=1/*.parquet\n",
        "files": f"name the files, such as {tmp_path}/files/*, and their format by --from\n",
        "plain": "say its format by --from\n",
    }
    for name, words in advice.items():
        assert 1 == main(["convert", str(tmp_path / name), str(tmp_path / "out.arrow")])
        err = capsys.readouterr().err
        assert err.endswith(words)
        assert "arrowipc convert" not in err
    assert 0 == main(["convert", "--from", "parquet", str(tmp_path / "files" / "x"), str(tmp_path / "out.arrow")])


def test_without_pyarrow_one_sentence_for_what_needs_it(capsys, tmp_path, monkeypatch):
    write(tmp_path / "x.arrow", "arrow")
    write(tmp_path / "x.csv", "csv")
    for module in [*(m for m in sys.modules if m.startswith("spark_arrow_ipc.spark.")), "pyarrow"]:
        monkeypatch.setitem(sys.modules, module, None)
    for source, target in [("x.arrow", "out.parquet"), ("x.csv", "out.arrow")]:
        assert 1 == main(["convert", str(tmp_path / source), str(tmp_path / target)])
        err = capsys.readouterr().err
        assert "pip install pyarrow" in err
        assert 1 == len(err.splitlines())
    assert 0 == main(["convert", str(tmp_path / "x.arrow"), str(tmp_path / "out.arrows")])
    assert 0 == main(["convert", str(tmp_path / "x.arrow"), str(tmp_path / "out.jsonl")])
    assert ROWS == pl.read_ndjson(tmp_path / "out.jsonl").to_dicts()
