"""``arrowipc layout`` draws the bytes that pyarrow's buffers have, in a picture of bounded size."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from spark_arrow_ipc.arrow.layout import Role
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.cli.shared.file_metadata import FILE, MEASURED, MEMORY, read_layout
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.ipc.columns.batch_layout import ROLES

pa = pytest.importorskip("pyarrow")
SVG = "{http://www.w3.org/2000/svg}"


def write(path, table, codec=None, step=None, make=pa.ipc.new_file):
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with make(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=step)
    return str(path)


TABLE = pa.table(
    {
        "numbers": np.arange(1000),
        "strings": [None if i % 7 == 0 else "x" * (i % 50) for i in range(1000)],
        "encoded": pa.array(["a", "b"] * 500).dictionary_encode(),
    }
)


def drawn(capsys, path, target):
    assert 0 == main(["layout", path, str(target)])
    capsys.readouterr()
    text = target.read_text()
    return text, ET.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])


@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_bytes_are_those_of_pyarrows_buffers(tmp_path, codec, make):
    layout = read_layout(Input(write(tmp_path / "x.arrow", TABLE, codec, 300, make)))
    assert [300, 300, 300, 100] == [group.rows for group in layout.groups]
    memory = dict(zip(ROLES, layout.buffers[MEMORY, 1].tolist(), strict=True))
    offsets = sum(4 * (rows + 1) for rows in (300, 300, 300, 100))
    text = sum(len(value) for value in TABLE["strings"].to_pylist() if value)
    assert offsets == memory[Role.OFFSETS]
    assert text <= memory[Role.BYTES] < text + 4 * 64  # pyarrow pads the bytes of a slice
    assert 8000 == layout.buffers[MEMORY, 0].sum()
    assert layout.buffers[FILE].tolist() == layout.buffers[MEASURED].tolist()
    assert bool(layout.buffers[FILE].sum() < layout.buffers[MEMORY].sum()) is (codec is not None)
    assert sum(layout.buffers[FILE].sum(axis=1)) == sum(group.columns[FILE].sum() for group in layout.groups)


def test_the_picture_covers_the_file_and_needs_nothing_else(capsys, tmp_path):
    path = write(tmp_path / "x.arrow", TABLE, "zstd", 300)
    text, svg = drawn(capsys, path, tmp_path / "x.html")
    assert ["http://www.w3.org/2000/svg"] == re.findall(r"https?://[^\"]+", text)
    strip = [box for box in svg.iter(f"{SVG}rect") if box.get("height") == "40"]
    starts = [float(box.get("x")) for box in strip]
    ends = [start + float(box.get("width")) for start, box in zip(starts, strip, strict=True)]
    assert (0, True) == (starts[0], abs(ends[-1] - 1240) < 1)
    assert all(abs(end - start) < 1 for end, start in zip(ends[:-1], starts[1:], strict=True))
    tips = [title.text for title in svg.iter(f"{SVG}title")]
    assert any(re.fullmatch(r"strings \(utf8\), offsets: .*in memory \(ratio .*\)", tip) for tip in tips)
    assert any(tip.startswith("dictionaries: ") for tip in tips)


def test_names_are_escaped(capsys, tmp_path):
    hostile = "</svg><script>alert(1)</script>&\"'\x1b\u202e"
    path = write(tmp_path / "<b>&.arrow", pa.table({hostile: [1]}).replace_schema_metadata({"<script>": "<script>"}))
    for target in ("x.svg", "x.html"):
        text, svg = drawn(capsys, path, tmp_path / target)
        assert "<script" not in text
        assert not {"\x1b", "\u202e"} & set(text)
        assert any("<script>" in words.text for words in svg.iter(f"{SVG}title"))


WIDE = pa.table({f"column {i}": [i] for i in range(10_000)})
BOUNDED = [("10,000 columns", WIDE, None), ("10,000 batches", pa.table({"a": range(10_000)}), 1)]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("table", "step"), [c[1:] for c in BOUNDED], ids=[c[0] for c in BOUNDED])
def test_a_picture_is_bounded(capsys, tmp_path, table, step):
    path = write(tmp_path / "x.arrow", table, "lz4", step)
    text, svg = drawn(capsys, path, tmp_path / "x.svg")
    assert len(text) < 200_000
    assert float(svg.get("height")) < 2500
    assert table.num_rows == sum(group.rows for group in read_layout(Input(path)).groups)


@pytest.mark.parametrize(
    "table",
    [pa.table({}), TABLE.slice(0, 0), pa.table({"n": pa.nulls(5)})],
    ids=["no columns", "no rows", "no buffers"],
)
@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
def test_files_without_bytes_are_drawn_too(capsys, tmp_path, table, make):
    drawn(capsys, write(tmp_path / "x.arrow", table, make=make), tmp_path / "x.svg")


def test_no_words_leave_the_picture(capsys, tmp_path):
    """Widths are those of a wide font: 0.6 of its size for a letter."""
    long = pa.table({"a name of a column " * 5: pa.array([{"x": i, "tags": ["a", "b"]} for i in range(1000)])})
    _, svg = drawn(capsys, write(tmp_path / "x.arrow", long, "zstd"), tmp_path / "x.svg")
    texts = [(words, len(words.text) * (6.6 if words.get("class") == "r" else 7.2)) for words in svg.iter(f"{SVG}text")]
    places = [(float(words.get("x")), width, words) for words, width in texts if words.get("class") in {"t", "r"}]
    assert any("…" in words.text for _, _, words in places)
    for x, width, words in places:
        start = x - {"start": 0, "middle": width / 2, "end": width}[words.get("text-anchor")]
        assert start >= 0, words.text
        assert start + width <= 1240, words.text
