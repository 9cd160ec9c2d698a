"""``arrowipc concat`` writes what pyarrow reads as the rows of all files."""

import pytest

from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.ipc.messages.checksums import ROW_COUNTS_KEY

pa = pytest.importorskip("pyarrow")


def write(path, table, kind="file", metadata=None):
    if kind == "file":
        writer = pa.ipc.new_file(str(path), table.schema, **({"metadata": metadata} if metadata else {}))
    else:
        writer = pa.ipc.new_stream(str(path), table.schema)
    with writer:
        writer.write_table(table, max_chunksize=10)
    return str(path)


def run(capsys, *arguments):
    status = main(["concat", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def tables():
    words = ["red", "green", "blue", None]
    return [
        pa.table(
            {"a": range(i, i + 25), "d": pa.array(words[i:] * 20).dictionary_encode()[:25]}
        ).replace_schema_metadata({"origin": "a test"})
        for i in range(3)
    ]


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("name", ["out.arrow", "out.arrows"])
def test_rows_of_all_files_in_order(capsys, tmp_path, kind, name):
    own = tables()
    paths = [write(tmp_path / f"{i}", table, kind) for i, table in enumerate(own)]
    target = tmp_path / name
    status, out, err = run(capsys, *paths, target)
    assert (0, f"{target}: 75 rows in 9 record batches, of 3 files\n", "") == (status, out, err)
    opened = pa.ipc.open_stream(str(target)) if name.endswith("s") else pa.ipc.open_file(str(target))
    found = opened.read_all()
    assert [row for table in own for row in table.to_pylist()] == found.to_pylist()
    assert {b"origin": b"a test"} == found.schema.metadata


OPTIONS = [
    ("of so many rows", ["--batch-rows", "30"], [30, 30, 15]),
    ("as they are", [], [10, 10, 5] * 3),
    ("uncompressed", ["--compression", "none"], [10, 10, 5] * 3),
    ("zstd", ["--compression", "zstd"], [10, 10, 5] * 3),
]


@pytest.mark.parametrize(("options", "rows"), [c[1:] for c in OPTIONS], ids=[c[0] for c in OPTIONS])
def test_options(capsys, tmp_path, options, rows):
    own = tables()
    paths = [write(tmp_path / f"{i}", table) for i, table in enumerate(own)]
    assert 0 == run(capsys, *options, "--ipc-format", "file", *paths, tmp_path / "out.arrows")[0]
    reader = pa.ipc.open_file(str(tmp_path / "out.arrows"))
    assert rows == [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]


def test_schemas_that_differ_are_named(capsys, tmp_path):
    first = write(tmp_path / "1", pa.table({"a": [1]}))
    second = write(tmp_path / "2", pa.table({"a": ["x"]}))
    status, out, err = run(capsys, first, second, tmp_path / "out")
    assert (1, "") == (status, out)
    assert (
        f"{second}: its schema is not that of the first file: field a: type is int64 in {first}, utf8 in {second}"
        in err
    )
    assert not (tmp_path / "out").exists()


def test_nothing_is_overwritten_and_a_failure_leaves_nothing(capsys, tmp_path):
    first = write(tmp_path / "1", pa.table({"a": ["some text"] * 30}))
    (tmp_path / "out").write_text("mine")
    status, _, err = run(capsys, first, tmp_path / "out")
    assert (1, "mine") == (status, (tmp_path / "out").read_text())
    assert "not overwritten" in err
    data = bytearray((tmp_path / "1").read_bytes())
    data[data.rindex(b"some text")] = 0xFF
    (tmp_path / "1").write_bytes(data)
    assert 1 == run(capsys, first, tmp_path / "new")[0]
    assert {"1", "out"} == {path.name for path in tmp_path.iterdir()}


UNJOINABLE = {
    "an order that has a meaning": ("ac", "ca", True, "ordered dictionaries that do not continue one another"),
    "more values than indices": (
        "".join(map(chr, range(0x4E00, 0x4E64))), "".join(map(chr, range(0x5E00, 0x5E64))), False, "200 different values",
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", ["concat", "convert", "repair", "rewrite"])
@pytest.mark.parametrize(("first", "second", "ordered", "words"), UNJOINABLE.values(), ids=UNJOINABLE)
def test_dictionaries_of_which_one_cannot_be_made_are_one_line(
    capsys, tmp_path, command, first, second, ordered, words
):
    """A stream may have one for each batch, a file has one; repair has a torn stream."""
    index = pa.array([0], pa.int8())
    batches = [
        pa.record_batch({"d": pa.DictionaryArray.from_arrays(index, pa.array(list(words)), ordered=ordered)})
        for words in (first, second)
    ]
    source, target = tmp_path / "in.arrows", tmp_path / "out.arrow"
    with pa.ipc.new_stream(str(source), batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    if command == "repair":
        source.write_bytes(source.read_bytes()[:-8] + b"\xff\xff\xff\xff\x20")
    assert 1 == main([command, str(source), str(target)])
    assert words in (said := capsys.readouterr().err)
    assert 1 == said.count("\n")
    assert [source] == [path for path in tmp_path.iterdir() if path.is_file()]


def test_footer_pairs_that_all_have_are_kept_save_our_own(capsys, tmp_path):
    table = pa.table({"a": [1]})
    one = write(tmp_path / "1", table, metadata={"k": "v", "only": "1", "spark_arrow_ipc.statistics": "old"})
    two = write(tmp_path / "2", table, metadata={"k": "v", "only": "2", "spark_arrow_ipc.statistics": "old"})
    assert 0 == run(capsys, one, two, tmp_path / "out.arrow")[0]
    assert {b"k": b"v", ROW_COUNTS_KEY.encode(): b'{"record_batch_cum_len":[1,2]}'} == (
        pa.ipc.open_file(str(tmp_path / "out.arrow")).metadata
    )
