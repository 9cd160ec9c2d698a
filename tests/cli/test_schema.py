"""``arrowipc schema`` prints each schema once, in three forms."""

import json

import pytest

from spark_arrow_ipc.cli.main import main

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def lake(tmp_path):
    schema = pa.schema(
        [
            ("a", pa.int64()),
            ("name", pa.dictionary(pa.int8(), pa.string())),
            ("nested", pa.struct([("x", pa.float64()), ("items", pa.list_(pa.int64()))])),
        ]
    )
    for k in (1, 2):
        (tmp_path / f"k={k}").mkdir()
        with pa.ipc.new_file(str(tmp_path / f"k={k}" / "x.arrow"), schema):
            pass
    return str(tmp_path)


def test_the_schema_is_text_ddl_and_json(capsys, lake):
    assert 0 == main(["schema", lake])
    head, _, *lines = capsys.readouterr().out.splitlines()
    assert head.endswith("x.arrow and 1 other file: 4 columns")
    assert ["a", "name", "nested", "k"] == [line.split()[1] for line in lines]
    assert 0 == main(["schema", "--ddl", lake])
    ddl = capsys.readouterr().out
    expected = "`a` BIGINT, `name` STRING, `nested` STRUCT<`x`: DOUBLE, `items`: ARRAY<BIGINT>>, `k` INT\n"
    assert expected == ddl
    assert 0 == main(["schema", "--json", lake])
    found = json.loads(capsys.readouterr().out)
    assert (2, ["a", "name", "nested", "k"]) == (found["files"], [field["name"] for field in found["fields"]])


def test_files_of_two_schemas_are_two_tables_and_a_bad_one_hides_none(capsys, tmp_path):
    for name, column in [("1", "a"), ("2", "b"), ("3", "a")]:
        with pa.ipc.new_file(str(tmp_path / name), pa.schema([(column, pa.int8())])):
            pass
    (tmp_path / "4").write_bytes(b"nothing")
    assert 1 == main(["schema", str(tmp_path)])
    out, err = capsys.readouterr()
    assert 2 == out.count("1 column")
    assert "1 and 1 other file" in out
    assert "4" in err


def test_a_type_that_arrow_lacks_is_shown_and_the_other_columns_are_read(capsys, tmp_path):
    pl = pytest.importorskip("polars")
    path = str(tmp_path / "x.arrow")
    pl.DataFrame({"id": [1, 2], "big": pl.Series([2**100, None], dtype=pl.Int128)}).write_ipc(path)
    for command in ("schema", "inspect"):
        assert 0 == main([command, path])
        assert ["1", "big", "int128", "(unknown)", "yes"] in map(str.split, capsys.readouterr().out.splitlines())
    assert 0 == main(["cat", "--columns", "id", "--where", "id > 1", path])
    assert ["id", "2"] == capsys.readouterr().out.split()
    assert 0 == main(["count", path])
    assert "2" == capsys.readouterr().out.split()[0]
    for command in (["cat"], ["cat", "--where", "big > 1"], ["schema", "--ddl"], ["validate"]):
        assert 1 == main([*command, path])
        assert "field big: int128 is a type of polars" in "".join(capsys.readouterr())
