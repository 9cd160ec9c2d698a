"""The rules of the house: what imports what, what costs what, and what the papers promise."""

import ast
import datetime as dt
import functools
import graphlib
import importlib
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import spark_arrow_ipc
from spark_arrow_ipc.storage.failpoint import POINTS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "spark_arrow_ipc"
MOST_LINES = 450
UNLIMITED = {"spark_arrow_ipc/ipc/flatbuf/tables.py", "spark_arrow_ipc/arrow/types.py"}
"""A declaration of every table, or of every type, of the format is as long as the format is."""

SOURCES = sorted([*PACKAGE.rglob("*.py"), ROOT / "pyspark_arrowipc.py"])
README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PAPERS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BESIDE_PROGRAMS = sorted(path for name in ("benchmarks", "format", "tests") for path in (ROOT / name).rglob("*.md"))


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def run_python(script, **environment):
    """Run a script in a fresh interpreter that finds the package as this one does."""
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
    )


# ---- imports


def test_imports_go_only_downward():
    program = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("import-linter is not installed")
    answer = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert 0 == answer.returncode, answer.stdout


@pytest.mark.slow
@pytest.mark.parametrize("module", ["pyspark", "pyarrow", "pandas"])
def test_optional_libraries_are_imported_in_their_places_only(module):
    places = {
        "pyspark": ("spark_arrow_ipc/spark/", "pyspark_arrowipc.py"),
        "pyarrow": (
            "spark_arrow_ipc/spark/",
            "spark_arrow_ipc/storage/hadoop.py",
            "spark_arrow_ipc/ipc/dissociated/flight.py",
            "spark_arrow_ipc/ipc/batch_reader.py",
            "spark_arrow_ipc/arrow/c_data.py",
            "spark_arrow_ipc/arrow/pyarrow_bridge.py",
            "spark_arrow_ipc/cli/convert.py",
        ),
        "pandas": (),
    }
    importing = [name_of(path) for path in SOURCES if module in imported_roots(path)]
    assert [] == [name for name in importing if not name.startswith(places[module])]


@functools.cache
def nodes_of(path):
    """All nodes of a module's tree."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@functools.cache
def imported_roots(path):
    roots = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            roots.add(node.module.partition(".")[0])
    return roots


def test_no_modules_import_each_other():
    """Modules in a circle can only be understood together, and break when one is imported first.

    An import in a function, or for annotations alone, makes a circle as well: it says that the module
    cannot be read without the other.
    """
    graph = {module: imported_modules(path) for module, path in MODULES.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"a circle of modules: {' <- '.join(error.args[1])}")


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in SOURCES}


def imported_modules(path):
    """The modules of the package that a module imports anywhere in its text."""
    modules = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}": node.module for alias in node.names}
            modules |= {name if name in MODULES else module for name, module in inner.items()}
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).rpartition(".")[2] in {"import_module", "__import__"}
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            modules.add(node.args[0].value)
    return modules & set(MODULES)


FORBIDDEN_PYARROW = re.compile(r"pyarrow\.(ipc|feather|dataset|parquet)|\bpa\.(ipc|feather|dataset|parquet)\b")


@pytest.mark.slow
def test_pyarrow_never_reads_or_writes_a_file_for_us():
    """Except Parquet, which is not our format, for ``arrowipc convert``."""
    found = [name_of(path) for path in SOURCES if FORBIDDEN_PYARROW.search(code_of(path))]
    assert ["spark_arrow_ipc/cli/convert.py"] == found


@functools.cache
def code_of(path):
    """The module without its docstrings and comments."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value.value = ""
    return ast.unparse(tree)


FILE_CALLS = re.compile(
    r"\b(os\.(?!PathLike|cpu_count|environ|fsencode)|shutil\.|pathlib\b|posixpath\b|tempfile\b|(?<![\w.])(?<!def )open\()"
)


def test_data_are_reached_through_storage_alone():
    """What lies on a disk, in an object store or in memory is one protocol's to know (storage/storage.py)."""
    inside = [
        path for path in SOURCES if name_of(path).startswith(("spark_arrow_ipc/dataset/", "spark_arrow_ipc/arrow/"))
    ]
    calls = [f"{name_of(path)}: {match[0]}" for path in inside for match in FILE_CALLS.finditer(code_of(path))]
    assert [] == calls


