"""Names that differ in case, and schemas that may be written beside files."""

import os

import pyarrow as pa
import pyarrow.dataset
import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.dataset.write.existing_files import existing_file, existing_schema
from spark_arrow_ipc.errors import ConcurrentWriteError, OptionError, SchemaMismatchError
from spark_arrow_ipc.spark.convert.conversion import pyarrow_schema
from spark_arrow_ipc.spark.options.options import parse_read, parse_write
from spark_arrow_ipc.spark.options.values import SchemaCheck
from spark_arrow_ipc.spark.read.dataset_schema import read_spark_schema
from spark_arrow_ipc.spark.write.schema_check import check_names, check_schema
from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import TableDirectory

NONE, MERGE, EXACT = (), (SchemaCheck.MERGE, SchemaCheck.EXACT), (SchemaCheck.EXACT,)


def struct(ddl):
    """Parse names and types: Spark's own parser needs a session."""
    return s.StructType([s.StructField(*_field(part.split(" ", 1))) for part in _parts(ddl, ", ")])


def _field(pair):
    return pair[0], _type(pair[1])


def _parts(ddl, comma=","):
    """Split at the commas that are not between angle brackets or parentheses."""
    depth, parts = 0, [""]
    for piece in ddl.split(comma):
        parts[-1] += comma + piece if depth else piece
        depth += piece.count("<") + piece.count("(") - piece.count(">") - piece.count(")")
        if not depth:
            parts.append("")
    return parts[:-1]


def _type(ddl):
    name, _, rest = ddl.partition("<")
    inner = _parts(rest.removesuffix(">"))
    if name == "struct":
        return s.StructType([s.StructField(*_field(part.split(":", 1))) for part in inner])
    if name in NESTED:
        return NESTED[name](*map(_type, inner))
    if name.startswith("decimal"):
        return s.DecimalType(*map(int, name[8:-1].split(",")))
    return LEAVES[name]


NESTED = {"array": s.ArrayType, "map": s.MapType}
LEAVES = {type_.simpleString(): type_ for type_ in (s.IntegerType(), s.LongType(), s.StringType(), s.DateType(), s.NullType())}  # fmt: skip


# (What is there, what a job writes, the checks that refuse it, words of the error. Where the job has less: what it becomes.)
SCHEMAS = {
    "the same": ("a int, b string", "a int, b string", NONE, ""),
    "another order and case": ("a int, b string", "B string, A int", NONE, ""),
    "an added column": ("a int", "a int, b string", EXACT, "b is new in the DataFrame"),
    "a wider type": ("a int", "a bigint", EXACT, "a is int and not bigint"),
    "a wider decimal": ("a decimal(5,2)", "a decimal(10,2)", EXACT, r"a is decimal\(5,2\) and not decimal\(10,2\)"),
    "an added field": ("s struct<x:int>", "s struct<x:int,y:int>", EXACT, "s is struct<x:int> and not"),
    "nulls, now typed": ("a void", "a string", EXACT, "a is void and not string"),
    "a missing column": ("a int, b string", "a int", EXACT, "b is missing in the DataFrame", "a int, b string"),
    "a narrower type": ("a bigint", "a int", EXACT, "a is int and not bigint", "a bigint"),
    "a missing field": ("s struct<x:int,y:int>", "s struct<x:int>", EXACT, "s is struct<x:int> and not struct<", "s struct<x:int,y:int>"),
    "typed, now nulls": ("a string", "a void", EXACT, "a is void and not string", "a string"),
    "neither is wider": ("a decimal(10,0)", "a decimal(10,5)", EXACT, "a is decimal.10,5. and not decimal.15,5.", "a decimal(15,5)"),
    "one wider, one narrower": ("a int, b bigint", "b int, a bigint", EXACT, "b is int and not bigint", "b bigint, a bigint"),
    "missing and new": ("a int, b int", "a int, c int", MERGE, r'b is missing in the DataFrame, which has c instead. This looks like a rename, `b` to `c`: to add rows under the old name call withColumnRenamed\("c", "b"\); for the new name in all files'),
    "missing and new of another type": ("a int, b int", "a int, c string", MERGE, "b is missing in the DataFrame, which has c instead. Reads take the schema"),
    "several missing and new": ("a int, b int, d int", "a int, c int", MERGE, "b, d are missing in the DataFrame, which has c instead. Reads take the schema"),
    "missing and new fields": ("s struct<x:int>", "s struct<y:int>", MERGE, "s.x is missing in the DataFrame, which has s.y instead. This looks like a rename, `s.x` to `s.y`: to add rows under the old name rename the field of the struct"),
    "missing and new in an array": ("a array<struct<x:int>>", "a array<struct<y:int>>", MERGE, "a.element.x is missing"),
    "missing and new in a map": ("a map<string,struct<x:int>>", "a map<string,struct<y:int>>", MERGE, "a.value.x is missing"),
    "a missing column, a new field": ("a int, s struct<x:int>", "s struct<x:int,y:int>", EXACT, "a is missing", "s struct<x:int,y:int>, a int"),
    "another type": ("a int", "a string", MERGE, "a: string in the DataFrame and int in there"),
    "another type in an array": ("a array<int>", "a array<date>", MERGE, "a.element: date in"),
}  # fmt: skip


