"""Custom metadata of record batches is copied with them; where it cannot be, one line says so."""

import pytest

from spark_arrow_ipc.cli.main import main

pa = pytest.importorskip("pyarrow")

EACH = 10
NAMES = ["a", "b", "c"]
SAME = ["a"] * 3


def write(path, names, rows=EACH, kind="file"):
    """Write a record batch for each name, which its custom metadata has; none for None."""
    schema = pa.schema({"n": pa.int64()})
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with make(str(path), schema) as writer:
        for number, name in enumerate(names):
            values = pa.array(range(number * rows, (number + 1) * rows))
            metadata = {} if name is None else {"custom_metadata": {"name": name}}
            writer.write_batch(pa.record_batch([values], schema), **metadata)
    return str(path)


def names_in(path):
    """Return what the custom metadata of each record batch has, by pyarrow."""
    with pa.ipc.open_file(str(path)) as opened:
        pairs = [opened.get_batch_with_custom_metadata(i).custom_metadata for i in range(opened.num_record_batches)]
    return [None if each is None else each[b"name"].decode() for each in pairs]


LEFT_OUT = (
    "arrowipc: {}: custom metadata of record batches that were joined, or have no rows, is left out: "
    "'arrowipc concat' without --batch-rows copies those with rows as they are"
)

# Command, names of the batches that are read, of those that are written, whether a line says that some are lost.
COPIES = [
    ("concat {} {}", NAMES, NAMES, False),
    ("concat --batch-rows 10 {} {}", NAMES, NAMES, False),
    ("concat --batch-rows 5 {} {}", NAMES, ["a", "a", "b", "b", "c", "c"], False),
    ("concat --batch-rows 20 {} {}", NAMES, [None, "c"], True),
    ("concat --batch-rows 20 {} {}", ["a", "a", None], ["a", None], False),
    ("concat --batch-rows 20 {} {}", ["a", None, "c"], [None, "c"], True),
    ("concat --batch-rows 100 {} {}", SAME, ["a"], False),
    ("concat --batch-rows 100 {} {}", [None] * 3, [None], False),
    ("rewrite {} {}", NAMES, NAMES, False),
    ("rewrite --batch-rows 20 {} {}", NAMES, [None, "c"], True),
    ("rewrite --batch-bytes 1000 {} {}", NAMES, [None], True),
    ("rewrite --sort-by n {} {}", NAMES, [None], True),
    ("rewrite --sort-by n {} {}", SAME, ["a"], False),
    ("rewrite --columns n {} {}", NAMES, NAMES, False),
    ("convert {} {}", NAMES, NAMES, False),
    ("convert --columns n {} {}", NAMES, NAMES, False),
    ("repair {} {}", NAMES, NAMES, False),
]


@pytest.mark.parametrize(("command", "read", "written", "says"), COPIES)
def test_batches_are_copied_with_their_metadata(capsys, tmp_path, command, read, written, says):
    source, target = write(tmp_path / "x.arrow", read), str(tmp_path / "y.arrow")
    assert 0 == main(command.format(source, target).split())
    assert written == names_in(target)
    err = capsys.readouterr().err.splitlines()
    assert ([LEFT_OUT.format(target)] if says else []) == err


OTHERS = [("csv", "CSV"), ("parquet", "Parquet"), ("jsonl", "JSON")]


@pytest.mark.parametrize(("ending", "name"), OTHERS)
@pytest.mark.parametrize("names", [NAMES, [None]], ids=["with", "without"])
def test_a_format_without_record_batches_has_no_metadata_of_them(capsys, tmp_path, ending, name, names):
    source, target = write(tmp_path / "x.arrow", names), str(tmp_path / f"y.{ending}")
    assert 0 == main(["convert", source, target])
    expected = [f"arrowipc: {target}: custom metadata of record batches is left out: {name} has no record batches"]
    assert (expected if any(names) else []) == capsys.readouterr().err.splitlines()


def test_a_batch_without_rows_that_is_left_out_counts_too(capsys, tmp_path):
    source, target = write(tmp_path / "x.arrow", ["a", "b"], rows=0), str(tmp_path / "y.arrow")
    assert 0 == main(["concat", source, target])
    assert ["a"] == names_in(target)
    assert LEFT_OUT.format(target) == capsys.readouterr().err.strip()


def test_files_that_are_split_keep_it(capsys, tmp_path):
    source, target = write(tmp_path / "x.arrow", NAMES), tmp_path / "parts"
    assert 0 == main(["split", "--rows", "15", source, str(target)])
    assert [["a", "b"], ["b", "c"]] == [names_in(path) for path in sorted(target.iterdir())]
    assert "" == capsys.readouterr().err