@pytest.mark.slow
def test_the_codec_imports_without_spark_and_pyarrow():
    script = (
        "import sys\n"
        "for name in ('pyspark', 'pyarrow', 'pandas'): sys.modules[name] = None\n"
        "import spark_arrow_ipc, spark_arrow_ipc.ipc, spark_arrow_ipc.arrow, spark_arrow_ipc.cli.inspect\n"
        "assert spark_arrow_ipc.ipc.open\n"
    )
    answer = run_python(script)
    assert (0, "") == (answer.returncode, answer.stderr)


@pytest.mark.slow
def test_a_task_that_reads_starts_without_the_writer():
    """Which costs it a tenth of its start; an import of one constant brought it back once."""
    pytest.importorskip("pyspark")
    script = "import sys, spark_arrow_ipc.spark.read.reader; print('flatbuffers' in sys.modules)"
    assert "False\n" == run_python(script).stdout


SIDES = {
    "read": (
        "source.reader(source.schema())",
        ("spark_arrow_ipc.spark.write", "spark_arrow_ipc.dataset.write.", "spark_arrow_ipc.ipc.writer"),
    ),
    "write": (
        "source.writer(source.schema(), False)",
        ("spark_arrow_ipc.spark.read.row_filter", "spark_arrow_ipc.dataset.scan.scan"),
    ),
}
"""What a planner is asked, and the modules of the other side."""


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
def test_a_planner_imports_nothing_of_the_other_side(side, tmp_path):
    """Spark starts a process for each: imports are most of its time."""
    pytest.importorskip("pyspark")
    call, others = SIDES[side]
    schema = "import pyspark.sql.types as t; source.schema = lambda: t.StructType([t.StructField('a', t.LongType())])\n"
    script = (
        "import sys\nfrom spark_arrow_ipc.spark.datasource import ArrowIpcDataSource\n"
        f"source = ArrowIpcDataSource({{'path': {str(tmp_path / 'table')!r}}})\n{schema}{call}\n"
        f"print(*sorted(m for m in sys.modules if m.startswith({others!r})))"
    )
    answer = run_python(script)
    assert ("\n", 0) == (answer.stdout, answer.returncode), answer.stderr


def test_importing_the_package_imports_nothing_else():
    script = (
        "import sys, spark_arrow_ipc\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] in ('numpy', 'pyspark', 'pyarrow', 'lz4')))\n"
        "print(*(name for name in sys.modules if name.startswith('spark_arrow_ipc.')))\n"
    )
    assert "\n\n" == run_python(script).stdout


# ---- discovery


def test_the_discovery_module_imports_nothing_of_ours():
    script = "import sys, pyspark_arrowipc; print(*(n for n in sys.modules if n.startswith(('spark_', 'numpy', 'pyspark.'))))"
    assert "\n" == run_python(script).stdout


def test_the_discovery_module_costs_less_than_5_ms():
    """CPU time of the module alone, the best of five fresh interpreters."""
    script = "import time; t = time.process_time(); import pyspark_arrowipc; print(time.process_time() - t)"
    assert min(float(run_python(script).stdout) for _ in range(5)) < 0.005


def test_the_discovery_module_knows_no_other_name():
    module = importlib.import_module("pyspark_arrowipc")
    assert ["DefaultSource"] == module.__all__
    assert not hasattr(module, "OtherSource")


BROKEN = [
    ("numpy is missing", "sys.modules['numpy'] = None"),
    ("lz4 is missing", "sys.modules['lz4'] = None"),
    ("the package is missing", "sys.modules['spark_arrow_ipc'] = None"),
    ("pyarrow is missing", "sys.modules['pyarrow'] = None"),
]


@pytest.mark.slow
@pytest.mark.parametrize("breakage", [c[1] for c in BROKEN], ids=[c[0] for c in BROKEN])
def test_a_broken_environment_harms_nobody_and_says_why_when_used(breakage):
    """Spark's own lookup, word for word, in an environment where the source cannot be imported."""
    pytest.importorskip("pyspark")
    script = f"""
import pickle, sys
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource
{breakage}
import pyspark_arrowipc as mod
assert hasattr(mod, "DefaultSource") and issubclass(mod.DefaultSource, DataSource)
assert mod.DefaultSource.name() == "arrowipc"
try:
    pickle.loads(cloudpickle.dumps(mod.DefaultSource))(options={{}})
except ImportError as error:
    print(error)
"""
    answer = run_python(script)
    assert (0, "") == (answer.returncode, answer.stderr)
    assert "arrowipc doctor" in answer.stdout