@pytest.mark.parametrize("check", SchemaCheck, ids=str)
@pytest.mark.parametrize("case", SCHEMAS)
def test_what_may_be_written_beside_a_file(case, check):
    there, own, refusing, words, *grown = SCHEMAS[case]
    if check not in refusing:
        found = check_schema(struct(own), struct(there), "there", check)
        assert [struct(ddl).simpleString() for ddl in grown if check is SchemaCheck.MERGE] == (
            [] if found is None else [found.simpleString()]
        )
        return
    with pytest.raises(SchemaMismatchError, match=f"^there: the columns of this job do not fit.*: {words}.*Nothing is"):
        check_schema(struct(own), struct(there), "there", check)


def write(path, ddl, *columns, overwrite=False, **options):
    """Write one row as Spark does; a column for each value."""
    schema = struct(ddl)
    writer = ArrowIpcBatchWriter.plan(schema, str(path), parse_write(options), overwrite=overwrite)
    types = pyarrow_schema(schema)
    batch = pa.record_batch(
        [pa.array([value], type_) for value, type_ in zip(columns, types.types, strict=True)], types
    )
    writer.commit([writer.write(iter([batch]))])


def read_schema(path, **options):
    return read_spark_schema(parse_read({"path": str(path), **options})).simpleString()


def names_in_files(path):
    return {tuple(pa.ipc.open_file(str(file)).schema.names) for file in path.rglob("*.arrow")}


@pytest.mark.parametrize(("options", "names"), [
    ({}, {("id", "Name", "v"), ("Name", "id", "v")}),
    ({"schemaCheck": "exact"}, {("id", "Name", "v"), ("Name", "id", "v")}),
    ({"schemaCheck": "none"}, {("id", "Name", "v"), ("NAME", "ID", "v")}),
    ({"caseSensitive": "true", "schemaCheck": "none"}, {("id", "Name", "v"), ("NAME", "ID", "v")}),
])  # fmt: skip
def test_a_column_has_the_spelling_of_the_table(tmp_path, options, names):
    """Other tools match names exactly."""
    write(tmp_path / "t", "id bigint, Name string, v int", 1, "a", 2)
    write(tmp_path / "t", "NAME string, ID bigint, v int", "b", 3, 4, **options)
    assert names == names_in_files(tmp_path / "t")
    if "schemaCheck" not in options:
        write(tmp_path / "t", "ID int, new int, V bigint, NAME string", 1, 2, 3, "c")
        assert ("id", "new", "v", "Name") in names_in_files(tmp_path / "t")
        names = pyarrow.dataset.dataset(tmp_path / "t", format="ipc", exclude_invalid_files=True).to_table(["Name"])
        assert ["a", "b", "c"] == sorted(names["Name"].to_pylist())


def test_a_column_of_two_spellings_keeps_its_own(tmp_path):
    write(tmp_path / "t", "a int, A int", 1, 2, caseSensitive="true")
    write(tmp_path / "t", "a int", 3)
    assert {("a", "A"), ("a",)} == names_in_files(tmp_path / "t")
    names = pyarrow.dataset.dataset(tmp_path / "t", format="ipc", exclude_invalid_files=True).to_table(["a"])
    assert [1, 3] == sorted(names["a"].to_pylist())


