r"""The programs of the documentation's pages and of its notebook, and how a test runs them.

All blocks of Python of a page run one after the other in one namespace and one folder, with the session's `spark`. The
folder holds what ``python -m spark_arrow_ipc.examples`` writes, and a path such as ``"lake"`` that goes to Spark is one of it.
What stands behind a line that prints, ``print(1)  # 1``, is compared with what it prints.
Lines ``$ arrowipc ...`` run too, and what stands below them is compared.

A comment before a block says what is different there::

    <!-- not run: REASON -->
    <!-- needs: PACKAGE -->      skipped where the package is not installed
    <!-- bucket -->              s3:// paths are of a server of the tests

Write the notebook's outputs again, after a change of its cells::

    python tests/builders/page_programs.py docs/tutorial.ipynb
"""

import importlib.util
import io
import json
import os
import re
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from spark_arrow_ipc import examples

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
NOTEBOOK = DOCS / "tutorial.ipynb"

RUN_ELSEWHERE = {
    "read_it_with.md": "tests/test_read_it_with.py",
}
"""Pages whose programs other tests run."""

PRINTS = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
_BLOCK = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PATH = re.compile(
    r"(\.(?:load|save|start|parquet)\(\s*|(?:map_in_arrow|count|aggregate)\(\s*spark,\s*|ipc\.open\(|OPTIONS \(path "
    r"|(?:checkpointLocation|sourceLog)\W\W+|checkpoint=)"
    r"""(f?["'])(?!s3:|[a-z]+\+)(.*?)(["'])"""
)
_TABLE = re.compile(r"(arrowipc\.`)([^`/]+`)")
_TWO_PATHS = re.compile(r"""(\bingest\(\s*spark,\s*")([^"]*",\s*")""")


@dataclass(frozen=True)
class Block:
    """A block of code, and the comment before it."""

    mark: str
    language: str
    code: str

    @property
    def not_run(self):
        return self.mark.removeprefix("not run: ") if self.mark.startswith("not run: ") else ""

    @property
    def needs(self):
        return self.mark.removeprefix("needs: ") if self.mark.startswith("needs: ") else ""


def pages():
    """The pages with programs that run here."""
    found = [path for path in sorted(DOCS.rglob("*.md")) if path.relative_to(DOCS).as_posix() not in RUN_ELSEWHERE]
    return [README, *(path for path in found if any(runs(block) for block in blocks(path)))]


def blocks(path):
    return [Block(*(group or "" for group in match.groups())) for match in _BLOCK.finditer(path.read_text())]


def runs(block):
    """Whether a block is run: not where a comment says why, and of a terminal's lines those of our own command."""
    if block.not_run:
        return False
    return block.language == "python" or any(line.startswith("$ arrowipc") for line in block.code.splitlines())


def in_folder(program, folder):
    """Return a program whose paths that go to Spark are in a folder: its processes were started in another one."""
    program = _TABLE.sub(lambda match: f"{match[1]}{folder}/{match[2]}", program)
    program = _TWO_PATHS.sub(lambda match: f"{match[1]}{folder}/{match[2]}{folder}/", program)
    return _PATH.sub(lambda match: f"{match[1]}{match[2]}{folder}/{match[3]}{match[4]}", program)


def printed_by(program, namespace, folder, name):
    """Return what a program prints, run in a folder."""
    out = io.StringIO()
    with chdir(folder), redirect_stdout(out):
        exec(compile(in_folder(program, folder), name, "exec"), namespace)
    return out.getvalue().replace(f"{folder}/", "")


def missing(block):
    return bool(block.needs) and importlib.util.find_spec(block.needs) is None


# ---- the notebook


def cells_of(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source_of(cell):
    return "".join(cell["source"])


def output_of(cell):
    return "".join("".join(output["text"]) for output in cell["outputs"])


def write_outputs(path):
    """Run a notebook in a folder of the examples, and note in it what its cells print."""
    import tempfile

    notebook = json.loads(path.read_text())
    namespace = {}
    with tempfile.TemporaryDirectory() as folder, redirect_stderr(io.StringIO()):
        examples.make(Path(folder))
        os.environ["PYSPARK_PYTHON"] = sys.executable
        for number, cell in enumerate(cells_of(notebook), 1):
            text = printed_by(source_of(cell), namespace, folder, f"cell {number}")
            cell["execution_count"] = number
            cell["outputs"] = (
                [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}] if text else []
            )
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write_outputs(Path(sys.argv[1]))