def test_without_pyspark_there_is_no_source_and_no_error():
    script = (
        "import sys; sys.modules['pyspark'] = None; import pyspark_arrowipc as m; print(hasattr(m, 'DefaultSource'))"
    )
    answer = run_python(script)
    assert ("False\n", "") == (answer.stdout, answer.stderr)


def test_in_a_sound_environment_the_source_is_ours():
    pytest.importorskip("pyspark")
    module = importlib.import_module("pyspark_arrowipc")
    assert "spark_arrow_ipc.spark.datasource" == module.DefaultSource.__module__
    assert "arrowipc" == module.DefaultSource.name()


def test_spark_finds_the_module_at_the_top_level():
    assert "pyspark_arrowipc" in {info.name for info in pkgutil.iter_modules() if info.name.startswith("pyspark_")}


# ---- names


PUBLIC = {
    "spark_arrow_ipc": ["__version__", "aggregate", "compact", "count", "ingest", "ipc", "map_in_arrow", "options", "push_down", "register", "rewrite", "statistics", "vectors"],
    "spark_arrow_ipc.arrow": ["Array", "Endianness", "Field", "RecordBatch", "RecordBatchStream", "Schema", "types"],
    "spark_arrow_ipc.ipc": [
        "Block", "ConcatenatedStreams", "ConcatenatedStreamsWarning", "CooTensor", "CscMatrix", "CsfTensor", "CsrMatrix",
        "FileReader", "Follow", "FollowReader", "Format", "Limits", "ReadOptions", "SparseTensor", "StreamReader", "Tensor", "WriteOptions", "Writer",
        "connect", "create", "find_streams", "open", "open_file", "open_stream", "read_schema", "read_tensor", "read_tensors", "serve", "write",
        "write_tensor",
    ],
}  # fmt: skip


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_pinned(module):
    assert PUBLIC[module] == sorted(importlib.import_module(module).__all__)


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_exist(module):
    loaded = importlib.import_module(module)
    if module == "spark_arrow_ipc":
        pytest.importorskip("pyspark")
    assert [] == [name for name in loaded.__all__ if not hasattr(loaded, name)]


def test_the_package_has_no_other_name():
    assert not hasattr(spark_arrow_ipc, "no_such_name")