def test_a_column_of_another_case_is_written_as_it_is(tmp_path):
    """An extension on its storage type is no Spark type that a conversion would find."""
    for name in ("flag", "FLAG"):
        schema = s.StructType([s.StructField(name, s.ByteType(), metadata={"ARROW:extension:name": "arrow.bool8"})])
        writer = ArrowIpcBatchWriter.plan(schema, str(tmp_path / "t"), parse_write({}), overwrite=False)
        writer.commit([writer.write(iter([pa.record_batch({name: pa.array([1, None], pa.int8())})]))])
    assert {("flag",)} == names_in_files(tmp_path / "t")


def age(path, seconds):
    """Make the files of a directory older."""
    for file in path.rglob("*.arrow"):
        status = file.stat()
        os.utime(file, (status.st_atime - seconds, status.st_mtime - seconds))


@pytest.mark.slow
def test_the_schema_that_is_read_is_the_newest_and_never_chance(tmp_path):
    """Names of files are random, and the first one gave the schema."""
    for i in range(8):
        path = tmp_path / str(i)
        write(path, "a bigint", 1)
        age(path, 10)
        write(path, "a bigint, b bigint", 1, 2)
        assert "struct<a:bigint,b:bigint>" == read_schema(path)
        age(path, 10)
        write(path, "a bigint", 1)
        assert "struct<a:bigint,b:bigint>" == read_schema(path)
        age(path, 10)
        write(path, "a bigint", 1, schemaCheck="none")
        assert "struct<a:bigint>" == read_schema(path)
        assert "struct<a:bigint,b:bigint>" == read_schema(path, mergeSchema="true")


def test_a_refused_job_leaves_no_trace_and_an_overwrite_may_change_everything(tmp_path):
    write(tmp_path, "a bigint", 1)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SchemaMismatchError, match="a: string in the DataFrame and bigint in "):
        write(tmp_path, "a string", "x")
    assert before == sorted(tmp_path.rglob("*"))
    write(tmp_path, "a string", "x", overwrite=True)
    assert "struct<a:string>" == read_schema(tmp_path)


@pytest.mark.parametrize("partition_by", [{}, {"partitionBy": "k"}], ids=["flat", "partitioned"])
@pytest.mark.parametrize("overwrite", [False, True], ids=["append", "dynamic overwrite"])
def test_a_job_that_keeps_files_writes_their_columns_as_nulls(tmp_path, partition_by, overwrite):
    """The newest file has the columns of all, for readers of other engines too."""
    if overwrite and not partition_by:
        return
    write(
        tmp_path,
        "k bigint, a bigint, s struct<x:int,y:string>, extra string",
        1,
        1,
        {"x": 1, "y": "y"},
        "e",
        **partition_by,
    )
    dynamic = {"partitionOverwriteMode": "dynamic"} if overwrite else {}
    write(tmp_path, "s struct<x:int>, k bigint, a int", {"x": 2}, 2, 2, overwrite=overwrite, **partition_by, **dynamic)
    rows = sorted(
        tuple(row[name] for name in ("a", "s", "extra"))
        for file in tmp_path.rglob("*.arrow")
        for row in pa.ipc.open_file(file).read_all().to_pylist()
    )
    assert [(1, {"x": 1, "y": "y"}, "e"), (2, {"x": 2, "y": None}, None)] == rows
    assert 1 == len({pa.ipc.open_file(file).schema.field("a").type for file in tmp_path.rglob("*.arrow")})


