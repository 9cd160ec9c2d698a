"""The programs of docs/read_it_with.md are run, and print what the comments beside them say.

Each block of code is one program, run in a directory of files as the page's first block writes them: by Python in this
process, by Node and Java where they are installed. What needs another package is skipped where that is absent:

    pip install duckdb datasets
    npm install --prefix build/node apache-arrow lz4js fzstd @uwdata/flechette@2.6
"""

import importlib.util
import io
import os
import re
import shutil
import subprocess
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from commit_jobs import save_files

from spark_arrow_ipc import ipc

pa = pytest.importorskip("pyarrow")

import arrow_from_pyarrow  # noqa: E402
from read_it_with import PAGE, ROOT, SECTIONS, blocks, expected_of, flights  # noqa: E402

NODE_INSTALL = "npm install --prefix build/node apache-arrow lz4js fzstd @uwdata/flechette@2.6"
NODE_FOLDER = ROOT / "build" / "node" / "node_modules"
CODECS = (None, "lz4", "zstd")


def encoded(table, **options):
    sink = io.BytesIO()
    batches = [arrow_from_pyarrow.batch_from_pyarrow(batch) for batch in table.to_batches()]
    ipc.write(sink, batches, batches[0].schema, ipc.WriteOptions(**options))
    return sink.getvalue()


def copy_one(folder):
    """Copy one file of each directory, as the page's lines of a terminal do."""
    for pattern, name in re.findall(r"^\$ cp (\S+) (\S+)$", PAGE, re.MULTILINE):
        (path,) = folder.glob(pattern)
        shutil.copy(path, folder / name)


@pytest.fixture(scope="module", params=CODECS, ids=str)
def codec(request):
    return request.param


@pytest.fixture(scope="module")
def folder(codec, tmp_path_factory):
    """The three directories, committed, in each compression."""
    folder = tmp_path_factory.mktemp("read")
    table = flights()
    days = [(f"day={day}", table.filter(pa.compute.equal(table["day"], day)).drop(["day"])) for day in (1, 2)]
    save_files(folder / "lake", [(day, encoded(part, compression=codec)) for day, part in days])
    save_files(folder / "streams", [("", encoded(table, compression=codec, format="stream"))])
    save_files(folder / "uncompressed", [("", encoded(table, compression=None))])
    for path in (folder / "streams").glob("part-*.arrow"):
        path.rename(path.with_suffix(".arrows"))
    copy_one(folder)
    return folder


def run_python(program, folder, monkeypatch):
    monkeypatch.chdir(folder)
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(program, "docs/read_it_with.md", "exec"), {})
    return out.getvalue().splitlines()


PYTHON = [("the start", blocks(PAGE, "python")[0])] + [
    (title, program) for title, text in SECTIONS.items() for program in blocks(text, "python")
]
SLOW_SECTIONS = {"HuggingFace datasets": "datasets", "DuckDB": "duckdb", "Ray, Daft and PyTorch": "daft"}
"""Sections whose package is not among those of the tests, and its name."""


@pytest.mark.parametrize(("title", "program"), [c for c in PYTHON if c[0] not in SLOW_SECTIONS], ids=lambda c: c[:20])
def test_programs_in_python(folder, monkeypatch, title, program):
    assert expected_of(program) == run_python(program, folder, monkeypatch), title


@pytest.mark.slow
@pytest.mark.parametrize("title", SLOW_SECTIONS)
def test_programs_in_python_of_packages_that_are_large(folder, monkeypatch, tmp_path, title):
    if importlib.util.find_spec(SLOW_SECTIONS[title]) is None:
        pytest.skip(f"{SLOW_SECTIONS[title]} is not installed: pip install {SLOW_SECTIONS[title]}")
    for variable in ("HF_HOME", "HF_DATASETS_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path))
    (program,) = blocks(SECTIONS[title], "python")
    assert expected_of(program) == run_python(program, folder, monkeypatch)


def test_polars_says_of_the_directory_what_the_page_says(folder):
    pl = pytest.importorskip("polars")
    (words,) = re.findall(r'`pl.scan_ipc\("lake"\)` is an error, "(.*?)"', PAGE)
    with pytest.raises(pl.exceptions.InvalidOperationError, match=words):
        pl.scan_ipc(folder / "lake").collect()


DICTIONARIES = [("strings", ["x" * 30, "y" * 40]), ("numbers", [1001, 1002])]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("values", [case[1] for case in DICTIONARIES], ids=[case[0] for case in DICTIONARIES])
def test_nanoarrow_reads_of_dictionaries_what_the_page_says(values, codec):
    """If this fails, nanoarrow reads compressed dictionaries by now: change the page."""
    na = pytest.importorskip("nanoarrow")
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array(values))
    data = encoded(pa.table({"c": column}), compression=codec, format="stream")
    assert column.to_pylist() == pa.ipc.open_stream(data).read_all()["c"].to_pylist()

    def read():
        return [row["c"] for row in na.ArrayStream.from_readable(io.BytesIO(data)).read_all().to_pylist()]

    if codec is None:
        assert column.to_pylist() == read()
    elif isinstance(values[0], str):
        with pytest.raises(na._utils.NanoarrowException, match="Expected first offset"):
            read()
    else:
        (right, wrong) = re.findall(r"`(\[.*?\])` became `(\[.*?\])`", PAGE)[0]
        assert (right, wrong) == (str(column.to_pylist()), str(read()))