def test_the_version_is_said_once():
    """The build reads it from the package; the changelog and the paper by which the project is cited have it, and its date."""
    assert "version" in PROJECT["project"]["dynamic"]
    assert {"path": "spark_arrow_ipc/__init__.py"} == PROJECT["tool"]["hatch"]["version"]
    version, date = re.search(r"^## \[([\d.]+)\] - (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE).groups()
    assert spark_arrow_ipc.__version__ == version
    assert dt.date.fromisoformat(date)
    assert f"version: {version}\ndate-released: {date}\n" in (ROOT / "CITATION.cff").read_text()


# ---- files


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_module_is_long(path):
    if name_of(path) not in UNLIMITED:
        assert len(path.read_text().splitlines()) <= MOST_LINES


MACHINE_PATH = re.compile(r"(?<![\w.:/])/(work|tmp|home|root|Users|opt|mnt|private)/[\w.]")


@pytest.mark.slow
def test_no_file_names_a_path_of_some_machine():
    """A path that exists on one machine only is of no use to anybody else; those of a Dockerfile are of the image that it makes."""
    endings = {".py", ".md", ".toml", ".conf", ".properties", ".fbs", ""}
    skipped = {".git", ".venv", ".hypothesis", "build", "dist", "__pycache__", "data"}
    found = []
    for path in sorted(ROOT.rglob("*")):
        parts = set(path.relative_to(ROOT).parts)
        if not path.is_file() or parts & skipped or any(p.endswith(("_cache", ".egg-info")) for p in parts):
            continue
        if path.suffix in endings and path.name not in {"LICENSE", "Dockerfile"} and path != Path(__file__):
            text = path.read_text(errors="replace")
            found += [f"{name_of(path)}: {match[0]}" for match in MACHINE_PATH.finditer(text)]
    assert [] == found


def sentences_of(path):
    """The strings of a module that a user may read: all but docstrings."""
    docstrings = {node.value for node in nodes_of(path) if isinstance(node, ast.Expr)}
    return [node.value for node in nodes_of(path) if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings]  # fmt: skip


NOT_FOR_USERS = {
    "a file of docs/, which an installed package does not have": re.compile(r"(?<![\w.]/)\bdocs/"),
    "two words for one": re.compile(r"\bdata sets?\b", re.IGNORECASE),
}


@pytest.mark.parametrize("what", NOT_FOR_USERS)
def test_no_sentence_for_users_has(what):
    found = [f"{name_of(path)}: {text}" for path in SOURCES for text in sentences_of(path) if NOT_FOR_USERS[what].search(text)]  # fmt: skip
    assert [] == found


def test_one_function_suggests_names():
    suggesting = [name_of(path) for path in SOURCES if any("did you mean" in text for text in sentences_of(path))]
    searching = [name_of(path) for path in SOURCES if "difflib" in imported_roots(path)]
    assert ["spark_arrow_ipc/errors.py"] == suggesting == searching


def test_pages_that_sentences_name_are_on_the_site():
    named = {name for path in SOURCES for text in sentences_of(path) for name in re.findall('"([^"]+)" in the documentation', text)}  # fmt: skip
    site = (ROOT / "mkdocs.yml").read_text()
    assert named
    assert set() == {name for name in named if f"- {name}: " not in site}


def test_the_keywords_of_options_are_those_of_the_table():
    """When they are not: ``python tests/programs/docs_tables.py``, into ``keywords.py``."""
    pytest.importorskip("pyspark")
    from docs_tables import keywords_source

    path = PACKAGE / "spark" / "options" / "keywords.py"
    assert keywords_source() == path.read_text(encoding="utf-8")


def test_every_package_has_an_init():
    """A folder without one is not found by setuptools, nor imported from a zip."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [] == [name_of(folder) for folder in folders if not (folder / "__init__.py").is_file()]


def test_no_module_needs_its_own_place_on_disk():
    """The package runs from a zip: only the doctor, which reports it, may look at ``__file__``."""
    using = {name_of(path) for path in SOURCES if "__file__" in code_of(path)}
    assert using <= {"spark_arrow_ipc/cli/doctor.py"}


TESTED_ELSEWHERE = {
    "table/documents.py": "the layout of HuggingFace: tests/dataset/write/test_hugging_face_layout.py",
    "table/collect.py": "what transactions and vacuums delete: tests/table/test_transaction.py",
    "table/restore.py": "tests/table/test_transaction.py",
    "table/snapshot.py": "what transactions read: tests/table/test_transaction.py",
    "spark/rewrite/in_place.py": "tests/spark/rewrite/test_rewrite.py",
    "spark/datasource.py": "every test with Spark goes through it",
    "spark/options/keywords.py": "tests/spark/options/test_typed.py",
    "cli/shared/rows.py": "options of commands, tests/cli/test_head.py, and tables, tests/cli/test_cat.py",
    "spark/read/matching_rows.py": "the option --where of commands: tests/cli/test_head.py",
    "spark/read/exact.py": "rows that rewrites and statements write again: tests/spark/rewrite/test_kept.py, test_row_level.py",
    "spark/write/same_types.py": "types of rewritten files: tests/spark/rewrite/test_kept.py, test_row_level.py",
}
"""Modules without a test file of their own name, and why."""


def test_each_module_has_a_test_file_of_its_name():
    """`spark_arrow_ipc/a/b.py` is tested in `tests/a/test_b.py`, so that it is found by its name."""
    modules = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"}
    without = {m.as_posix() for m in modules if not (ROOT / "tests" / m.parent / f"test_{m.name}").is_file()}
    assert set() == without - set(TESTED_ELSEWHERE)


def test_programs_of_tests_find_modules_in_one_way():
    """As pytest finds them, and the package of their own checkout before an installed one."""
    names = json.dumps(["", *PROJECT["tool"]["pytest"]["ini_options"]["pythonpath"]])
    line = f"sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ({names[1:-1]})]  # fmt: skip"
    for path in (ROOT / "tests").glob("*/[!t]*.py"):
        lines = [text for text in path.read_text().splitlines() if re.match(r"sys\.path.*__file__", text)]
        assert lines in ([], [line]), path
        assert lines or path.parent.name != "programs" or imported_roots(path) <= sys.stdlib_module_names, path


def test_the_licence_is_the_whole_text():
    licence = (ROOT / "LICENSE").read_text()
    assert "Apache License" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
    assert "Apache-2.0" == PROJECT["project"]["license"]


# ---- papers


def commands(text):
    blocks = re.findall(r"```console\n(.*?)```", text.replace("\\\n    ", ""), flags=re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def test_ci_runs_the_readmes_test_command_letter_by_letter():
    tests = [command for command in commands(README) if "-m pytest" in command]
    assert 1 == len(tests)
    assert tests[0] in (ROOT / ".ci" / "run").read_text().replace("\\\n    ", "").splitlines()


def test_the_readme_has_one_command_for_the_main_job():
    assert 1 == sum("examples/quickstart.py" in command for command in commands(README))


def test_the_readmes_extras_scripts_and_subcommands_exist():
    text = "\n".join(commands(README))
    extras = {extra for group in re.findall(r"(?:\.|-ipc)\[([\w,]+)\]", text) for extra in group.split(",")}
    assert extras <= set(PROJECT["project"]["optional-dependencies"])
    assert all((ROOT / script).is_file() for script in re.findall(r"examples/\w+\.py", text))
    assert "arrowipc" in PROJECT["project"]["scripts"]
    main = importlib.import_module("spark_arrow_ipc.cli.main")
    papers = "\n".join(path.read_text() for path in PAPERS if path.name != "CHANGELOG.md")
    named = set(re.findall(r"`arrowipc ([a-z]+)", papers)) | set(
        re.findall(r"^\$ arrowipc ([a-z]+)", papers, re.MULTILINE)
    )
    assert named
    assert named <= set(main.COMMANDS)


@pytest.mark.parametrize("path", [*PAPERS, *BESIDE_PROGRAMS], ids=name_of)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", without_code(path))
    local = [(path.parent / target if target else path, title) for target, title in links if "://" not in target]
    assert [] == [target for target, _ in local if not target.exists()]
    to_titles = [(target, title) for target, title in local if title and target.suffix == ".md"]
    assert [] == [(target, title) for target, title in to_titles if title not in anchors(target)]


def without_code(path):
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(path):
    """Return what links to the titles of a page say."""
    titles = re.findall(r"^#+ (.*)$", without_code(path), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", PAPERS, ids=name_of)
def test_python_in_the_papers_is_python(path):
    for block in re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL):
        ast.parse(block)


@pytest.mark.parametrize("path", PAPERS, ids=name_of)
def test_programs_that_papers_name_exist(path):
    """Those of a changelog existed when it was written."""
    named = set(re.findall(r"\b(?:tests|benchmarks|examples|packaging)/[\w/]+\.(?:py|sh)\b", path.read_text()))
    assert [] == [
        name
        for name in sorted(named)
        if path.name != "CHANGELOG.md" and "NAME" not in name and not (ROOT / name).is_file()
    ]


def test_the_page_of_tests_counts_the_steps_at_which_a_process_can_be_killed():
    assert f"[{len(POINTS)} named steps]" in (ROOT / "docs" / "how_it_is_tested.md").read_text()


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_what_was_looked_at(path):
    """Actions by commit, with the version for people; checkouts keep no credentials; tools of a release by hash."""
    text = path.read_text()
    uses = re.findall(r"uses: (.*)", text)
    assert uses
    assert [] == [use for use in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[0-9.]+", use)]
    checkouts = re.findall(r"uses: actions/checkout@.*\n((?:        .*\n)*)", text)
    assert all("persist-credentials: false" in options for options in checkouts)
    installed = re.findall(r"^ *- run: python -m pip install (.*)", text, re.MULTILINE)
    assert all(what.startswith(("-e ", "--require-hashes ")) for what in installed)


def test_workflows_give_an_attacker_nothing():
    """What zizmor knows of: permissions, credentials, what is pinned, what a title of a pull request could run."""
    program = shutil.which("zizmor", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("zizmor is not installed")
    answer = subprocess.run(
        [program, "--offline", "--persona=auditor", "--no-progress", ".github"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert 0 == answer.returncode, answer.stdout + answer.stderr


def test_shell_scripts_are_executable():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
