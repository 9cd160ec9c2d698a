"""The schema of a dataset: of the first file that can be read, or each distinct one."""

import os
from pathlib import Path

import pytest
from listed_files import list_files

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import Field, int64
from spark_arrow_ipc.dataset.listing.tree import DataFile
from spark_arrow_ipc.dataset.scan.error_policy import ErrorPolicy
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataCache, MetadataOptions
from spark_arrow_ipc.dataset.scan.schemas import distinct_schemas, newest_schema, project, read_schemas
from spark_arrow_ipc.errors import ColumnNotFoundError, FileChangedError, InvalidArrowError, NoFilesError
from spark_arrow_ipc.table.encoded_schema import encode_schema
from spark_arrow_ipc.table.files import Files
from spark_arrow_ipc.table.names import data_file_name
from spark_arrow_ipc.table.state import State

pa = pytest.importorskip("pyarrow")

MAKERS = {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream}
TABLE = pa.table({"a": range(100), "s": [{"x": i, "y": str(i)} for i in range(100)]})


def write(path, table=TABLE, kind="file"):
    with pa.OSFile(str(path), "wb") as sink, MAKERS[kind](sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    return str(path)


def cache(recover=False):
    return MetadataCache(MetadataOptions(recover=recover))


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_the_newest_file_gives_its_schema_and_no_other_is_opened(tmp_path, kind):
    write(tmp_path / "a", TABLE.select(["a"]))
    path = write(tmp_path / "x", kind=kind)
    write(tmp_path / "z", TABLE.select(["a"]))
    for name, seconds in (("a", 10), ("x", 20), ("z", 10)):
        os.utime(tmp_path / name, (seconds, seconds))
    known = cache()
    file, schema = newest_schema(list_files([str(tmp_path)]), known)
    assert [path] == list(known.by_path)
    assert (path, ("a", "s")) == (file.path, schema.names)


def test_no_file_and_a_vanished_file_have_none(tmp_path):
    with pytest.raises(NoFilesError, match="there is no file"):
        newest_schema([], cache())
    with pytest.raises(NoFilesError, match="there is no file"):
        distinct_schemas([], cache())
    for of in (newest_schema, distinct_schemas):
        with pytest.raises(FileChangedError, match=r"gone\.arrow.*read the path again"):
            of([DataFile(str(tmp_path / "gone.arrow"), 1, 1)], cache())


@pytest.fixture
def damaged(tmp_path):
    """A file that is gone, the newest; an empty one, one without its end, and a sound one."""
    (tmp_path / "1").write_bytes(b"")
    good = write(tmp_path / "3")
    (tmp_path / "2").write_bytes(Path(good).read_bytes()[:-7])
    return [DataFile(str(tmp_path / "0"), 1, 2**62), *list_files([str(tmp_path)])]


SKIPPED = [
    # what is tolerated, the file whose schema it is
    (ErrorPolicy(ignore_missing_files=True, ignore_corrupt_files=True), "3"),
    (ErrorPolicy(ignore_missing_files=True, recover=True), "2"),
]


@pytest.mark.parametrize(("policy", "name"), SKIPPED, ids=["ignored", "recovered"])
def test_files_that_cannot_be_opened_are_skipped_where_that_is_allowed(damaged, policy, name):
    file, schema = newest_schema(damaged, cache(policy.recover), policy)
    assert (name, ("a", "s")) == (Path(file.path).name, schema.names)
    ((file, schema),) = distinct_schemas(damaged, cache(policy.recover), policy)
    assert (name, ("a", "s")) == (Path(file.path).name, schema.names)


FATAL = [
    (ErrorPolicy(ignore_corrupt_files=True), FileChangedError),
    (ErrorPolicy(recover=True), FileChangedError),
    (ErrorPolicy(ignore_missing_files=True), InvalidArrowError),
]


@pytest.mark.parametrize(("policy", "error"), FATAL, ids=["gone", "gone, recovering", "broken"])
def test_files_that_cannot_be_opened_are_errors_elsewhere(damaged, policy, error):
    for of in (newest_schema, distinct_schemas):
        with pytest.raises(error):
            of(damaged, cache(policy.recover), policy)


def test_where_all_are_skipped_there_is_no_schema(damaged):
    both = ErrorPolicy(ignore_missing_files=True, ignore_corrupt_files=True)
    for of in (newest_schema, distinct_schemas):
        with pytest.raises(NoFilesError, match="none of the files can be read"):
            of(damaged[:2], cache(), both)


def test_each_distinct_schema_comes_once_with_its_first_file(tmp_path):
    for name, table in {"1": TABLE, "2": TABLE.select(["a"]), "3": TABLE, "4": TABLE.select(["a"])}.items():
        write(tmp_path / name, table, "stream" if name == "3" else "file")
    found = distinct_schemas(list_files([str(tmp_path)]), cache())
    assert [("1", ("a", "s")), ("2", ("a",))] == [(Path(file.path).name, schema.names) for file, schema in found]


WORDS = pa.table({"w": pa.array(["b"] * 100).dictionary_encode(), **{name: TABLE[name] for name in TABLE.column_names}})


@pytest.mark.parametrize("columns", [["a"], [("s", "y"), "a"], [2, 0], ["w", "s"], []], ids=str)
def test_a_projection_is_what_a_reader_of_these_columns_has(tmp_path, columns):
    path = write(tmp_path / "x", WORDS)
    with ipc.open(path) as reader, ipc.open(path, columns=columns) as projected:
        assert project(reader.schema, columns) == projected.schema
        assert project(reader.schema, lambda _: columns) == projected.schema


def test_a_projection_to_a_column_that_is_not_there_is_an_error(tmp_path):
    with ipc.open(write(tmp_path / "x")) as reader, pytest.raises(ColumnNotFoundError, match="'c'"):
        project(reader.schema, ["c"])


OWN = data_file_name(0, "01234567", "0123456789abcdef" * 2)


def states_of(root, tables, paths):
    """Return the states of tables with columns, each with the managed files of which it is the innermost with a schema."""
    outer = {
        name: max((at for at in tables if f"{name}/".startswith(f"{at}/") and tables[at]), key=len, default=None)
        for name in paths
    }
    states = {}
    for at, columns in tables.items():
        files = [(path.removeprefix(f"{at}/"), 1, 1, 0) for path in paths if path.endswith(OWN) and outer[path] == at]
        schema = encode_schema(Schema(tuple(Field(name, int64) for name in columns)), "") if columns else ""
        states[f"{root}/{at}"] = State("01234567", 1, "0" * 32, files=Files.of(files), schema=schema)
    return states


# (Files with their columns, the newest first; the columns of the log entries of tables; what a read has, and of what.)
READ = {
    "the log entry": ([(f"lake/{OWN}", "a")], {"lake": "xy"}, [("lake", "xy")]),
    "in a partition": ([(f"lake/k=1/{OWN}", "a")], {"lake": "xy"}, [("lake", "xy")]),
    "files of another program": (
        [(f"lake/{OWN}", "a"), ("lake/new.arrow", "b"), ("lake/old.arrow", "c")], {"lake": "xy"},
        [("lake", "xy"), ("lake/new.arrow", "b")],
    ),
    "files of another program alone": ([("lake/new.arrow", "b")], {"lake": "xy"}, [("lake/new.arrow", "b")]),
    "a log entry without a schema": ([(f"lake/{OWN}", "a")], {"lake": ""}, [(f"lake/{OWN}", "a")]),
    "no table": ([(f"lake/{OWN}", "a")], {}, [(f"lake/{OWN}", "a")]),
    "the newer one of two": (
        [(f"two/{OWN}", "a"), (f"lake/{OWN}", "b")], {"lake": "xy", "two": "z"}, [("two", "z")],
    ),
    "one inside of another": (
        [(f"lake/k=1/{OWN}", "a"), (f"lake/{OWN}", "b")], {"lake": "xy", "lake/k=1": "z"}, [("lake/k=1", "z")],
    ),
    "one that holds another": (
        [(f"lake/{OWN}", "a"), (f"lake/k=1/{OWN}", "b")], {"lake": "xy", "lake/k=1": "z"}, [("lake", "xy")],
    ),
    "a first job was withdrawn in a partition": (
        [(f"lake/k=1/{OWN}", "a")], {"lake": "xy", "lake/k=1": ""}, [("lake", "xy")],
    ),
    "a directory with a longer name": ([(f"lakes/{OWN}", "a")], {"lake": "xy"}, [(f"lakes/{OWN}", "a")]),
    "newer files outside": ([("other/new.arrow", "b"), (f"lake/{OWN}", "a")], {"lake": "xy"}, [("other/new.arrow", "b")]),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_whose_columns_a_read_has(tmp_path, case):
    named, tables, expected = READ[case]
    files = []
    for age, (name, columns) in enumerate(named):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        path = write(tmp_path / name, pa.table({column: [1] for column in columns}))
        files.append(DataFile(path, Path(path).stat().st_size, 100 - age))
    known = cache()
    found = read_schemas(files, states_of(tmp_path, tables, [name for name, _ in named]), known)
    assert [(f"{tmp_path}/{name}", tuple(columns)) for name, columns in expected] == [(p, s.names) for p, s in found]
    assert len(known.by_path) <= 1, "at most one file is opened"


def test_a_file_of_another_program_that_cannot_be_read_is_left_to_its_task(tmp_path):
    (tmp_path / "torn.arrow").write_bytes(b"ARROW1")
    files = [DataFile(str(tmp_path / "torn.arrow"), 6, 2), DataFile(str(tmp_path / OWN), 1, 1)]
    ((path, schema),) = read_schemas(
        files, states_of(tmp_path.parent, {tmp_path.name: "xy"}, [f"{tmp_path.name}/{OWN}"]), cache()
    )
    assert (str(tmp_path), ("x", "y")) == (path, schema.names)