VIEWS = {
    "strings": pa.array(["a"], pa.string_view()),
    "bytes": pa.array([b"a"], pa.binary_view()),
    "lists": pa.array([[1]], pa.list_view(pa.int8())),
    "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([7])),
}


@pytest.mark.parametrize("kind", VIEWS)
def test_nanoarrow_says_of_views_and_run_ends_what_the_page_says(kind):
    na = pytest.importorskip("nanoarrow")
    data = encoded(pa.table({"c": VIEWS[kind]}), format="stream")
    (words,) = re.findall(r'run ends are an error there, "(.*?)"', PAGE)
    with pytest.raises(na._utils.NanoarrowException, match=words):
        na.ArrayStream.from_readable(io.BytesIO(data)).read_all()


def node_command(program):
    """Return Node and the folder of the packages that a program imports; skip where one is absent."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    folders = [*filter(None, os.environ.get("NODE_PATH", "").split(os.pathsep)), str(NODE_FOLDER)]
    packages = re.findall(r'from "((?!node:)[^"]+)"', program)
    for modules in folders:
        if all((Path(modules) / package).is_dir() for package in packages):
            return node, modules
    pytest.skip(f"{', '.join(packages)} are not in one folder of NODE_PATH: {NODE_INSTALL}")
    return None


SERVED = """
import { createServer } from "node:http";
import { readFileSync as bytesOf } from "node:fs";

const server = createServer((request, response) => response.end(bytesOf("." + request.url)));
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
server.unref();
const fetchOf = globalThis.fetch;
globalThis.fetch = (path) => fetchOf(`http://127.0.0.1:${server.address().port}/${path}`);
"""
"""What a page that fetches has in a browser: a server of its folder, to which relative URLs lead."""


def run_node(program, folder, tmp_path):
    node, modules = node_command(program)
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "program.mjs").write_text((SERVED if "fetch(" in program else "") + program)
    answer = subprocess.run(
        [node, str(tmp_path / "program.mjs")], cwd=folder, capture_output=True, text=True, timeout=120
    )
    return answer.stdout.splitlines(), answer.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(blocks(PAGE, "javascript"))))
def test_programs_in_javascript(folder, tmp_path, number):
    program = blocks(PAGE, "javascript")[number]
    assert (expected_of(program), "") == run_node(program, folder, tmp_path)


@pytest.mark.slow
def test_javascript_without_a_codec_says_what_the_page_says(codec, folder, tmp_path):
    (words,) = re.findall(r'of a compressed file it says "(.*?)"', PAGE)
    program = blocks(PAGE, "javascript")[1].replace("uncompressed.arrow", "day1.arrow")
    out, err = run_node(program, folder, tmp_path)
    assert ([], True) == (out, words in err) if codec else (["500"], "") == (out, err)


@pytest.mark.one_in(3)
@pytest.mark.slow
def test_the_program_in_java(folder, tmp_path):
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None:
        pytest.skip("pyspark is not installed, whose jars hold Arrow Java")
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        pytest.skip("there is no JDK")
    program = (ROOT / "examples" / "ReadFlights.java").read_text()
    (tmp_path / "ReadFlights.java").write_text(program)
    jars = Path(pyspark.origin).parent / "jars"
    command = [
        java,
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "-cp",
        f"{jars}/*",
        str(tmp_path / "ReadFlights.java"),
    ]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert expected_of(program) == answer.stdout.splitlines(), answer.stderr


def test_the_page_shows_every_reader_of_its_table():
    table = PAGE.partition("|---")[2].partition("\n\n")[0]
    anchors = set(re.findall(r"\]\(#([\w-]+)\)", table))
    assert {re.sub(r"[^\w]+", "-", title.lower()) for title in SECTIONS} == anchors


RUN_BY = {
    "polars": test_programs_in_python,
    "pyarrow": test_programs_in_python,
    "pandas": test_programs_in_python,
    "DuckDB": test_programs_in_python_of_packages_that_are_large,
    "nanoarrow": test_programs_in_python,
    "HuggingFace datasets": test_programs_in_python_of_packages_that_are_large,
    "JavaScript: arrow-js, flechette": test_programs_in_javascript,
    "Java": test_the_program_in_java,
    "Ray, Daft, PyTorch": test_programs_in_python_of_packages_that_are_large,
    "R": None,
    "Julia": None,
    "this package, from Python": test_programs_in_python,
}
"""By the reader of the page's table: the test that runs its programs."""


def test_the_table_says_which_readers_were_not_run():
    table = PAGE.partition("|---")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| \[([\w ,:-]+)\]\(.*?\)(.*?) \|", table, re.MULTILINE)
    assert [(reader, test is None) for reader, test in RUN_BY.items()] == [
        (reader, note == ", not run") for reader, note in rows
    ]
