"""The tables of the documentation are those of the code."""

import re
from pathlib import Path

import pytest
from docs_tables import TABLES, options_table, refreshed

from spark_arrow_ipc.spark.options.options import READING, STREAMING, WRITING

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["options.md", "types.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_of_a_page_are_fresh(page):
    """When they are not: write ``refreshed(text)`` of the page back to it."""
    text = (DOCS / page).read_text(encoding="utf-8")
    assert refreshed(text) == text


def test_every_table_is_printed_somewhere():
    pages = "".join((DOCS / page).read_text(encoding="utf-8") for page in PAGES)
    assert [] == [name for name in TABLES if f"<!-- begin {name} -->" not in pages]


def test_what_stands_between_markers_is_replaced_and_nothing_else():
    made = refreshed("a\n<!-- begin written types -->\nold\n<!-- end written types -->\nb\n")
    assert made.startswith("a\n<!-- begin written types -->\n| Spark | Arrow |\n")
    assert made.endswith("\n<!-- end written types -->\nb\n")
    assert "old" not in made


def test_the_table_of_a_side_has_its_options_only():
    table = options_table(WRITING)
    assert "| `compression` | `zstd`, lz4, none |" in table
    assert "maxPartitionBytes" not in table


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("recover", "`false`, true"),
        ("tensors", "one of cells, values"),
        ("maxPartitionBytes", "`128m`"),
        ("minPartitionNum", "e.g. `200`"),
        ("columns", "`all`, e.g. `` id, `unit price`, address.city, #0 ``"),
    ],
)
def test_the_default_of_an_option_stands_first(name, values):
    assert f"| `{name}` | {values} |" in options_table(READING)


def test_every_option_of_a_stream_has_its_row_in_the_table_of_restarts():
    text = (DOCS / "streaming.md").read_text(encoding="utf-8")
    table = text.partition("<!-- begin options on a restart -->")[2].partition("<!-- end")[0]
    names = [name for line in table.splitlines()[3:] for name in re.findall("`(.+?)`", line.split("|")[1])]
    assert sorted(names) == sorted(option.name for option in (*READING, *STREAMING))
