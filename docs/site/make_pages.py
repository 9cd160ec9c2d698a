"""Write the pages of the documentation's site: those of docs/, and those that are made from code.

::

    python docs/site/make_pages.py        # into build/docs, which mkdocs.yml names

Strategy
--------
Everything in ``docs/`` is read on the code host as it stands, so links there lead from file to file of the repository.
The site has fewer files: those of the top level (CHANGELOG and others) come with them, the notebook becomes a page, and all other
files of the repository are named without a link. `fitted` changes the links, and nothing else of a page.

What is made from code is the table `REFERENCE`: the options of each command from its parser, the errors from their
docstrings, the words of `where` from the tables of its parser, and for mkdocstrings the names of the Python interface.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the checkout's own pages, whichever release is installed

import spark_arrow_ipc  # noqa: E402
from spark_arrow_ipc import arrow, errors, ipc  # noqa: E402
from spark_arrow_ipc.cli.main import COMMANDS, parsers  # noqa: E402
from spark_arrow_ipc.dataset.predicate import operands, parser  # noqa: E402

DOCS = ROOT / "docs"
TARGET = ROOT / "build" / "docs"

TOP_LEVEL = ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "RELEASING.md", "SECURITY.md")
"""Pages that lie beside docs/ in the repository, and with its pages on the site."""

FROM_README = {
    "What Spark does not let a Python source do": "reference/not_from_python.md",
    "What a write promises": "reference/promises.md",
    "What it runs on": "reference/runs_on.md",
}
"""Sections of the README that are pages of the site."""

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]*)((?:#[^)\s]*)?)\)")


_SECTIONS = {f"#{title.lower().replace(' ', '-')}": page for title, page in FROM_README.items()}


def make_pages(target: Path = TARGET) -> None:
    """Write all pages into an empty folder."""
    shutil.rmtree(target, ignore_errors=True)
    sources = [path for path in DOCS.rglob("*") if path.is_file() and not path.is_relative_to(DOCS / "site")]
    for path in [*sources, *(ROOT / name for name in TOP_LEVEL)]:
        _write(target, path)
    (target / "site").mkdir()
    for name in ("iframe-worker.js", "logo.svg", "style.css"):
        shutil.copy(DOCS / "site" / name, target / "site")
    (target / "adr" / "index.md").write_text(decisions(), encoding="utf-8")
    (target / "reference").mkdir(exist_ok=True)
    for title, name in FROM_README.items():
        (target / name).write_text(readme_section(title), encoding="utf-8")
    for name, page in REFERENCE.items():
        (target / "reference" / name).write_text(page(), encoding="utf-8")


def _write(target: Path, path: Path) -> None:
    """Write one page of the repository for the site."""
    place = target / site_path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".ipynb":
        place.write_text(fitted(notebook_page(json.loads(path.read_text("utf-8"))), path), encoding="utf-8")
    elif path.suffix == ".md":
        place.write_text(fitted(path.read_text("utf-8"), path), encoding="utf-8")
    else:
        shutil.copy(path, place)


def readme_section(title: str) -> str:
    """Return a section of the README as a page, with links as they are one folder below the site's top."""
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## )", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"README.md has no section {title!r}; mend FROM_README")
    return f"# {title}\n{fitted(found[1], ROOT / 'README.md', depth=1)}"


def site_path(path: Path) -> Path:
    """Return where a file of the repository lies below the site's pages."""
    place = path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT)
    return place.with_suffix(".md") if place.suffix == ".ipynb" else place


def is_on_site(path: Path) -> bool:
    """Return whether a file of the repository is a file of the site."""
    return path.is_relative_to(DOCS) or (path.parent == ROOT and path.name in TOP_LEVEL)


def fitted(text: str, path: Path, depth: int | None = None) -> str:
    """Return the text of a page with its links as they are on the site; a file that is not there is named in code."""
    depth = len(site_path(path).parts) - 1 if depth is None else depth

    def link(match: re.Match[str]) -> str:
        title, target, anchor = match.groups()
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        aim = (path.parent / target).resolve()
        if aim == DOCS / "adr":
            aim /= "index.md"
        section = _SECTIONS.get(anchor) if aim == ROOT / "README.md" else None
        if section:
            return f"[{title}]({'../' * depth}{section})"
        if not is_on_site(aim):
            # A reader of the site has no such file: its name stays, and words stay words.
            return f"`{title}`" if "/" in title or title == aim.name else title
        return f"[{title}]({'../' * depth}{site_path(aim).as_posix()}{anchor})"

    return _outside_code(text, lambda part: _LINK.sub(link, part))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change all of a page but its blocks of code."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else change(part) for part in parts)


