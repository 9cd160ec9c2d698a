"""What we write is read equal by Arrow Java and arrow-js, which say in Arrow's integration JSON what they have read.

flechette, which reads dictionaries only where a stream has them, reads our dictionaries.

Both run as programs of `tests/interop`, once each for all files. Arrow Java comes with PySpark, as jars; it needs a
JDK to compile one source file. arrow-js needs Node and the package `apache-arrow`, in NODE_PATH or where this puts it:

    npm install --prefix build/node apache-arrow @uwdata/flechette@2.6

The contents are the integration JSON of `tests/data` and, where ARROW_IPC_CORPUS names the corpus, Arrow's goldens.
"""

import dataclasses
import importlib.util
import itertools
import json
import os
import shlex
import shutil
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import corpus
import integration_json
import pytest
import quick_jvm
import strategies

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import walk_fields
from spark_arrow_ipc.cli.shared.differences import Comparison
from spark_arrow_ipc.errors import ArrowIpcError

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "interop"
NODE_INSTALL = "npm install --prefix build/node apache-arrow @uwdata/flechette@2.6"
NODE_FOLDER = ROOT / "build" / "node" / "node_modules"
CODECS = (None, "lz4", "zstd")
LONGEST_SECONDS = 600


def is_one_of(*classes):
    return lambda type_: isinstance(type_, classes)


def is_narrow_decimal(type_):
    return isinstance(type_, t.Decimal) and type_.bit_width < 128


def is_empty_binary(type_):
    return type_ == t.FixedSizeBinary(0)


ARROW_JS_LACKS = {
    "list-views": (is_one_of(t.ListView, t.LargeListView), 'Unrecognized type: "ListView"'),
    "run ends": (is_one_of(t.RunEndEncoded), 'Unrecognized type: "RunEndEncoded"'),
}
"""What arrow-js 21 cannot read: the types, and its words. It brings no codec either, so it gets no compressed file."""

ARROW_JAVA_LACKS = {
    "decimals of 32 and 64 bits": (is_narrow_decimal, "Library only supports 128-bit and 256-bit decimal values"),
    "fixed-size binaries of no bytes": (is_empty_binary, "ArithmeticException: / by zero"),
}
"""What Arrow Java 19 cannot read: the types, and its words."""


def no_json_of_java(type_):
    """Return whether Arrow Java reads a type and cannot write it as JSON, so that it writes a stream of what it read.

    It has no offsets of dense unions and spells the modes of unions otherwise, does not know large binaries and half
    floats, and fails where views point into several buffers.
    """
    unknown = (t.DenseUnion, t.SparseUnion, t.LargeBinary, t.BinaryView, t.Utf8View)
    return isinstance(type_, unknown) or type_ == t.float16


RENAMED_BY_JAVA = "'$data$' in Arrow Java"
"""Arrow Java gives the elements of a list that is a dictionary a name of its own."""


# ---- contents


def documents():
    """Return the integration JSON to write, by name."""
    found = sorted((ROOT / "tests" / "data").glob("*.json.gz"))
    if corpus.root() is not None:
        found += sorted(corpus.root().glob("arrow-testing/data/arrow-ipc-stream/integration/*/*.json.gz"))
    return {f"{path.parent.name}/{path.name.removesuffix('.json.gz')}": path for path in found}


@cache
def content(name):
    return integration_json.read(documents()[name])


def types_of(name):
    """Return the types of all fields; of a dictionary-encoded one, that of the values."""
    types = [field.type for _, field in walk_fields(content(name).schema.fields)]
    return [type_.value if isinstance(type_, t.Dictionary) else type_ for type_ in types]


@dataclasses.dataclass(frozen=True)
class Case:
    """A content, how it is written, and what the other side makes of it."""

    name: str
    form: str
    codec: str | None
    source: Path
    target: Path

    def __str__(self):
        return f"{self.name} {self.form} {self.codec}"


