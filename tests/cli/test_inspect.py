"""``arrowipc inspect`` says of a file what pyarrow, which wrote it, knows of it."""

import json
import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

from spark_arrow_ipc import __version__
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.cli.shared.file_metadata import read_file_metadata
from spark_arrow_ipc.errors import InvalidArrowError

pa = pytest.importorskip("pyarrow")

ESCAPE = "\x1b[31m"


def a_table():
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"unit": "none"}),
            pa.field(f"colour{ESCAPE}", pa.dictionary(pa.int8(), pa.string())),
            pa.field("tags", pa.list_(pa.field("item", pa.string(), metadata={"deep": "yes"}))),
        ],
        metadata={"origin": "a test", "long": "x" * 500},
    )
    rows = 250
    colours = pa.array(["red", "green"]).dictionary_encode().cast(schema.field(1).type)
    return pa.table(
        [
            pa.array(range(rows)),
            pa.concat_arrays([colours] * (rows // 2)),
            pa.array([["a", None]] * rows),
        ],
        schema=schema,
    )


def write(path, *, stream=False, compression=None, metadata_version=pa.ipc.MetadataVersion.V5, rows_a_batch=100):
    table = a_table()
    options = pa.ipc.IpcWriteOptions(compression=compression, metadata_version=metadata_version)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows_a_batch)
    return path


@pytest.fixture
def file(tmp_path):
    return write(str(tmp_path / "table.arrow"), compression="zstd")


def inspected(capsys, *arguments):
    status = main(["inspect", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


CASES = [
    ("file", {}, "file", ["none"], "V5"),
    ("file with lz4", {"compression": "lz4"}, "file", ["lz4"], "V5"),
    ("file with zstd", {"compression": "zstd"}, "file", ["zstd"], "V5"),
    ("file of V4", {"metadata_version": pa.ipc.MetadataVersion.V4}, "file", ["none"], "V4"),
    ("stream", {"stream": True}, "stream", ["none"], "V5"),
    ("stream with zstd", {"stream": True, "compression": "zstd"}, "stream", ["zstd"], "V5"),
]


@pytest.mark.parametrize(("options", "format_", "codecs", "version"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_json_says_what_was_written(capsys, tmp_path, options, format_, codecs, version):
    path = write(str(tmp_path / "table"), **options)
    status, out, _ = inspected(capsys, "--json", path)
    found = json.loads(out)
    assert (0, path, format_, 250, codecs) == (
        status,
        *(found[key] for key in ("path", "format", "num_rows", "compression")),
    )
    assert Path(path).stat().st_size == found["nbytes"]
    assert [100, 100, 50] == [batch["length"] for batch in found["record_batches"]]
    assert {version} == {batch["metadata_version"] for batch in found["record_batches"]}
    assert [(2, False, [f"colour{ESCAPE}"])] == [
        (d["length"], d["is_delta"], d["fields"]) for d in found["dictionaries"]
    ]
    assert [{"key": "origin", "value": "a test"}, {"key": "long", "value": "x" * 500}] == found["schema"][
        "custom_metadata"
    ]
    fields = found["schema"]["fields"]
    assert [("id", "int64", False), ("tags", "list<item: utf8>", True)] == [
        (f["name"], f["type"], f["nullable"]) for f in (fields[0], fields[2])
    ]
    assert [{"key": "unit", "value": "none"}] == fields[0]["custom_metadata"]
    assert [{"key": "deep", "value": "yes"}] == fields[2]["children"][0]["custom_metadata"]


def test_batches_lie_where_json_says(capsys, file):
    _, out, _ = inspected(capsys, "--json", file)
    whole = Path(file).read_bytes()
    for batch in json.loads(out)["record_batches"]:
        start = batch["byte_offset"]
        message = pa.ipc.read_message(whole[start : start + batch["metadata_nbytes"] + batch["body_nbytes"]])
        assert "record batch" == message.type
        assert batch["body_nbytes"] == message.body.size


def test_a_person_reads_the_main_things(capsys, file):
    status, out, err = inspected(capsys, file)
    assert (0, "") == (status, err)
    for words in (
        "Arrow IPC file",
        "250 rows in 3 record batches",
        "compression zstd",
        "schema: 3 columns",
        "origin: a test",
    ):
        assert words in out
    assert "unit: none" in out
    assert "(400 characters more)" in out


def test_no_escape_sequence_of_a_file_reaches_the_terminal(capsys, file):
    _, out, _ = inspected(capsys, file)
    assert "colour\\x1b[31m" in out
    assert "\x1b" not in out


def test_many_batches_are_cut_unless_all_are_asked_for(capsys, tmp_path):
    path = write(str(tmp_path / "many.arrow"), rows_a_batch=10)
    _, short, _ = inspected(capsys, path)
    _, full, _ = inspected(capsys, "--all", path)
    assert "and 5 more; --all shows them" in short
    assert "more; --all" not in full
    assert 5 == len(full.splitlines()) - len(short.splitlines()) + 1


def test_a_broken_path_does_not_hide_the_others(capsys, tmp_path, file):
    missing, text = str(tmp_path / "missing.arrow"), tmp_path / "text.csv"
    text.write_text("a,b\n1,2\n")
    status, out, err = inspected(capsys, missing, str(text), file)
    assert 1 == status
    assert "250 rows" in out
    first, second = err.splitlines()
    assert missing in first
    assert str(text) in second
    assert "spark.read.csv" in second


def test_a_directory_is_an_error_in_one_line(capsys, tmp_path):
    status, out, err = inspected(capsys, str(tmp_path))
    assert (1, "", 1) == (status, out, len(err.splitlines()))
    assert str(tmp_path) in err


@pytest.mark.exhaustive
@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
def test_every_truncation_is_an_error_or_a_shorter_stream(tmp_path, stream):
    """A stream may end between two messages; nothing else may end anywhere."""
    whole = Path(write(str(tmp_path / "whole"), stream=stream)).read_bytes()
    cut = tmp_path / "cut"
    sound = []
    for nbytes in range(0, len(whole), 8):
        cut.write_bytes(whole[:nbytes])
        with suppress(InvalidArrowError):
            sound.append(read_file_metadata(str(cut)).num_rows)
    # After the schema, the dictionary, and each of the three record batches.
    assert ([0, 0, 100, 200, 250] if stream else []) == sound


@pytest.mark.exhaustive
def test_every_sound_file_of_the_corpus_has_the_batches_and_rows_of_its_manifest():
    folder = os.environ.get("ARROW_IPC_CORPUS")
    if not folder:
        pytest.skip("ARROW_IPC_CORPUS is not set")
    lines = (Path(folder) / "MANIFEST.tsv").read_text().splitlines()[1:]
    files = [line.split("\t") for line in lines]
    counted = [(file[0], re.search(r"batches=(\d+) rows=(\d+)", file[5])) for file in files if file[4] == "ok"]
    expected = {path: tuple(map(int, match.groups())) for path, match in counted if match}
    metadata_of = {path: read_file_metadata(str(Path(folder) / path)) for path in expected}
    assert expected == {path: (len(o.record_batches), o.num_rows) for path, o in metadata_of.items()}
    assert len(expected) > 800


def test_version(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert 0 == stopped.value.code
    assert f"arrowipc {__version__}\n" == capsys.readouterr().out


def test_no_command_shows_the_help(capsys):
    assert 2 == main([])
    assert "inspect" in capsys.readouterr().out


def test_an_unknown_command_names_those_that_there_are(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["inspct"])
    assert 2 == stopped.value.code
    assert "'inspect'" in capsys.readouterr().err


# ---- sizes uncompressed


def uncompressed_by_pyarrow(path):
    """The bytes of each batch's buffers, as pyarrow writes the same table without a codec."""
    plain = write(f"{path}.plain")
    return [batch.block.body_nbytes for batch in read_file_metadata(plain).record_batches]


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_json_has_the_uncompressed_size_of_every_batch(capsys, tmp_path, codec, stream):
    path = write(str(tmp_path / "table"), stream=stream, compression=codec)
    _, out, _ = inspected(capsys, "--json", path)
    found = [batch["uncompressed_nbytes"] for batch in json.loads(out)["record_batches"]]
    # Without a codec, each of the 7 buffers is padded to 8 bytes.
    padded = uncompressed_by_pyarrow(path)
    assert len(padded) == len(found)
    assert all(0 <= whole - own < 7 * 8 for whole, own in zip(padded, found, strict=True))


def test_batches_that_are_not_compressed_have_no_uncompressed_size(capsys, tmp_path):
    path = write(str(tmp_path / "table"))
    _, out, _ = inspected(capsys, "--json", path)
    assert {None} == {batch["uncompressed_nbytes"] for batch in json.loads(out)["record_batches"]}
    _, out, _ = inspected(capsys, path)
    assert "compression ratio" not in out


def test_the_ratio_is_said_of_what_was_measured(capsys, tmp_path):
    path = write(str(tmp_path / "many.arrow"), compression="zstd", rows_a_batch=10)
    _, short, _ = inspected(capsys, path)
    _, full, _ = inspected(capsys, "--all", path)
    assert re.search(r"compression ratio \d+\.\d\d: [\d,]+ bytes in [\d,]+, in 21 of 26 batches", short)
    assert re.search(r"compression ratio \d+\.\d\d: [\d,]+ bytes in [\d,]+\n", full)


def test_a_body_that_makes_no_sense_does_not_hide_the_outline(tmp_path):
    path = Path(write(str(tmp_path / "table"), compression="zstd"))
    block = read_file_metadata(str(path)).record_batches[0].block
    content = bytearray(path.read_bytes())
    start = block.byte_offset + block.metadata_nbytes
    content[start : start + block.body_nbytes] = b"\x81" * block.body_nbytes
    path.write_bytes(content)
    metadata = read_file_metadata(str(path), measure=None)
    assert (None, 100) == (metadata.record_batches[0].uncompressed_nbytes, metadata.record_batches[0].length)
    assert metadata.record_batches[1].uncompressed_nbytes


def test_another_stream_after_the_first_is_told(capsys, tmp_path):
    first = Path(write(str(tmp_path / "a.arrows"), stream=True)).read_bytes()
    path = tmp_path / "both.arrows"
    path.write_bytes(first * 2)
    _, out, err = inspected(capsys, str(path))
    assert (f"  another stream begins at byte {len(first):,}, which is not shown here\n" in out, err) == (True, "")
    _, out, _ = inspected(capsys, "--json", str(path))
    assert len(first) == json.loads(out)["next_stream_byte_offset"]
    main(["validate", str(path)])
    assert f"another stream begins at byte {len(first):,}" in capsys.readouterr().out