def notebook_page(notebook: Mapping[str, Any]) -> str:
    """Return the page of a notebook: its text, its code, and below each cell what that prints."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        printed = "".join("".join(output.get("text", ())) for output in cell["outputs"])
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def decisions() -> str:
    """Return the page of decisions: its own text, and a list of them by the first line of each."""
    index = DOCS / "adr" / "index.md"
    pages = sorted(index.parent.glob("0*.md"))
    rows = [f"- [{page.read_text('utf-8').splitlines()[0].removeprefix('# ')}]({page.name})" for page in pages]
    return "\n".join([fitted(index.read_text("utf-8"), index), *rows, ""])


def commands() -> str:
    """Return the page of the command line's arguments, from the parsers of its commands."""
    parts = ["# Commands", "What each command takes. [The command line](../cli.md) says what it reads and how it ends."]
    for name, arguments in parsers()[1].items():
        arguments.prog, arguments.description = f"arrowipc {name}", COMMANDS[name].description
        arguments.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=86)
        parts.append(f"## arrowipc {name}\n\n```text\n{arguments.format_help().rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def errors_page() -> str:
    """Return the list of errors: what each is, means and asks for, the two paragraphs of its docstring."""
    rows = []
    for name in errors.__all__:
        error = getattr(errors, name)
        if not isinstance(error, type) or error is errors.ArrowIpcError:
            continue
        meaning, _, remedy = str(inspect.getdoc(error)).partition("\n\n")
        parents = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
        rows.append(f"- **`{name}`** ({parents}): {meaning}  \n  {remedy}")
    return "\n".join([
        "# Errors",
        "",
        "All are in `spark_arrow_ipc.errors`, and are an `ArrowIpcError`.",
        "The message says what was expected, what was found, and where; `path`, `block_number`, `field_path` and `byte_offset` are attributes.",
        "Errors of the file system stay `OSError`. [By symptom](../runbook.md#errors-by-name) has what causes them.",
        "",
        "The list has each error, what it is in parentheses, what it means, and below what to do:",
        "",
        *rows,
        "",
    ])  # fmt: skip


def where_page() -> str:
    """Return the words that `where` takes, from the tables of its parser."""
    rows = {
        "comparisons": parser._OPERATORS,
        "connectors": ["NOT", *parser._CONNECTORS],
        "other predicates": ["IS [NOT] NULL", "IS [NOT] DISTINCT FROM", "[NOT] IN", "[NOT] BETWEEN", "[NOT] LIKE"],
        "tests of strings": [f"{name.lower()}(column, 'text')" for name in parser._STRING_TESTS],
        "functions of a column": [f"{name.lower()}(column)" for name in operands._OF_COLUMNS],
        "words": operands.WORDS,
        "literals with a type": [f"{name} '...'" for name in operands._TYPED],
        "types of `CAST(literal AS type)`": operands._TYPES,
    }
    return "\n".join([
        "# Words of where",
        "",
        "Every word that the option `where` knows, from the tables of its parser.",
        "Its grammar, and what it means, is in [Options](../options.md#what-where-understands).",
        "",
        "| | |",
        "|---|---|",
        *(f"| {title} | {', '.join(f'`{word}`' for word in words)} |" for title, words in rows.items()),
        "",
    ])  # fmt: skip


def api_page(module: ModuleType) -> str:
    """Return the page of a module's public names, of which mkdocstrings prints the docstrings."""
    parts = [f"# {module.__name__}", str(module.__doc__).splitlines()[0]]
    for name in module.__all__:
        value = getattr(module, name)
        place = value.__name__ if isinstance(value, ModuleType) else f"{value.__module__}.{value.__qualname__}"
        parts.append(f"::: {place}")
    return "\n\n".join(parts) + "\n"


def spark_page() -> str:
    """Return the page of the functions for Spark, which mkdocstrings reads without importing PySpark."""
    parts = [
        "# spark_arrow_ipc",
        "The functions for Spark. The arguments that they call `options` are in [Options](../options.md).",
    ]
    for name, (module, attribute) in sorted(spark_arrow_ipc._LATE.items()):
        if name == "ipc":  # has a page of its own
            continue
        place = module if attribute is None else f"{module}.{attribute}"
        given = [f"heading: spark_arrow_ipc.{name}", f"toc_label: {name}"]
        if name == "options":
            given.append("members: [read, write, read_stream, write_stream]")
        lines = "\n".join(f"      {each}" for each in given)
        parts.append(f"::: {place}\n    options:\n{lines}")
    parts.append("::: spark_arrow_ipc.spark.rewrite.rewrite.RewriteResult\n    options:\n      members: false")
    return "\n\n".join(parts) + "\n"


REFERENCE: Mapping[str, Callable[[], str]] = {
    "arrow.md": lambda: api_page(arrow),
    "commands.md": commands,
    "errors.md": errors_page,
    "ipc.md": lambda: api_page(ipc),
    "spark.md": spark_page,
    "where.md": where_page,
}
"""Pages that are made from code, by their names in reference/."""


def navigation(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the navigation of mkdocs.yml, with the decisions, and with pages that have no row of their own."""
    sections = {
        title: list(entry) if isinstance(entry, list) else entry for row in rows for title, entry in row.items()
    }
    named = set(re.findall(r"[\w/]+\.md", str(rows)))
    pages = {site_path(path).as_posix() for path in DOCS.rglob("*.md")} - {"adr/index.md"}
    sections["How to"] += sorted(page for page in pages - named if not page.startswith("adr/"))
    sections["Explanations"].append({"Decisions": ["adr/index.md", *sorted(p for p in pages if p.startswith("adr/"))]})
    return [{title: entry} for title, entry in sections.items()]


if __name__ == "__main__":
    make_pages()
