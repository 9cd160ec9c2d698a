"""What ``arrowipc repair`` says of a damaged file is true: a table of damages, with what is kept and what is said."""

import io
import re
import struct

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.ipc.flatbuf import builder, reader, tables

pa = pytest.importorskip("pyarrow")

EOS = b"\xff\xff\xff\xff" + bytes(4)
BATCHES, EACH = 10, 10


def written(kind, batches=BATCHES, each=EACH, schema_metadata=None, first=0):
    """Return a file or stream by pyarrow; the last buffer of each batch is that of indices, which may all be zero."""
    sink = io.BytesIO()
    words = pa.array(["red", "green"] * (each // 2), pa.string()).dictionary_encode()
    schema = pa.schema({"a": pa.int64(), "s": pa.string(), "d": words.type}, metadata=schema_metadata)
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with make(sink, schema) as writer:
        for start in range(first, first + batches * each, each):
            rows = range(start, start + each)
            writer.write_batch(pa.record_batch([pa.array(rows), pa.array([f"text {i}" for i in rows]), words], schema))
    return sink.getvalue()


FILE, STREAM = written("file"), written("stream")


def blocks_of(data):
    with ipc.open(data) as opened:
        if opened.is_numbered:
            return list(opened.blocks)
        return [batch.block for batch in opened.index().batches]


BLOCKS = {"file": blocks_of(FILE), "stream": blocks_of(STREAM)}
ENDS = {kind: blocks[-1].byte_offset + blocks[-1].nbytes for kind, blocks in BLOCKS.items()}


def start_of(kind, number):
    return BLOCKS[kind][number].byte_offset


def with_bytes(data, start, new):
    return data[:start] + new + data[start + len(new) :]


def zeros_from(data, start):
    return data[:start] + bytes(len(data) - start)


def footer_start(data):
    return len(data) - 10 - struct.unpack("<i", data[-10:-6])[0]


def with_blocks(change, marker=EOS):
    """Return the file with another list of blocks in its footer, which `change` makes of the numbers of all."""
    schema = reader.to_mapping(reader.root(memoryview(FILE)[footer_start(FILE) : -10], tables.FOOTER))["schema"]
    with ipc.open(FILE) as opened:
        dictionaries = [tuple(block) for block in opened.dictionary_blocks]
    dictionaries, blocks = change(dictionaries, [tuple(block) for block in BLOCKS["file"]])
    footer = {"version": 4, "schema": schema, "dictionaries": dictionaries, "recordBatches": blocks}
    data = builder.build(tables.FOOTER, footer)
    return FILE[: ENDS["file"]] + marker + data + struct.pack("<i", len(data)) + b"ARROW1"


def over(new, old):
    """Return a file that was written over a longer one without truncation."""
    assert len(new) < len(old)
    return new + old[len(new) :]


def lost(kind, data, start):
    return (
        rf"  lost: {len(data) - start:,} bytes? from byte offset {start:,} on, after the last complete record batch: .+"
    )


SOUND = "  nothing was lost: the file was sound"
FOOTER = "  the footer was damaged, and custom metadata in it is lost; all 10 record batches are kept: .+"
TORN, TORN_STREAM = FILE[: start_of("file", 7) + 100], STREAM[: start_of("stream", 7) + 100]
AT7, STREAM_AT7 = start_of("file", 7), start_of("stream", 7)
BROKEN_HEADER = with_bytes(FILE, start_of("file", 4) + 8, b"\xff" * 40)
SMALLER, SMALLER_STREAM = written("file", 3), written("stream", 3)
OTHER_SIZES = written("file", 2, 6)
OTHER_SCHEMA = written("file", 3, schema_metadata={"k": "v" * 100})
NOISE = b"PAR1" + bytes(range(1, 256)) * 100
NO_MARKER = STREAM[: ENDS["stream"]]


def foreign(noun, new, data):
    return (
        rf"  nothing was lost: the {noun} ends at byte offset {len(new):,}; {len(data) - len(new):,} bytes? after it, "
        "which are no part of it, were not copied"
    )


def cut(noun, start):
    return rf"  lost: what followed byte offset {start:,}, if anything did: the {noun} ends there without its .* marker"


def zeros(data, start):
    return rf"  lost: {len(data) - start:,} bytes? from byte offset {start:,} on, which are zeros"


# Damage, bytes, numbers of the record batches that are kept, lines after the first.
DAMAGES = [
    ("a sound file", FILE, range(10), [SOUND]),
    ("a sound stream", STREAM, range(10), [SOUND]),
    ("a file with a torn tail", TORN, range(7), [lost("file", TORN, AT7)]),
    ("a file that ends between two batches", FILE[:AT7], range(7), [cut("file", AT7)]),
    ("a file that ends within a prefix", FILE[: AT7 + 3], range(7), [lost("file", FILE[: AT7 + 3], AT7)]),
    ("a file that ends after its marker", FILE[: ENDS["file"] + 8], range(10), [FOOTER]),
    ("a torn footer", FILE[:-100], range(10), [FOOTER]),
    ("a wrong magic at the end", FILE[:-1] + b"2", range(10), [FOOTER]),
    ("a wrong length of the footer", with_bytes(FILE, len(FILE) - 10, b"\xff\xff\xff\x7f"), range(10), [FOOTER]),
    ("noise for a footer", with_bytes(FILE, footer_start(FILE), b"\xee" * 200), range(10), [FOOTER]),
    ("zeros for a footer", zeros_from(FILE, ENDS["file"] + 8), range(10), [FOOTER]),
    ("a file with a tail of zeros", zeros_from(FILE, AT7), range(7), [zeros(FILE, AT7)]),
    ("zeros that begin in a record batch", zeros_from(FILE, AT7 - 64), range(7), [zeros(FILE, AT7) + "; the record batch before them ends in zeros too, and may have lost values"]),
    ("a footer that omits a block", with_blocks(lambda d, b: (d, b[:-1])), range(10), [FOOTER]),
    ("a footer that omits a dictionary", with_blocks(lambda d, b: (d[1:], b)), range(10), [FOOTER]),
    ("a footer that repeats a block", with_blocks(lambda d, b: (d, [*b[:-1], b[0]])), range(10), [FOOTER]),
    ("a footer whose blocks overlap", with_blocks(lambda d, b: (d, [b[0], (b[1][0] - 8, *b[1][1:]), *b[2:]])), range(10), [FOOTER]),
    ("a footer with a block after its end", with_blocks(lambda d, b: (d, [*b[:-1], (1 << 40, *b[-1][1:])])), range(10), [FOOTER]),
    ("a footer that repeats a block, after no marker", with_blocks(lambda d, b: (d, [*b[:-1], b[0]]), b""), range(10), [FOOTER]),
    ("a footer after no marker", with_blocks(lambda d, b: (d, b), b""), range(10), [SOUND]),
    ("a footer in another order", with_blocks(lambda d, b: (d, b[::-1])), range(9, -1, -1), [SOUND]),
    ("a broken header in the middle", BROKEN_HEADER, [0, 1, 2, 3, 5, 6, 7, 8, 9], ["  lost: record batch 4, an unknown number of rows: .+"]),
    ("a broken header and a torn footer", BROKEN_HEADER[:-20], range(4), [lost("file", BROKEN_HEADER[:-20], start_of("file", 4))]),
    ("broken values and a torn footer", FILE.replace(b"text 40", b"\xffext 40")[:-20], [0, 1, 2, 3, 5, 6, 7, 8, 9], ["  lost: record batch 4, 10 rows: .+UTF-8.+", "  the footer was damaged, and custom metadata in it is lost: .+"]),
    ("zeros over a header in the middle", with_bytes(FILE, start_of("file", 4), bytes(64)), [0, 1, 2, 3, 5, 6, 7, 8, 9], ["  lost: record batch 4, an unknown number of rows: .+"]),
    ("a file over a longer one", over(SMALLER, FILE), range(3), [foreign("file", SMALLER, FILE)]),
    ("a file over a longer one of other sizes", over(OTHER_SIZES, FILE), None, [foreign("file", OTHER_SIZES, FILE)]),
    ("a file over a longer one of another schema", over(OTHER_SCHEMA, FILE), range(3), [foreign("file", OTHER_SCHEMA, FILE)]),
    ("a file over a longer stream", over(SMALLER, STREAM), range(3), [foreign("file", SMALLER, STREAM)]),
    ("a file over longer bytes of another kind", over(SMALLER, NOISE), range(3), [foreign("file", SMALLER, NOISE)]),
    ("a file and zeros", FILE + bytes(4096), range(10), [foreign("file", FILE, FILE + bytes(4096))]),
    ("two files, one after the other", FILE + SMALLER, range(10), [foreign("file", FILE, FILE + SMALLER)]),
    ("a stream with a torn tail", TORN_STREAM, range(7), [lost("stream", TORN_STREAM, STREAM_AT7)]),
    ("a stream that ends between two batches", STREAM[:STREAM_AT7], range(7), [cut("stream", STREAM_AT7)]),
    ("a stream without its marker", NO_MARKER, range(10), [cut("stream", len(NO_MARKER))]),
    ("a stream with a tail of zeros", zeros_from(STREAM, STREAM_AT7), range(7), [zeros(STREAM, STREAM_AT7)]),
    ("a stream with a broken header in the middle", with_bytes(STREAM, start_of("stream", 4) + 8, b"\xff" * 40), range(4), [lost("stream", STREAM, start_of("stream", 4))]),
    ("a stream and zeros", STREAM + bytes(4096), range(10), [SOUND]),
    ("a stream and other bytes", STREAM + NOISE, range(10), [foreign("stream", STREAM, STREAM + NOISE)]),
    ("a stream over a longer one", over(SMALLER_STREAM, STREAM), range(3), [foreign("stream", SMALLER_STREAM, STREAM)]),
    ("a stream over a longer file", over(SMALLER_STREAM, FILE), range(3), [foreign("stream", SMALLER_STREAM, FILE)]),
    ("two streams, one after the other", STREAM + written("stream", 2, first=100), range(12), [SOUND]),
    ("a stream and one of another table", STREAM + pa.schema({"b": pa.int8()}).serialize().to_pybytes() + EOS, range(10), [r"  nothing was lost: the stream ends at byte offset .+; \d+ bytes after it, which are no part of it, were not copied"]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::spark_arrow_ipc.ipc.ConcatenatedStreamsWarning")
@pytest.mark.parametrize(("data", "kept", "says"), [c[1:] for c in DAMAGES], ids=[c[0] for c in DAMAGES])
def test_the_report_of_a_repair_is_true(capsys, tmp_path, data, kept, says):
    source, target = tmp_path / "x", tmp_path / "y.arrow"
    source.write_bytes(data)
    assert 0 == main(["repair", str(source), str(target)])
    lines = capsys.readouterr().out.splitlines()
    expected = [EACH * number + i for number in kept for i in range(EACH)] if kept is not None else [*range(12)]
    copied = pa.ipc.open_file(str(target))
    assert expected == copied.read_all()["a"].to_pylist()
    assert f"{target}: kept {copied.num_record_batches} record batches, {len(expected)} rows" == lines[0]
    assert len(says) == len(lines[1:]), lines
    for pattern, line in zip(says, lines[1:], strict=True):
        assert re.fullmatch(pattern, line), line
    assert data == source.read_bytes()


REFUSED = [
    "a footer that omits a block", "a footer that omits a dictionary", "a footer that repeats a block", "a footer whose blocks overlap",
    "a footer with a block after its end", "zeros over a header in the middle",
    "a file over a longer one", "a file over a longer one of other sizes", "a file over a longer one of another schema",
]  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_repair_can_save_is_refused_with_its_name(capsys, tmp_path, name):
    (data,) = (case[1] for case in DAMAGES if case[0] == name)
    (tmp_path / "x.arrow").write_bytes(data)
    assert 1 == main(["cat", str(tmp_path / "x.arrow")])
    assert "`arrowipc repair`" in capsys.readouterr().err
