"""``arrowipc head``, ``tail``, ``sample`` and ``cat``, with ``--columns`` and ``--where``."""

import sys

import pytest
from cli_lake import rows, write_lake

from spark_arrow_ipc.cli.main import main

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return write_lake(tmp_path_factory.mktemp("lake"))


def numbers(capsys, *arguments):
    return [row["a"] for row in rows(capsys, *arguments, "--columns", "a")]


EVERY = [*range(1000, 1100), *range(2000, 2100)]
ENDS = [
    ("head", [], EVERY[:10]),
    ("head", ["-n", "0"], []),
    ("head", ["-n", "31"], EVERY[:31]),
    ("head", ["-n", "999"], EVERY),
    ("head", ["-n", "3", "--where", "a > 1050"], [1051, 1052, 1053]),
    ("tail", [], EVERY[-10:]),
    ("tail", ["-n", "0"], []),
    ("tail", ["-n", "95"], EVERY[-95:]),
    ("tail", ["-n", "131"], EVERY[-131:]),
    ("tail", ["-n", "999"], EVERY),
    ("tail", ["-n", "3", "--where", "k = 1 AND a < 1050"], [1047, 1048, 1049]),
    ("cat", ["--where", "a IN (1001, 2002) OR name IS NULL AND a < 1015"], [1001, 1003, 1013, 2002]),
    ("cat", ["--where", "nested.x >= 2098.0"], [2098, 2099]),
    ("sample", ["-n", "999"], EVERY),
]


@pytest.mark.parametrize(("command", "options", "expected"), ENDS, ids=[f"{c[0]} {' '.join(c[1])}" for c in ENDS])
def test_rows_in_their_order(capsys, lake, command, options, expected):
    assert expected == numbers(capsys, command, *options, lake)


def test_columns_of_the_predicate_need_not_be_printed(capsys, lake):
    expected = [{"name": None, "k": 1}]
    assert expected == rows(capsys, "cat", "--columns", "name,k", "--where", "A = 1003", lake)


def test_a_sample_is_the_same_for_a_seed(capsys, lake):
    first = numbers(capsys, "sample", "-n", "20", "--seed", "4", lake)
    assert first == sorted(first)
    assert 20 == len(set(first) & set(EVERY))
    assert first == numbers(capsys, "sample", "-n", "20", "--seed", "4", lake)
    assert first != numbers(capsys, "sample", "-n", "20", "--seed", "5", lake)
    some = numbers(capsys, "sample", "-n", "20", "--seed", "4", "--where", "a < 1030", lake)
    assert 20 == len(set(some))
    assert max(some) < 1030


def test_a_predicate_on_one_of_two_names_that_differ_in_case_alone_is_refused(capsys, tmp_path):
    table = pa.table({"a": [1, 2], "A": [10, 20]})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    assert 1 == main(["head", "--where", "a = 1", str(tmp_path / "a.arrow")])
    words = "the option where: the name 'a' may stand for #0 'a', #1 'A' without spark.sql.caseSensitive=true"
    assert words in capsys.readouterr().err


def test_columns_of_the_origin_of_rows_are_those_of_reads_in_spark(capsys, lake):
    assert 1 == main(["head", "--where", "_row_index < 5", lake])
    err = capsys.readouterr().err
    assert "the option where: there is no column '_row_index'" in err
    assert "reads in Spark have the columns of a row's origin with metadataColumns=true" in err


def test_without_pyspark_where_is_one_sentence(capsys, lake, monkeypatch):
    for name in [*(n for n in sys.modules if n.startswith("spark_arrow_ipc.spark.")), "pyspark", "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert 1 == main(["head", "--where", "a = 1", lake])
    err = capsys.readouterr().err
    assert "--where needs PySpark" in err
    assert 1 == len(err.splitlines())
    assert 0 == main(["head", lake])


def test_a_predicate_that_is_none_is_one_sentence(capsys, lake):
    assert 1 == main(["cat", "--where", "a ==== 1", lake])
    assert 1 == len(capsys.readouterr().err.splitlines())


ABSENT = [
    (["cat", "--columns", "nane"], "--columns: there is no column 'nane'; did you mean 'name'?"),
    (["cat", "--where", "nane = 'x'"], "the option where: there is no column 'nane'; did you mean 'name'?"),
    (["cat", "--where", "nested.xx = 1"], "the option where: there is no field 'xx' in nested; did you mean 'x'?"),
    (["rewrite", "--sort-by", "nane"], "--sort-by: there is no column 'nane'; did you mean 'name'?"),
]


@pytest.mark.parametrize(("arguments", "words"), ABSENT, ids=[" ".join(case[0]) for case in ABSENT])
def test_an_absent_column_is_one_sentence_that_says_who_asks_for_it(capsys, lake, tmp_path, arguments, words):
    command, *options = arguments
    target = [str(tmp_path / "new.arrow")] if command == "rewrite" else []
    assert 1 == main([command, *options, lake, *target])
    err = capsys.readouterr().err
    assert words in err
    assert 1 == len(err.splitlines())


def test_a_predicate_enters_a_union(capsys, tmp_path):
    values = pa.UnionArray.from_sparse(
        pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["x", "y"])], ["i", "s"]
    )
    with pa.ipc.new_file(str(tmp_path / "u.arrow"), pa.schema({"a": pa.int64(), "u": values.type})) as writer:
        writer.write_table(pa.table({"a": [1, 2], "u": values}))
    assert [2] == numbers(capsys, "cat", "--where", "u.s = 'y'", str(tmp_path / "u.arrow"))


@pytest.mark.parametrize(("predicate", "expected"), [("a = 2005", 2), ("a = 7", 1)], ids=["one row", "none"])
def test_files_without_a_match_print_no_names(capsys, lake, predicate, expected):
    assert 0 == main(["cat", "--columns", "a", "--where", predicate, lake])
    lines = capsys.readouterr().out.splitlines()
    assert (expected, "a") == (len(lines), lines[0].strip())
