"""The codec and the command line stand alone: without pyspark and pyarrow, and from a zip."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "spark_arrow_ipc"
DATA = Path(__file__).parent / "data"
BLOCKED = ("pyspark", "pyarrow", "pandas", "polars")
BLOCK = f"import sys\nfor name in {BLOCKED!r}: sys.modules[name] = None\n"


def run_python(*arguments, path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-W", "error", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=path,  # not the checkout: `-c` and `-m` put the working folder in front of everything
        env=environment | {"PYTHONPATH": str(path)},
    )


def printed(*arguments, path):
    answer = run_python(*arguments, path=path)
    assert (0, "") == (answer.returncode, answer.stderr)
    return answer.stdout


READ = """
from spark_arrow_ipc import ipc
with ipc.open({path!r}) as reader:
    print(sum(batch.num_rows for batch in reader))
"""
WRITE = """
import io
from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema, types
schema = Schema.of([types.field("a", types.int64), types.field("b", types.list_(types.utf8))])
batch = RecordBatch.from_pylist([dict(a=1, b=["x", None]), dict(a=None, b=None)], schema)
for form in ("file", "stream"):
    for codec in (None, "lz4", "zstd"):
        sink = io.BytesIO()
        ipc.write(sink, [batch], options=ipc.WriteOptions(format=form, compression=codec))
        with ipc.open(sink.getvalue()) as reader:
            assert batch.to_pylist() == next(iter(reader)).to_pylist()
print("written and read")
"""
COMMAND = "import sys; from spark_arrow_ipc.cli.main import main; sys.exit(main({arguments!r}))"
SOUND = [
    str(DATA / name) for name in ("lists.arrow", "dictionaries.zstd.arrow", "texts.zstd.arrows", "many_rows.lz4.arrow")
]


@pytest.fixture(scope="module")
def zipped(tmp_path_factory):
    """The package as a wheel has it, not unpacked: as `--py-files` and zipapps carry it."""
    path = tmp_path_factory.mktemp("zip") / "spark_arrow_ipc.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(ROOT / "pyspark_arrowipc.py", "pyspark_arrowipc.py")
        for source in sorted(PACKAGE.rglob("*.py")):
            archive.write(source, source.relative_to(ROOT).as_posix())
    return path


@pytest.fixture(params=["folder", "zip"])
def where(request, tmp_path):
    """A place on `sys.path` that has the package and nothing else of the checkout."""
    if request.param == "zip":
        return request.getfixturevalue("zipped")
    (tmp_path / "spark_arrow_ipc").symlink_to(PACKAGE)
    return tmp_path


def script(text, where):
    """Return arguments that run a script with the optional libraries blocked and the package from one place."""
    proof = f"import spark_arrow_ipc\nassert spark_arrow_ipc.__file__.startswith({str(where)!r}), spark_arrow_ipc.__file__\n"
    return ("-c", f"{BLOCK}sys.path.insert(0, {str(where)!r})\n{proof}{text}")


@pytest.mark.slow
def test_codec_writes_and_reads_alone(where, tmp_path):
    assert "written and read\n" == printed(*script(WRITE, where), path=tmp_path)


@pytest.mark.slow
@pytest.mark.one_in(6)
@pytest.mark.parametrize("path", SOUND, ids=os.path.basename)
def test_codec_reads_alone(where, tmp_path, path):
    assert int(printed(*script(READ.format(path=path), where), path=tmp_path)) > 0


@pytest.mark.slow
def test_command_line_works_alone(where, tmp_path):
    text = COMMAND.format(arguments=["inspect", str(DATA / "lists.arrow")])
    assert "list" in printed(*script(text, where), path=tmp_path)


def test_importing_the_codec_imports_neither_spark_nor_pyarrow(tmp_path):
    names = ", ".join(map(repr, BLOCKED))
    modules = "spark_arrow_ipc.ipc, spark_arrow_ipc.arrow_json, spark_arrow_ipc.dataset, spark_arrow_ipc.cli.main"
    text = f"import sys, {modules}\nprint(*({{name.partition('.')[0] for name in sys.modules}} & {{{names}}}))"
    assert "\n" == printed("-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{text}", path=tmp_path)


@pytest.mark.slow
def test_zip_runs_as_a_module(zipped):
    """As a person does: the zip on PYTHONPATH, `python -m`."""
    answer = subprocess.run(
        [sys.executable, "-m", "spark_arrow_ipc.cli.main", "inspect", str(DATA / "lists.arrow")],
        capture_output=True,
        text=True,
        cwd=zipped.parent,
        env=os.environ | {"PYTHONPATH": str(zipped)},
    )
    assert (0, "") == (answer.returncode, answer.stderr)
    assert "list" in answer.stdout


def test_discovery_hook_in_a_zip_never_raises(zipped, tmp_path):
    """Spark imports it in every job of an environment that has the zip."""
    text = f"{BLOCK}sys.path.insert(0, {str(zipped)!r})\nimport pyspark_arrowipc\nprint(pyspark_arrowipc.__file__)"
    assert str(zipped) in printed("-c", text, path=tmp_path)


def test_source_in_spark_says_what_is_missing(where, tmp_path):
    """Without pyspark the Spark half is an ImportError that names it, and the codec is untouched."""
    text = "try:\n    import spark_arrow_ipc.spark.datasource\nexcept ImportError as error:\n    print(error)"
    assert "pyspark" in printed(*script(text, where), path=tmp_path)
