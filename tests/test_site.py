"""The pages that the documentation's site is built of (docs/site/make_pages.py); .ci/run builds the site itself."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

import spark_arrow_ipc

ROOT = Path(__file__).parents[1]

spec = importlib.util.spec_from_file_location("make_pages", ROOT / "docs" / "site" / "make_pages.py")
make_pages = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_pages)

LINKS = [
    ("a page beside it", "docs/cli.md", "[a](limits.md#budgets)", "[a](limits.md#budgets)"),
    ("a page of the top level", "docs/cli.md", "[a](../SECURITY.md#servers)", "[a](SECURITY.md#servers)"),
    ("the same, from a folder", "docs/adr/0014-checksums.md", "[a](../../SECURITY.md)", "[a](../SECURITY.md)"),
    ("a decision, from the top level", "CHANGELOG.md", "[a](docs/adr/0014-checksums.md)", "[a](adr/0014-checksums.md)"),
    ("the folder of decisions", "docs/architecture.md", "[adr/](adr/)", "[adr/](adr/index.md)"),
    ("a file that is no page", "docs/cli.md", "[tests/](../tests/conftest.py)", "`tests/`"),
    ("words about such a file", "docs/cli.md", "a [stream's](../benchmarks/figures.md#streams)", "a stream's"),
    ("a section of the README", "docs/cli.md", "[a](../README.md#what-it-runs-on)", "[a](reference/runs_on.md)"),
    ("another site", "docs/cli.md", "[a](https://example.org/a.md)", "[a](https://example.org/a.md)"),
    ("the page itself", "docs/cli.md", "[a](#b)", "[a](#b)"),
    ("in code", "docs/cli.md", "```text\n[a](../tests/conftest.py)\n```", "```text\n[a](../tests/conftest.py)\n```"),
]


@pytest.mark.parametrize(("page", "given", "expected"), [c[1:] for c in LINKS], ids=[c[0] for c in LINKS])
def test_links_are_made_to_fit(page, given, expected):
    assert expected == make_pages.fitted(given, ROOT / page)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    make_pages.make_pages(folder)
    return folder


def test_every_link_of_the_site_leads_to_a_page_of_it(pages):
    lost = []
    for page in sorted(pages.rglob("*.md")):
        text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        targets = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target]
        lost += [f"{page.name}: {target}" for target in targets if not (page.parent / target).is_file()]
    assert [] == lost


def test_every_page_is_in_the_navigation_once(pages):
    rows = re.search(r"^nav:\n(.*)", (ROOT / "mkdocs.yml").read_text(), re.DOTALL | re.MULTILINE)[1]
    nav = [{title: [entries] if title in ("How to", "Explanations") else entries} for title, entries in sections(rows)]
    named = re.findall(r"[\w/-]+\.md", str(make_pages.navigation(nav)))
    assert sorted(page.relative_to(pages).as_posix() for page in pages.rglob("*.md")) == sorted(named)


def test_the_page_of_decisions_names_every_number(pages):
    """A number in an old link or comment leads to the page that now has its content."""
    text = (pages / "adr" / "index.md").read_text()
    numbers = [int(page.name[:4]) for page in (ROOT / "docs" / "adr").glob("0*.md")]
    gone = {f"{number:04}" for number in set(range(1, max(numbers))) - set(numbers)}
    assert gone == set(re.findall(r"\b0\d{3}\b", text.partition("\n- [")[0].replace("adr/0", "")))
    assert len(numbers) == len(re.findall(r"^- \[\d+\. ", text, re.MULTILINE))


def sections(rows):
    """The sections of the navigation's YAML, each with the text below it."""
    return re.findall(r"^  - ([\w ]+):((?:.(?!^  - ))*)", rows, re.DOTALL | re.MULTILINE)


def test_a_notebook_is_a_page_of_its_cells():
    cells = [
        {"cell_type": "markdown", "source": ["# One\n", "two"]},
        {"cell_type": "code", "source": ["print(1)"], "outputs": [{"text": ["1\n"]}]},
    ]
    assert "# One\ntwo\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n" == make_pages.notebook_page({"cells": cells})


def test_every_command_has_its_arguments_on_the_page_of_commands(pages):
    text = (pages / "reference" / "commands.md").read_text()
    assert list(make_pages.COMMANDS) == re.findall(r"^## arrowipc (.+)$", text, re.MULTILINE)
    assert "usage: arrowipc validate" in text
    assert "--values" in text
    assert "Draw where the bytes of a file lie, as SVG or HTML." in text
    assert [] == long_lines(text)