REFUSED = {
    "a column that is never null": (pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.int64(), nullable=False)]), {}, "b is missing"),
    "a partition column in the files": (pa.schema([pa.field("a", pa.int64()), pa.field("k", pa.int64())]), {"partitionBy": "k"}, "k is missing"),
    "types that are to be restored": (pa.schema([pa.field("a", pa.int64()), pa.field("k", pa.int64())]), {"restoreTypes": "true"}, "a is int and not bigint.*restoreTypes"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_nulls_and_wider_types_that_a_job_does_not_get(tmp_path, case):
    schema, options, words = REFUSED[case]
    directory = tmp_path / "k=1" if "partitionBy" in options else tmp_path
    directory.mkdir(exist_ok=True)
    with pa.ipc.new_file(directory / "theirs.arrow", schema):
        pass
    with pytest.raises(SchemaMismatchError, match=words):
        write(tmp_path, "a int, k bigint", 1, 1, **options)


def test_partition_columns_are_not_compared(tmp_path):
    write(tmp_path, "a bigint, k bigint", 1, 1, partitionBy="k")
    write(tmp_path, "a bigint, k string", 1, "x", partitionBy="k")
    with pytest.raises(SchemaMismatchError, match="a: string"):
        write(tmp_path, "a string, k bigint", "x", 1, partitionBy="k", overwrite=True, partitionOverwriteMode="dynamic")


def test_dictionaries_and_restored_types_are_compared_as_they_are_read(tmp_path):
    write(tmp_path, "a string", "x", dictionaryColumns="a")
    write(tmp_path, "a string", "x", schemaCheck="exact")


def test_a_file_of_another_program_does_not_make_the_columns_in_the_log_be_forgotten(tmp_path, caplog):
    write(tmp_path, "a bigint", 1)
    (tmp_path / "b.arrow").write_bytes(b"no Arrow file")
    directory = TableDirectory(LOCAL, str(tmp_path))
    state = read_state(directory)
    existing = existing_file(directory, state)
    assert existing.path.startswith("part-")
    assert [field.name for field in existing_schema(existing, directory, state).schema.fields] == ["a"]
    assert not caplog.text


def test_a_newest_file_that_cannot_be_read_is_not_compared(tmp_path, caplog):
    tmp_path.joinpath("torn.arrow").write_bytes(b"ARROW1\0\0")
    write(tmp_path, "a bigint", 1)
    assert "torn.arrow" in caplog.text
    assert "is not compared" in caplog.text


# (Columns, words of the error without caseSensitive.)
NAMES = {
    "different": ("a int, b int", None),
    "two cases": ("a int, A int", "differ only in case, 'a' and 'A'.*set the option caseSensitive=true"),
    "in a struct": ("s struct<x:int,X:int>", "field s: the struct has fields whose names differ only"),
    "in an array of maps": ("s array<map<string,struct<x:int,X:int>>>", "field s: the struct has"),
    "not at one level": ("x int, s struct<X:int>", None),
}


@pytest.mark.parametrize("case", NAMES)
def test_names_that_differ_only_in_case_are_refused(case):
    ddl, words = NAMES[case]
    check_names(struct(ddl), case_sensitive=True)
    if words is None:
        check_names(struct(ddl), case_sensitive=False)
        return
    with pytest.raises(OptionError, match=words):
        check_names(struct(ddl), case_sensitive=False)


@pytest.mark.parametrize("case_sensitive", [True, False])
def test_equal_names_are_always_refused(case_sensitive):
    twice = s.StructType(struct("a int").fields * 2)
    with pytest.raises(OptionError, match=r"columns of one name, 'a' twice.*rename one"):
        check_names(twice, case_sensitive=case_sensitive)


def test_the_option_case_sensitive_writes_both(tmp_path):
    with pytest.raises(OptionError, match="differ only in case"):
        write(tmp_path / "d", "a bigint, A bigint", 1, 2)
    assert not (tmp_path / "d").exists()
    write(tmp_path / "d", "a bigint, A bigint", 1, 2, caseSensitive="true")
    write(tmp_path / "d", "a bigint, A bigint", 1, 2, caseSensitive="true")
    assert "struct<a:bigint,A:bigint>" == read_schema(tmp_path / "d")


@pytest.mark.parametrize(("ddl", "check", "stays"), [("a bigint", "merge", True), ("a bigint, b bigint", "merge", False), ("a bigint, b bigint", "none", True)])  # fmt: skip
def test_what_is_appended_during_an_overwrite_stays_if_it_has_its_schema(tmp_path, ddl, check, stays):
    write(tmp_path, "a bigint", 0)
    options = parse_write({"schemaCheck": check})
    overwrite = ArrowIpcBatchWriter.plan(struct("a bigint"), str(tmp_path), options, overwrite=True)
    message = overwrite.write(iter([pa.record_batch([pa.array([1])], ["a"])]))
    write(tmp_path, ddl, *range(2, 2 + len(struct(ddl))), schemaCheck="none")
    if stays:
        overwrite.commit([message])
        assert 2 == len(list(tmp_path.glob("*.arrow")))
    else:
        with pytest.raises(ConcurrentWriteError, match="another writer changed the directory"):
            overwrite.commit([message])
