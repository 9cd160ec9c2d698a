"""The programs of the documentation's pages run, and print what stands beside them (page_programs.py)."""

import contextlib
import io
import json
import re
import shlex
import shutil

import page_programs
import pytest
from fault_server import fault_server
from page_programs import blocks, in_folder, missing, pages, printed_by
from pushed import sql_session

from spark_arrow_ipc import examples
from spark_arrow_ipc.cli.main import main

BATCHES = "spark.sql.execution.arrow.maxBytesPerBatch"
WITH_TABLES = ("sql.md", "methods.md")
"""Pages that make tables of the catalog, which are dropped after them."""


@pytest.fixture(scope="module")
def examples_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    examples.make(folder)
    return folder


@pytest.fixture
def folder(examples_folder, tmp_path):
    """A folder as users have it."""
    shutil.copytree(examples_folder, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def settings(spark):
    """What a page sets of the session is set back."""
    before = spark.conf.get(BATCHES)
    yield
    spark.conf.set(BATCHES, before)


@contextlib.contextmanager
def bucket(monkeypatch):
    """A server with the bucket of the pages, whose keys are where the pages look for them."""
    with fault_server() as server:
        monkeypatch.setenv("LAKE_KEY_ID", server.options["access_key_id"])
        monkeypatch.setenv("LAKE_SECRET", server.options["secret_access_key"])
        yield server


def drop_tables(spark):
    for table in spark.catalog.listTables():
        kind = "VIEW" if table.isTemporary or table.tableType == "VIEW" else "TABLE"
        spark.sql(f"DROP {kind} `{table.name}`")


def page_id(path):
    return path.relative_to(page_programs.ROOT).as_posix()


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("page", pages(), ids=page_id)
def test_the_programs_of_a_page(spark, settings, folder, monkeypatch, page):
    if page.name == "streaming.md":
        pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")
    namespace = {"spark": spark}
    with contextlib.ExitStack() as stack:
        server = None
        if page.name in WITH_TABLES:
            stack.enter_context(sql_session(spark))
            stack.callback(drop_tables, spark)
        for number, block in enumerate(blocks(page)):
            if not page_programs.runs(block) or missing(block):
                continue
            code = block.code
            if block.mark == "bucket":
                server = server or stack.enter_context(bucket(monkeypatch))
                code = code.replace(
                    '"storage.region": "eu-central-1"',
                    f'"storage.endpoint": "{server.endpoint}", "storage.region": "eu-central-1"',
                )
                code = code.replace("s3://bucket/", f"{server.url}/")
            where = f"{page.name}, block {number}"
            if block.language == "console":
                run_commands(code, folder, where)
                continue
            expected = page_programs.PRINTS.findall(code)
            printed = printed_by(code, namespace, folder, where)
            if expected:
                assert expected == printed.splitlines(), where
            elif "print(" in code or shown_after(page, block) is not None:
                assert shown_after(page, block) == printed, where


def shown_after(page, block):
    """The text that a page shows below a program, tables of Spark's `show` included, or None."""
    shown = re.search(re.escape(block.code) + r"```\n\n```text\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return shown and shown[1]


def run_commands(code, folder, where):
    """Run the lines of our own command; what stands below one is what it prints."""
    for command, below in re.findall(r"^\$ (arrowipc .*)\n((?:(?!\$ ).*\n)*)", code, re.MULTILINE):
        out, err = io.StringIO(), io.StringIO()
        leaving = contextlib.suppress(SystemExit)  # --help does
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), leaving:
            main(shlex.split(command, comments=True)[1:])
        assert "usage:" not in err.getvalue(), f"{where}: {command}"
        if below:
            assert below == out.getvalue() + err.getvalue(), f"{where}: {command}"


@pytest.mark.exhaustive
def test_the_tutorial_prints_what_it_shows(spark, settings, folder):
    notebook = json.loads(page_programs.NOTEBOOK.read_text())
    namespace = {}
    for number, cell in enumerate(page_programs.cells_of(notebook), 1):
        printed = printed_by(page_programs.source_of(cell), namespace, folder, f"cell {number}")
        assert page_programs.output_of(cell) == printed, f"cell {number}"


def test_paths_that_go_to_spark_are_in_the_folder():
    given = 'a.load("lake"), b.save("a/x"), c.load("s3://a/b"), ipc.open("x.arrow"), open("y")'
    expected = 'a.load("/t/lake"), b.save("/t/a/x"), c.load("s3://a/b"), ipc.open("/t/x.arrow"), open("y")'
    assert expected == in_folder(given, "/t")
    assert 'ingest(spark, "/t/a", "/t/b", checkpoint="/t/c")' == in_folder(
        'ingest(spark, "a", "b", checkpoint="c")', "/t"
    )


def test_a_block_that_is_not_run_says_why():
    reasons = [
        block.not_run
        for path in page_programs.DOCS.rglob("*.md")
        for block in blocks(path)
        if block.mark.startswith("not run")
    ]
    assert reasons
    assert all(len(reason) > 10 for reason in reasons)


def test_a_mark_is_one_that_is_known():
    marks = {block.mark for path in page_programs.DOCS.rglob("*.md") for block in blocks(path) if block.mark}
    assert [] == [mark for mark in marks if not re.fullmatch(r"not run: .+|needs: \w+|bucket|end .*", mark)]


def test_pages_that_run_elsewhere_exist():
    assert [] == [page for page in page_programs.RUN_ELSEWHERE if not (page_programs.DOCS / page).is_file()]
