"""``arrowipc layout``: draw the bytes of a file, as SVG, or as HTML around it, without any other file.

How it works: three parts show the file from its first byte to its last, each record batch with its columns, and each
column with its buffers. Widths are bytes, colours are compression ratios. All text of a file is escaped, and neighbours
too narrow to be seen are drawn as one, so that a picture has a bounded size. Only headers, and 8 bytes of compressed
buffers, are read.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

import numpy as np

from spark_arrow_ipc.arrow.layout import Role
from spark_arrow_ipc.cli.shared import files, terminal
from spark_arrow_ipc.cli.shared.file_metadata import FILE, MEASURED, MEMORY, FileLayout, Group, read_layout
from spark_arrow_ipc.cli.shared.files import STDIN
from spark_arrow_ipc.errors import OptionError, printable
from spark_arrow_ipc.ipc.columns.batch_layout import ROLES
from spark_arrow_ipc.ipc.constants import Int64s

_WIDTH: Final = 1240
_LEFT: Final = 200
_RIGHT: Final = 260
_BAR: Final = _WIDTH - _LEFT - _RIGHT
_ROW: Final = 24
# Pixels of the narrowest part with a box of its own
_NARROWEST: Final = 3.0

# Columns with a line of their own: the largest ones, in the order of the schema
_MOST_COLUMNS: Final = 40

_ANCHORS: Final = ("start", "middle", "middle", "middle", "end")

# Pixels of a letter in the small type
_LETTER: Final = 7.0

# Range of ratios, its colour and its name
_STEPS: Final = (
    (0.0, 0.995, "#f2a65e", "under 1: larger in the file"),
    (0.995, 1.05, "#e3eaf1", "1"),
    (1.05, 1.5, "#c3d9ee", "1.05 to 1.5"),
    (1.5, 2.5, "#93c1e3", "1.5 to 2.5"),
    (2.5, 5.0, "#5a9fd4", "2.5 to 5"),
    (5.0, 10.0, "#2b7bba", "5 to 10"),
    (10.0, float("inf"), "#0b4a8f", "over 10"),
)

_PLAIN: Final = "#e4dcc8"
_UNKNOWN: Final = "#cccccc"
_METADATA: Final = "#4a4a4a"
_DICTIONARY: Final = "#b79ad6"
_DARK: Final = ("#2b7bba", "#0b4a8f", _METADATA, "#5a9fd4")

# Names of buffers for people
_BUFFERS: Final = {
    Role.VALIDITY: "nulls",
    Role.DATA: "values",
    Role.OFFSETS: "offsets",
    Role.BYTES: "bytes",
    Role.VIEWS: "views",
    Role.VARIADIC: "bytes of views",
    Role.POSITIONS: "positions",
    Role.SIZES: "sizes",
    Role.TYPE_IDS: "type ids",
}


def page(layout: FileLayout, drawn: str) -> str:
    """Return the picture as a page."""
    title = escape(terminal.cut(layout.path, 200))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        "<style>body{margin:24px;background:#fff}svg{min-width:900px;max-width:100%;height:auto}"
        "@media(prefers-color-scheme:dark){body{background:#1b1d23}}</style></head>\n"
        f"<body>\n{drawn}\n</body></html>\n"
    )


def draw(layout: FileLayout) -> str:
    """Return the picture as SVG."""
    canvas = _Canvas()
    _head(canvas, layout)
    _whole(canvas, layout)
    _legend(canvas, layout)
    _batches(canvas, layout)
    _columns(canvas, layout)
    return canvas.svg()


class _Canvas:
    """Collects the elements of an SVG from top to bottom."""

    def __init__(self) -> None:
        self._elements: list[str] = []
        self.y = 0.0

    def text(self, x: float, words: str, kind: str = "t", *, y: float | None = None, anchor: str = "start") -> None:
        self._elements.append(
            f'<text class="{kind}" x="{x:.1f}" y="{self.y if y is None else y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def box(self, x: float, size: tuple[float, float], colour: str, about: str, label: str = "") -> None:
        width, height = size
        top = self.y
        # An edge would cover a narrow box.
        edge = ' stroke="#fff" stroke-width="0.8"' if width > 2 * _NARROWEST else ""
        self._elements.append(
            f'<rect x="{x:.2f}" y="{top:.1f}" width="{max(width, 0.3):.2f}" height="{height:.0f}" fill="{colour}"{edge}>'
            f"<title>{escape(about)}</title></rect>"
        )
        shown = _fitting(label, width - 6)
        if shown:
            # White letters on dark colours.
            kind = "w" if colour in _DARK else "b"
            self.text(x + width / 2, shown, kind, y=top + height / 2 + 4, anchor="middle")

    def svg(self) -> str:
        style = (
            "text{font:12px system-ui,sans-serif;fill:#222}.h{font-size:20px;font-weight:600}.s{font-size:15px;font-weight:600}"
            ".n{fill:#666}.b{font-size:11px}.w{font-size:11px;fill:#fff}.r{font-size:11px;fill:#666}.p{fill:#fff}"
            "@media(prefers-color-scheme:dark){.t,.h,.s{fill:#e2e4e9}.n,.r{fill:#a4a8b3}.p{fill:#1b1d23}rect[stroke]{stroke:#1b1d23}}"
        )
        height = self.y + 16
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height:.0f}" viewBox="0 0 {_WIDTH} {height:.0f}">'
            f'<style>{style}</style><rect class="p" width="100%" height="100%"/>\n'
            + "\n".join(self._elements)
            + "\n</svg>"
        )


def _fitting(label: str, width: float) -> str:
    """Return a label cut to a width, or nothing if the width has too few letters."""
    most = int(width / _LETTER)
    if len(label) <= most:
        return label
    return f"{label[: most - 1]}…" if most >= 5 else ""


def _ratio(sizes: Sequence[int]) -> float | None:
    return sizes[MEMORY] / sizes[MEASURED] if sizes[MEASURED] else None


def _colour(layout: FileLayout, sizes: Sequence[int]) -> str:
    ratio = _ratio(sizes)
    if layout.metadata.compressions in {("none",), ()}:
        return _PLAIN
    if ratio is None:
        return _UNKNOWN
    # The last step has no upper end, so that each ratio has a colour.
    return next(colour for low, high, colour, _ in _STEPS if low <= ratio < high)


def _compression(sizes: Sequence[int]) -> str:
    ratio = _ratio(sizes)
    if ratio is None:
        return ""
    return (
        f", {_size(sizes[MEMORY])} in memory (ratio {ratio:.2f})"
        if sizes[MEASURED] == sizes[FILE]
        else f", ratio {ratio:.2f}"
    )


def _size(nbytes: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if nbytes < 1024 or unit == "GiB":
            # Bytes have no decimal.
            return f"{nbytes:,.0f} {unit}" if unit == "bytes" else f"{nbytes:,.1f} {unit}"
        nbytes /= 1024
    raise AssertionError("the last unit holds any number")


def _head(canvas: _Canvas, layout: FileLayout) -> None:
    metadata = layout.metadata
    canvas.y = 30
    canvas.text(0, terminal.cut(layout.path, 110), "h")
    canvas.y += 22
    codecs = ", ".join(metadata.compressions) or "none"
    canvas.text(
        0,
        f"Arrow IPC {metadata.format} of {_size(metadata.nbytes)}: {terminal.count(metadata.num_rows, 'row')} of "
        f"{terminal.count(len(metadata.schema), 'column')} in "
        f"{terminal.count(len(metadata.record_batches), 'record batch', 'record batches')}; compression: {codecs}",
        "n",
    )
    canvas.y += 34


def _section(canvas: _Canvas, title: str, words: str) -> None:
    canvas.text(0, title, "s")
    canvas.y += 18
    canvas.text(0, words, "n")
    canvas.y += 12


def _whole(canvas: _Canvas, layout: FileLayout) -> None:
    _section(canvas, "The file, from its first byte to its last", "Rest the pointer on a part to read its numbers.")
    total = max(layout.metadata.nbytes, 1)
    scale = _WIDTH / total
    height = 40.0
    for start, stop, colour, about, label in _parts(layout):
        canvas.box(start * scale, ((stop - start) * scale, height), colour, about, label)
    canvas.y += height + 14
    for quarter in range(5):
        anchor = _ANCHORS[quarter]
        canvas.text(_WIDTH * quarter / 4, _size(total * quarter / 4) if quarter else "0", "r", anchor=anchor)
    canvas.y += 26


def _parts(layout: FileLayout) -> Iterator[tuple[int, int, str, str, str]]:
    """Yield start, stop, colour, tooltip and label of all parts of a file, in order."""
    metadata = layout.metadata
    places = [(group.start, group.stop, group) for group in layout.groups]
    dictionaries = [(b.block.byte_offset, b.block.byte_offset + b.block.nbytes) for b in metadata.dictionaries]
    parts: list[tuple[int, int, str, str, str]] = []
    for start, stop, group in places:
        sizes = group.columns.sum(axis=1).tolist()
        name = _name(group)
        about = f"{name}: {terminal.count(group.rows, 'row')}, {_size(stop - start)}{_compression(sizes)}, from byte {start:,}"
        label = name if group.first == group.last else f"{group.first:,}…"
        parts.append((start, stop, _colour(layout, sizes), about, label))
    for start, stop in _runs(dictionaries, [number for number, *_ in places]):
        parts.append(
            (start, stop, _DICTIONARY, f"dictionaries: {_size(stop - start)}, from byte {start:,}", "dictionaries")
        )
    # Dictionaries and record batches may alternate, and are drawn by their offsets.
    parts.sort()
    if not parts:
        yield 0, metadata.nbytes, _METADATA, f"schema and end: {_size(metadata.nbytes)}", "schema and end"
        return
    start_of_parts, end_of_parts = parts[0][0], max(part[1] for part in parts)
    yield 0, start_of_parts, _METADATA, f"start and schema: {_size(start_of_parts)}", "schema"
    yield from parts
    what = "footer: schema, places of all batches, metadata" if metadata.format == "file" else "end of the stream"
    if end_of_parts < metadata.nbytes:
        yield (
            end_of_parts,
            metadata.nbytes,
            _METADATA,
            f"{what}: {_size(metadata.nbytes - end_of_parts)}, from byte {end_of_parts:,}",
            what.partition(":")[0],
        )


def _runs(places: list[tuple[int, int]], others: list[int]) -> Iterator[tuple[int, int]]:
    """Join neighbours among `places` unless one of the `others` is between them."""
    others = sorted(others)
    run: tuple[int, int] | None = None
    for start, stop in sorted(places):
        apart = run is not None and np.searchsorted(others, run[1]) != np.searchsorted(others, start)
        if run is None or apart:
            if run is not None:
                yield run
            run = start, stop
        else:
            run = run[0], max(run[1], stop)
    if run is not None:
        yield run


def _name(group: Group) -> str:
    return f"batch {group.first:,}" if group.first == group.last else f"batches {group.first:,} to {group.last:,}"


def _legend(canvas: _Canvas, layout: FileLayout) -> None:
    items: list[tuple[str, str]] = []
    if layout.metadata.compressions not in {("none",), ()}:
        canvas.text(0, "Colour: bytes in memory for each byte in the file", "n", y=canvas.y + 11)
        items += [(colour, name) for _, _, colour, name in _STEPS]
        items.append((_UNKNOWN, "not measured"))
        canvas.y += 22
    else:
        items.append((_PLAIN, "not compressed"))
    x = 0.0
    items.append((_METADATA, "schema, headers, footer"))
    if layout.metadata.dictionaries:
        items.append((_DICTIONARY, "dictionaries"))
    for colour, name in items:
        canvas.box(x, (16, 14), colour, name)
        canvas.text(x + 21, name, "n", y=canvas.y + 11)
        x += 36 + len(name) * 6.6
    canvas.y += 50


def _batches(canvas: _Canvas, layout: FileLayout) -> None:
    if not layout.groups:
        return
    _section(
        canvas,
        "Record batches and their columns",
        "The length of a bar is its bytes in the file; its parts are the columns in order.",
    )
    longest = max(group.stop - group.start for group in layout.groups) or 1
    names = layout.metadata.schema.names
    for group in layout.groups:
        canvas.text(_LEFT - 10, _name(group), y=canvas.y + 16, anchor="end")
        scale = _BAR / longest
        x = float(_LEFT)
        canvas.box(x, (group.metadata_nbytes * scale, _ROW - 4), _METADATA, f"headers: {_size(group.metadata_nbytes)}")
        x += group.metadata_nbytes * scale
        for begin, end, sizes in _neighbours(group.columns, scale):
            name = names[begin] if begin == end else f"columns {begin:,} to {end:,}"
            about = f"{terminal.cut(name)}: {_size(sizes[FILE])}{_compression(sizes)}; {_name(group)}"
            canvas.box(
                x, (sizes[FILE] * scale, _ROW - 4), _colour(layout, sizes), about, _short(terminal.cut(name), 40)
            )
            x += sizes[FILE] * scale
        words = f"{_size(group.stop - group.start)}, {terminal.count(group.rows, 'row')}"
        canvas.text(x + 8, words, "r", y=canvas.y + 15)
        canvas.y += _ROW
    canvas.y += 34


def _neighbours(columns: Int64s, scale: float) -> Iterator[tuple[int, int, list[int]]]:
    """Yield first column, last column and sizes: columns too narrow to be seen are joined with their neighbours."""
    begin, held = 0, np.zeros(3, np.int64)
    for i in range(columns.shape[1]):
        column = columns[:, i]
        if column[FILE] * scale >= _NARROWEST:
            if held.any():
                yield begin, i - 1, held.tolist()
            yield i, i, column.tolist()
            begin, held = i + 1, np.zeros(3, np.int64)
            continue
        held = held + column
        if held[FILE] * scale >= _NARROWEST:
            yield begin, i, held.tolist()
            begin, held = i + 1, np.zeros(3, np.int64)
    if held.any():
        yield begin, columns.shape[1] - 1, held.tolist()


def _columns(canvas: _Canvas, layout: FileLayout) -> None:
    totals = layout.buffers.sum(axis=2)
    count = totals.shape[1]
    if not layout.groups or not count:
        return
    # The order of the schema, as people look for a column by its neighbours.
    most = np.sort(np.argsort(-totals[FILE], kind="stable")[:_MOST_COLUMNS])
    which = "Columns" if count <= _MOST_COLUMNS else f"The {_MOST_COLUMNS} largest of {count:,} columns"
    _section(
        canvas,
        f"{which} and their buffers",
        "All record batches together. On the right the bytes in the file, the bytes in memory for each of them, the type.",
    )
    scale = _BAR / max(int(totals[FILE].max()), 1)
    fields = layout.metadata.schema.fields
    for i in most.tolist():
        field = fields[i]
        canvas.text(_LEFT - 10, _short(terminal.cut(field.name), 26), y=canvas.y + 16, anchor="end")
        x = float(_LEFT)
        for role, sizes in zip(ROLES, layout.buffers[:, i].T.tolist(), strict=True):
            if sizes[FILE]:
                about = f"{terminal.cut(field.name)} ({terminal.cut(str(field.type), 200)}), {_BUFFERS[role]}: {_size(sizes[FILE])}{_compression(sizes)}"
                canvas.box(x, (sizes[FILE] * scale, _ROW - 4), _colour(layout, sizes), about, _BUFFERS[role])
                x += sizes[FILE] * scale
        total = totals[:, i].tolist()
        ratio = _ratio(total)
        plain = ratio is None or layout.metadata.compressions == ("none",)
        words = f"{_size(total[FILE])}{'' if plain else f', ratio {ratio:.2f}'}, {_short(terminal.cut(str(field.type)), 60)}"
        canvas.text(x + 8, _fitting(words, _WIDTH - x - 8), "r", y=canvas.y + 15)
        canvas.y += _ROW
    if count > len(most):
        others = int(totals[FILE].sum() - totals[FILE][most].sum())
        canvas.text(_LEFT, f"{count - len(most):,} other columns: {_size(others)}", "n", y=canvas.y + 16)
        canvas.y += _ROW


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


# The formats of names
_ENDINGS = {"svg": "svg", "html": "html", "htm": "html"}


def layout_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc layout``."""
    files.add_path_arguments(parser)
    parser.add_argument(
        "target", metavar="TARGET", help="the picture to write: .svg, or .html; - writes HTML to stdout"
    )
    files.add_force_argument(parser)


def run_layout(arguments: argparse.Namespace) -> int:
    """Write the picture of one file."""
    target = arguments.target
    sources = list(files.list_inputs(arguments))
    if len(sources) != 1:
        raise OptionError(f"a picture is of one file, and the paths stand for {len(sources):,}; name one of them")
    form = "html" if target == STDIN else files.format_of(target, _ENDINGS, "give another name")
    if target != STDIN:
        files.check_target(arguments, target, sources)
    # After the checks of the target, as reading headers of a large file takes seconds.
    layout = read_layout(sources[0])
    drawn = draw(layout)
    text = drawn if form == "svg" else page(layout, drawn)
    with files.open_target(arguments, target) as sink:
        sink.write(text.encode())
    if target != STDIN:
        print(f"{printable(target)}: {terminal.count(len(text.encode()), 'byte')}")
    return 0