def written(folder, codecs, suffix):
    """Write all contents in all ways; `suffix` gives the ending of what the other side shall write."""
    cases = []
    for name, form, codec in itertools.product(documents(), ("file", "stream"), codecs):
        stem = f"{name.replace('/', '.')}.{form}.{codec}"
        case = Case(name, form, codec, folder / f"{stem}.arrow", folder / f"{stem}{suffix(name)}")
        document = content(name)
        options = ipc.WriteOptions(format=form, compression=codec, checksums=form == "file")
        ipc.write(case.source, document.batches, document.schema, options)
        cases.append(case)
    return cases


# ---- what became of them

EQUAL = "equal"
REFUSED = "refused, as listed"


def outcomes(cases, command, folder, side, lacks):
    """Run a program over all cases; return for each how it ended: EQUAL, REFUSED, or what is wrong."""
    jobs = folder / "jobs.json"
    jobs.write_text(json.dumps([[str(case.source), str(case.target)] for case in cases]))
    answer = subprocess.run([*command, str(jobs)], capture_output=True, text=True, timeout=LONGEST_SECONDS)
    assert answer.returncode == 0, answer.stderr
    errors = [json.loads(line)["error"] for line in answer.stdout.splitlines()]
    return {
        case: difference(case, side) if error is None else refusal(case, error, lacks)
        for case, error in zip(cases, errors, strict=True)
    }


def refusal(case, error, lacks):
    expected = [words for lacked, words in lacks.values() if any(map(lacked, types_of(case.name)))]
    return REFUSED if any(words in error for words in expected) else f"refused: {error}"


def difference(case, side):
    try:
        schema, batches = contents_of(case.target)
    except ArrowIpcError as error:
        return f"what {side} wrote is unsound: {error}"
    document = content(case.name)
    if not document.batches:
        # arrow-js gives an empty batch where there is none.
        batches = [batch for batch in batches if batch.num_rows]
    comparison = Comparison("the original", side)
    of_schemas = comparison.of_schemas(document.schema, schema) or ""
    if of_schemas and not of_schemas.endswith(RENAMED_BY_JAVA):
        return of_schemas
    return comparison.of_batches(document.batches, batches) or EQUAL


def contents_of(path):
    if path.suffix == ".json":
        document = integration_json.read(path)
        return document.schema, document.batches
    with ipc.open(path) as reader:
        return reader.schema, tuple(reader)


def counted(found):
    """Count the outcomes of each way."""
    ways = Counter((case.form, case.codec or "none", outcome) for case, outcome in found.items())
    return [f"{count:>5}  {form}, compression {codec}: {outcome}" for (form, codec, outcome), count in ways.items()]


def wrong(found):
    return {str(case): outcome for case, outcome in found.items() if outcome not in (EQUAL, REFUSED)}


def unread(found):
    """Return the classes of types that no equal content holds."""
    read = {type(type_) for case, outcome in found.items() if outcome == EQUAL for type_ in types_of(case.name)}
    return set(strategies.EVERY_CLASS) - read - {t.Dictionary}


needs_goldens = pytest.mark.skipif(corpus.root() is None, reason=f"{corpus.VARIABLE} is not set")


@pytest.mark.slow
@pytest.mark.parametrize("lacks", [ARROW_JS_LACKS, ARROW_JAVA_LACKS], ids=["arrow-js", "Arrow Java"])
def test_some_content_holds_what_is_listed_as_unreadable(lacks):
    held = [type_ for name in documents() for type_ in types_of(name)]
    assert [] == [name for name, (lacked, _) in lacks.items() if not any(map(lacked, held))]


# ---- arrow-js