def test_what_the_pages_look_like_comes_with_them(pages):
    """mkdocs warns of no style sheet, picture or script that is absent."""
    named = re.findall(r"\bsite/[\w-]+\.(?:css|svg|js)\b", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[0])
    assert {"site/style.css", "site/logo.svg", "site/iframe-worker.js"} == set(named)
    assert [] == [name for name in named if not (pages / name).is_file()]


def test_every_error_says_what_it_means_and_what_to_do(pages):
    rows = re.findall(
        r"^- \*\*`(\w+)`\*\* \([^)]+\): (.*)  \n  (.*)$", (pages / "reference" / "errors.md").read_text(), re.MULTILINE
    )
    assert len(rows) > 20
    assert [] == [name for name, meaning, remedy in rows if not meaning.strip() or not remedy.strip()]


def test_the_words_of_where_are_those_of_its_parser(pages):
    text = (pages / "reference" / "where.md").read_text()
    assert [] == [
        word
        for word in (
            "`<=>`",
            "`startswith(column, 'text')`",
            "`DATE '...'`",
            "`year(column)`",
        )
        if word not in text
    ]


def test_every_function_for_spark_is_in_the_reference(pages):
    headings = re.findall(r"heading: spark_arrow_ipc\.(\w+)", (pages / "reference" / "spark.md").read_text())
    assert set(spark_arrow_ipc.__all__) - {"__version__", "ipc"} == set(headings)


@pytest.mark.parametrize("name", ["ipc", "arrow"])
def test_every_public_name_is_in_the_reference(pages, name):
    module = getattr(make_pages, name)
    assert len(module.__all__) == (pages / "reference" / f"{name}.md").read_text().count("::: spark_arrow_ipc.")


@pytest.mark.parametrize("title", list(make_pages.FROM_README))
def test_a_section_of_the_readme_is_a_page(pages, title):
    text = (pages / make_pages.FROM_README[title]).read_text()
    assert text.startswith(f"# {title}\n\n")
    assert "(docs/" not in text
    assert "\n## " not in text


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("[!_]*.md")) + sorted((ROOT / "docs/howto").glob("*.md")), ids=lambda page: page.stem)  # fmt: skip
def test_a_page_begins_with_what_one_can_do_after_reading_it(page):
    """A newcomer who reads one sentence knows whether the page is for them; it is short, and names no class or option."""
    title, empty, sentence = page.read_text().splitlines()[:3]
    assert title.startswith("# ")
    assert empty == ""
    first = re.split(r"(?<=\.)(?:\s|$)", re.sub(r"`[^`]*`", "CODE", sentence))[0]
    assert re.fullmatch(r"After this page you can [a-z].+\.", first), sentence
    assert len(first.split()) <= 35, first


PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "adr")]
MOST_CHARACTERS = 86


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_line_of_code_is_cut_by_a_window_of_1280_pixels(page):
    assert [] == long_lines(page.read_text())


def test_no_line_of_the_tutorial_is_cut():
    assert [] == long_lines(make_pages.notebook_page(json.loads((ROOT / "docs" / "tutorial.ipynb").read_text())))


def long_lines(text):
    blocks = re.findall(r"^```.*?^```", text, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if len(line) > MOST_CHARACTERS]


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "README"], ids=lambda page: page.stem)
def test_a_page_shows_a_program_or_picture_before_its_first_table(page):
    """A reader sees what a page is for; tables of names come after."""
    text = page.read_text()
    table = re.search(r"^\|", text, re.MULTILINE)
    shown = re.search(r"^(?:```|!\[)", text, re.MULTILINE)
    assert table is None or (shown is not None and shown.start() < table.start())


def test_benchmarks_are_read_in_ten_minutes():
    """What is more is in benchmarks/figures.md."""
    assert len((ROOT / "docs" / "benchmarks.md").read_text().split()) <= 3000


def test_the_start_leads_to_every_page_that_is_in_the_how_to():
    rows = re.search(r"^  - How to:\n(.*?)^  - Reference", (ROOT / "mkdocs.yml").read_text(), re.DOTALL | re.MULTILINE)[
        1
    ]
    start = (ROOT / "docs" / "index.md").read_text()
    assert [] == [page for page in re.findall(r"[\w/]+\.md", rows) if not re.search(rf"\((?:\.\./)?{page}\)", start)]
