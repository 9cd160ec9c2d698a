"""Draw the pictures of docs/pictures/ as SVG, in the colours of a light and of a dark page.

::

    python docs/site/pictures.py          # writes docs/pictures/*.svg; tests/test_pictures.py compares

Every text is measured by its number of characters, in a font whose characters are equally wide, so that none leaves its box.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "pictures"

_CHARACTER, _LINE = 7.3, 17

_STYLE = """
  text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1b2a33 }
  .title { font-weight: bold }
  .faint { fill: #4f626d }
  rect { fill: #eef5f5; stroke: #3d7d80 }
  .strong rect, rect.strong { fill: #c9e5e3 }
  .bad rect, rect.bad { fill: #fbe3dc; stroke: #b3472a }
  .back { fill: #ffffff; stroke: none }
  path { stroke: #3d7d80; fill: none; stroke-width: 1.5 }
  .tip { fill: #3d7d80; stroke: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6eef0 }
    .faint { fill: #a9bbc2 }
    rect { fill: #1d2b31; stroke: #69b8b3 }
    .strong rect, rect.strong { fill: #1f4a4b }
    .bad rect, rect.bad { fill: #4a2820; stroke: #e58b6c }
    .back { fill: #1e2129; stroke: none }
    path { stroke: #69b8b3 }
    .tip { fill: #69b8b3 }
  }
"""


class Picture:
    """Boxes, lines of text and arrows on a page of a size."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []

    def text(self, x: float, y: float, line: str, kind: str = "") -> None:
        """Write a line, which must end on the page."""
        if x + len(line) * _CHARACTER > self.width:
            raise ValueError(f"{self.title}: {line!r} does not fit on the page; shorten it")
        self._parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(line)}</text>')

    def box(self, x: float, y: float, width: float, height: float, lines: list[str], *, kind: str = "") -> None:
        """Draw a box whose first line is its title, and whose lines must fit."""
        if max(map(len, lines), default=0) * _CHARACTER > width - 16 or len(lines) * _LINE > height - 6:
            raise ValueError(f"{self.title}: {lines[0]!r} does not fit in its box; make it larger")
        self._parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="{kind}"/>')
        for number, line in enumerate(lines):
            self.text(x + 9, y + 18 + number * _LINE, line, "" if number else "title")

    def arrow(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """Draw an arrow, straight down or to the right."""
        self._parts.append(f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}"/>')
        tip = f"M{to_x - 4:g} {to_y - 7:g}h8l-4 7z" if x == to_x else f"M{to_x - 7:g} {to_y - 4:g}v8l7 -4z"
        self._parts.append(f'<path class="tip" d="{tip}"/>')

    def link(self, x: float, y: float, to_x: float) -> None:
        """Draw an arrow to the right that also points back."""
        self.arrow(x, y, to_x, y)
        self._parts.append(f'<path class="tip" d="M{x + 7:g} {y - 4:g}v8l-7 -4z"/>')

    def svg(self) -> str:
        """Return the picture, with a title for those who hear it."""
        body = "\n".join(self._parts)
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self.title)}">\n'
            f"<title>{escape(self.title)}</title>\n<style>{_STYLE}</style>\n"
            f'<rect class="back" width="{self.width}" height="{self.height}"/>\n{body}\n</svg>\n'
        )


def overview() -> Picture:
    """Draw who reads and writes the files of a table."""
    picture = Picture(760, 190, "Spark and other programs read and write the same Arrow files")
    picture.box(
        20,
        16,
        200,
        108,
        ["Apache Spark", "DataFrames, SQL,", "streams, functions", "", "format: arrowipc"],
        kind="strong",
    )
    picture.box(
        280,
        16,
        200,
        108,
        ["a table", "day=1/part-0.arrow", "day=2/part-1.arrow", "_ipc_log: its commits", "disk, S3, Azure, GCS"],
    )
    picture.box(
        540,
        16,
        200,
        108,
        ["other programs", "polars, pandas, R,", "DuckDB, PyTorch, Ray,", "browsers", "arrowipc, the command"],
    )
    picture.link(220, 70, 280)
    picture.link(480, 70, 540)
    picture.text(
        20, 152, "Every job of Spark commits by one log entry: its readers see it completely or not at all.", "faint"
    )
    picture.text(20, 152 + _LINE, "Others read the files as they are, and write files that Spark reads.", "faint")
    return picture


def layers() -> Picture:
    """Draw the packages, of which each imports only those below it."""
    picture = Picture(720, 440, "The layers of the package: imports go only downward")
    picture.box(20, 16, 330, 74, ["cli", "one file a command", "asks spark late, for predicates"], kind="strong")
    picture.box(
        370, 16, 330, 74, ["spark", "datasource, read, write, options", "functions, rewrite, push_down"], kind="strong"
    )
    picture.box(20, 120, 440, 58, ["dataset, table", "which files, blocks and rows; the log that commits"])
    picture.box(20, 208, 440, 58, ["ipc", "bytes of files and streams to values, and back"])
    picture.box(480, 208, 220, 58, ["arrow_json", "types as JSON"])
    picture.box(20, 296, 330, 58, ["storage", "files by path: local, objects, HDFS"])
    picture.box(370, 296, 330, 58, ["arrow", "columns in memory, numpy alone"])
    picture.box(20, 384, 680, 40, ["errors: each says what, where, and what to do next"])
    for x, y, to in (
        (185, 90, 120), (415, 90, 120), (590, 90, 208), (240, 178, 208),
        (185, 266, 296), (415, 266, 296), (590, 266, 296), (185, 354, 384), (535, 354, 384),
    ):  # fmt: skip
        picture.arrow(x, y, x, to)
    return picture


_STEPS = (
    ("the job begins", "its mark, an empty staging", "the old data", "vacuum deletes it"),
    ("tasks write", "into the staging directory", "the old data", "vacuum deletes it"),
    ("files get their names", "which the log does not count", "the old data", "vacuum deletes it"),
    ("one log entry is put", "if its number is free", "all old, or all new", "as before, or as below"),
    ("old files are deleted", "then the staging", "the new data", "the next job deletes it"),
)
"""Steps of docs/protocol.md: what is done, what is read after a crash, and what becomes of the rest."""


def commit() -> Picture:
    """Draw the steps of a write, and what a reader sees where a process died in each."""
    picture = Picture(760, 470, "A commit: its steps, and what a crash in each of them leaves")
    picture.text(20, 26, "step", "title")
    picture.text(320, 26, "a crash here: readers of ours", "title")
    picture.text(560, 26, "and after it", "title")
    for number, (name, does, seen, after) in enumerate(_STEPS):
        y = 44 + number * 82
        picture.box(20, y, 270, 54, [name, does], kind="strong" if number == 3 else "")
        picture.box(320, y, 210, 54, ["they read", seen], kind="bad" if number < 3 else "")
        picture.box(550, y, 200, 54, ["the rest", after], kind="bad" if number < 3 else "")
        picture.arrow(290, y + 27, 320, y + 27)
        if number + 1 < len(_STEPS):
            picture.arrow(155, y + 54, 155, y + 82)
    picture.text(20, 458, "Readers that only list (polars, pyarrow) see new files from the third step on.", "faint")
    return picture


def push_down() -> Picture:
    """Draw one query before `register(spark)` and after it."""
    picture = Picture(760, 330, "Push-down: what one query reads, before and after register(spark)")
    picture.text(20, 26, "SELECT carrier, count(*) ... WHERE distance > 1000 GROUP BY carrier", "title")
    for y, title, file, worker, jvm, kind in (
        (50, "before", ["file", "all columns", "all record batches"], ["Python worker", "decodes every row"],
         ["JVM", "gets every row", "filters, counts"], "bad"),
        (190, "after", ["file", "2 columns, batches", "that may match"], ["Python worker", "filters, counts"],
         ["JVM", "gets a row a carrier", "adds them up"], "strong"),
    ):  # fmt: skip
        picture.text(20, y + 14, title, "title")
        picture.box(20, y + 24, 190, 76, file, kind=kind)
        picture.box(285, y + 24, 190, 76, worker, kind=kind)
        picture.box(550, y + 24, 190, 76, jvm, kind=kind)
        picture.arrow(210, y + 62, 285, y + 62)
        picture.arrow(475, y + 62, 550, y + 62)
    picture.text(20, 318, "The answer is the same: Spark keeps what the workers cannot hold exactly.", "faint")
    return picture


def anatomy() -> Picture:
    """Draw the parts of a file in their order."""
    picture = Picture(760, 446, "The anatomy of an Arrow IPC file")
    rows = (
        (36, ["ARROW1, two zeros: the magic"], ""),
        (36, ["schema: names, types, metadata"], ""),
        (36, ["dictionary batches, where fields have them"], ""),
        (74, ["record batch 1", "header: row count, places of buffers", "body: null bits, offsets, values"], "strong"),
        (57, ["record batch 2 ...", "header, body"], "strong"),
        (36, ["end of the stream"], ""),
        (57, ["footer", "schema, places of batches, metadata"], ""),
        (36, ["length of the footer, ARROW1"], ""),
    )
    notes = (
        "a file that lacks it is no Arrow file",
        "stands in the footer, too",
        "values that columns name by number",
        "columns lie one after the other: a reader",
        "what a task reads, and where skips",
        "",
        "bounds for where: statistics, by column",
        "gone in a torn file: arrowipc repair",
    )
    y = 12
    for (height, lines, kind), note in zip(rows, notes, strict=True):
        picture.box(20, y, 380, height, lines, kind=kind)
        picture.text(420, y + 22, note, "faint")
        if "reader" in note:
            picture.text(420, y + 22 + _LINE, "takes those that it wants, and no others", "faint")
        y += height + 8
    return picture


PICTURES: Mapping[str, Callable[[], Picture]] = {
    "anatomy.svg": anatomy,
    "commit.svg": commit,
    "layers.svg": layers,
    "overview.svg": overview,
    "push_down.svg": push_down,
}


def main() -> None:
    """Write all pictures."""
    TARGET.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (TARGET / name).write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
