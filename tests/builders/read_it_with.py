"""The page docs/read_it_with.md: its programs, what they print, and the rows that its first program writes."""

import re
from pathlib import Path

import pyarrow as pa

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "read_it_with.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
FILES = SECTIONS.pop("The files of these programs")
"""The section whose programs write what the others read."""

PRINTS = re.compile(r"^ *(?:print|console\.log|System\.out\.println)\(.*\);?  ?(?:#|//) ?(.*)$", re.MULTILINE)
"""A line that prints, and the comment that says what."""


def blocks(text, language):
    """Return the programs in a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def expected_of(program):
    """Return the lines that a program prints, by its comments."""
    expected = PRINTS.findall(program)
    assert len(expected) == len(re.findall(r"print\(|console\.log\(|println\(", program)), "a line without its output"
    return expected


def flights():
    """Return what the page's first program writes."""
    numbers = range(1000)
    return pa.table(
        {
            "carrier": [("AA", "UA", "B6")[i % 3] for i in numbers],
            "delay": pa.array([i % 90 for i in numbers], pa.int64()),
            "at": pa.array([(1356998400 + i * 3600) * 10**6 for i in numbers], pa.timestamp("us", "UTC")),
            "day": pa.array([i % 2 + 1 for i in numbers], pa.int32()),
        }
    )
