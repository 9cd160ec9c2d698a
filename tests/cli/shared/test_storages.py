"""Commands take URLs of object stores as they take paths, with ``--storage``."""

import argparse
import json
import uuid

import pytest

from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.cli.shared.storages import add_storage_argument, storage_at
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.object_store import ObjectStorage

pa = pytest.importorskip("pyarrow")

PAIRS = (("region", "eu-central-1"), ("endpoint", "http://127.0.0.1:9/?a=b"))


def written(rows, first=0):
    table = pa.table({"a": range(first, first + rows)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    return sink.getvalue().to_pybytes()


@pytest.fixture
def lake():
    storage, root = ObjectStorage(), f"memory://{uuid.uuid4().hex}"
    storage.put(f"{root}/t/k=1/a.arrow", written(10))
    storage.put(f"{root}/t/k=2/b.arrow", written(5, 10))
    return storage, root


def run(capsys, *arguments):
    status = main(list(arguments))
    return status, *capsys.readouterr()


def test_options_are_pairs_and_go_to_urls_alone():
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_storage_argument(parser)
    arguments = parser.parse_args([word for name, value in PAIRS for word in ("--storage", f"{name}={value}")])
    assert ObjectStorage(PAIRS) == storage_at("s3://b/a", arguments.storage)
    assert storage_at("/a/b", arguments.storage) is LOCAL
    assert [] == parser.parse_args([]).storage
    for wrong in ("region", "=x", ""):
        with pytest.raises(argparse.ArgumentError, match="NAME=VALUE"):
            parser.parse_args(["--storage", wrong])


def test_rows_of_a_directory_and_a_file_are_counted(capsys, lake):
    _, root = lake
    status, out, err = run(capsys, "count", f"{root}/t", f"{root}/t/k=2/b.arrow")
    assert (0, "") == (status, err)
    assert [
        f"10\t{root}/t/k=1/a.arrow",
        f"5\t{root}/t/k=2/b.arrow",
        f"5\t{root}/t/k=2/b.arrow",
        "20\ttotal",
    ] == out.splitlines()


def test_rows_are_printed_with_their_partition(capsys, lake):
    status, out, err = run(capsys, "cat", "--format", "jsonl", f"{lake[1]}/t")
    assert (0, "") == (status, err)
    assert [{"a": i, "k": 1 + i // 10} for i in range(15)] == [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("command", ["inspect", "validate"])
def test_files_are_looked_at(capsys, lake, command):
    status, out, err = run(capsys, command, f"{lake[1]}/t")
    assert (0, "") == (status, err)
    assert f"{lake[1]}/t/k=1/a.arrow" in out


def test_files_are_joined_and_repaired_into_the_store(capsys, lake):
    storage, root = lake
    assert 0 == run(capsys, "concat", f"{root}/t", f"{root}/joined.arrow")[0]
    assert run(capsys, "count", f"{root}/joined.arrow")[1].startswith("15\t")
    assert run(capsys, "concat", f"{root}/t", f"{root}/joined.arrow")[0] != 0, "files are never overwritten"
    storage.put(f"{root}/t/k=2/b.arrow", written(5, 10)[:-30])
    assert 0 == run(capsys, "repair", f"{root}/t", f"{root}/repaired")[0]
    assert run(capsys, "count", "-r", f"{root}/repaired")[1].splitlines()[-1].startswith("1")


def test_nothing_to_clear_is_said(capsys, lake):
    status, out, err = run(capsys, "vacuum", f"{lake[1]}/t")
    assert (0, f"{lake[1]}/t: nothing to do\n", "") == (status, out, err)


def test_a_wrong_option_is_one_sentence(capsys, lake):
    status, _, err = run(capsys, "count", "--storage", "region=x", f"{lake[1]}x/t")
    assert status != 0
    assert "no option storage.region for memory" in err
    assert err.count("\n") == 1
    with pytest.raises(ArrowIpcError):
        storage_at("nosuch://host/a", [])