def node_command(package, program):
    """Return the command of a program of Node; skip where Node or its package is absent."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    folders = [*os.environ.get("NODE_PATH", "").split(os.pathsep), str(NODE_FOLDER)]
    if not any(folder and (Path(folder) / package).is_dir() for folder in folders):
        pytest.skip(f"{package} is not in NODE_PATH: {NODE_INSTALL}")
    return ["env", f"NODE_PATH={os.pathsep.join(folders)}", node, str(PROGRAMS / program)]


@pytest.fixture(scope="module")
def of_arrow_js(tmp_path_factory):
    command = node_command("apache-arrow", "arrow_js.mjs")
    folder = tmp_path_factory.mktemp("arrow_js")
    cases = written(folder, [None], lambda _: ".json")
    return outcomes(cases, command, folder, "arrow-js", ARROW_JS_LACKS)


@pytest.mark.slow
def test_arrow_js_reads_what_we_write(of_arrow_js, capsys):
    with capsys.disabled():
        print("", "arrow-js:", *counted(of_arrow_js), sep="\n")
    assert {} == wrong(of_arrow_js)


@pytest.mark.slow
@needs_goldens
def test_arrow_js_reads_every_type_or_it_is_listed(of_arrow_js):
    assert {t.ListView, t.LargeListView, t.RunEndEncoded} == unread(of_arrow_js)


# ---- flechette


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"dictionaries": "delta"}, {"format": "stream"}], ids=["file", "deltas", "stream"]
)
def test_flechette_reads_our_dictionaries(tmp_path, options):
    """It reads the messages of a file in their order."""
    command = node_command("@uwdata/flechette", "flechette.mjs")
    schema = Schema.of(
        [t.field("w", t.dictionary(t.int8, t.utf8)), t.field("l", t.list_(t.dictionary(t.int32, t.int32)))]
    )
    rows = [
        [{"w": word, "l": [len(word), None, batch]} for word in words]
        for batch, words in enumerate([["a", "bb"], ["ccc", "a", "d" * 20], ["bb"]])
    ]
    batches = [RecordBatch.from_pylist(part, schema) for part in rows]
    path = tmp_path / "a.arrow"
    ipc.write(path, batches, options=ipc.WriteOptions(**options))
    answer = subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=LONGEST_SECONDS)
    assert (list(itertools.chain(*rows)), "") == (json.loads(answer.stdout or "null"), answer.stderr)


# ---- Arrow Java


def nests_dictionaries(name):
    encoded = [
        field.type for _, field in walk_fields(content(name).schema.fields) if isinstance(field.type, t.Dictionary)
    ]
    return any(
        isinstance(field.type, t.Dictionary) for type_ in encoded for _, field in walk_fields(type_.value.children)
    )


def java_target(name):
    # Of a dictionary in a dictionary Arrow Java writes the outer one first, which no reader of a stream can decode.
    streams = any(map(no_json_of_java, types_of(name))) and not nests_dictionaries(name)
    return ".arrows" if streams else ".json"


@pytest.fixture(scope="module")
def of_arrow_java(tmp_path_factory):
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None:
        pytest.skip("pyspark is not installed, whose jars hold Arrow Java")
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        pytest.skip("there is no JDK")
    jars = Path(pyspark.origin).parent / "jars"
    folder = tmp_path_factory.mktemp("arrow_java")
    cases = written(folder, CODECS, java_target)
    command = [
        java, *shlex.split(quick_jvm.OPTIONS), "--add-opens=java.base/java.nio=ALL-UNNAMED", "-Darrow.struct.conflict.policy=CONFLICT_APPEND",
        "-cp", f"{jars}/*", str(PROGRAMS / "ArrowJava.java"),
    ]  # fmt: skip
    return outcomes(cases, command, folder, "Arrow Java", ARROW_JAVA_LACKS)


@pytest.mark.exhaustive
def test_arrow_java_reads_what_we_write(of_arrow_java, capsys):
    with capsys.disabled():
        print("", "Arrow Java:", *counted(of_arrow_java), sep="\n")
    assert {} == wrong(of_arrow_java)


@pytest.mark.exhaustive
@needs_goldens
def test_arrow_java_reads_every_type(of_arrow_java):
    """Decimals too, of 128 and 256 bits."""
    assert set() == unread(of_arrow_java)
