"""Aggregates from headers and statistics: Spark's own answers, of files whose bodies are overwritten."""

import random
import shutil
from dataclasses import replace
from datetime import datetime

import aggregate_cases
import arrow_files
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import where_cases
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql import types as s
from statistics_cases import write_described

from spark_arrow_ipc import aggregate, count, ipc
from spark_arrow_ipc.errors import InvalidArrowError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.functions.block_answers import BlockAnswers
from spark_arrow_ipc.spark.functions.map_in_arrow import FunctionMapping, MappedReader
from spark_arrow_ipc.spark.functions.partial_aggregates import Part, PartialAggregates
from spark_arrow_ipc.spark.functions.user_function import ship
from spark_arrow_ipc.spark.options.options import parse_read
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader

ROWS = 60


def described(path, table, rows=20):
    """Write a table as our writer does, with statistics of all columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    batches = [bridge.batch_from_pyarrow(batch) for batch in table.to_batches(max_chunksize=rows)]
    write_described(str(path), batches, batches[0].schema)
    return path


def torn(path):
    """Overwrite the bodies of a file: who reads one meets a wrong checksum, or a broken value."""
    with ipc.open(str(path)) as reader:
        places = [
            (b.byte_offset + b.metadata_nbytes, b.body_nbytes) for b in (*reader.blocks, *reader.dictionary_blocks)
        ]
    data = bytearray(path.read_bytes())
    for start, nbytes in places:
        data[start : start + nbytes] = b"\xee" * nbytes
    path.write_bytes(data)


def is_short(array):
    """Whether the statistics of a column have its values and not cut ones."""
    values = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if not (
        pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type)
    ):
        return True
    return pc.max(pc.binary_length(values.cast(pa.large_string()))).as_py() <= 64


def typed_columns():
    """Each type of a file that can become each type of Spark, as the generators of `where` make them."""
    r = random.Random(3)
    for kind, makers in where_cases.COLUMNS.items():
        for i, make in enumerate(makers):
            array = make(r, ROWS)
            while not is_short(array):
                array = make(r, ROWS)
            metadata = {"ARROW:extension:name": "arrow.uuid"} if make is where_cases.uuids else None
            yield pa.field(f"{kind} {i}", array.type, metadata=metadata), array


@pytest.fixture(scope="module")
def every_type(tmp_path_factory):
    """Return a dataset of all types and the same with torn bodies."""
    root = tmp_path_factory.mktemp("answers")
    fields, arrays = zip(*typed_columns(), strict=True)
    fields += (pa.field("nulls", pa.int32()), pa.field("list", pa.list_(pa.int32())))
    arrays += (
        pa.nulls(ROWS, pa.int32()),
        pa.array([[i] if i % 3 else None for i in range(ROWS)]).cast(pa.list_(pa.int32())),
    )
    whole = pa.Table.from_batches([pa.record_batch(list(arrays), schema=pa.schema(fields))])
    for part, rows in (("p=1", slice(0, 25)), ("p=2", slice(25, ROWS))):
        described(root / "whole" / part / "a.arrow", whole.slice(rows.start, rows.stop - rows.start), rows=10)
    shutil.copytree(root / "whole", root / "torn")
    for path in (root / "torn").rglob("*.arrow"):
        torn(path)
    return root / "whole", root / "torn"


def sparks(spark, path, keys, texts, where):
    frame = spark.read.format("arrowipc").load(str(path))
    frame = frame if where is None else frame.where(where)
    return frame.groupBy(*keys).agg(*(f.expr(text).alias(f"a{i}") for i, text in enumerate(texts)))


def is_ordered(name):
    return not name.startswith(("float", "double", "list"))


@pytest.mark.one_in(5, "exhaustive")
@pytest.mark.parametrize(
    ("keys", "where", "zone"),
    [
        ((), None, "America/New_York"),
        (("p",), "`nulls` IS NULL AND p < 9", "UTC"),
        ((), "p > 9", "UTC"),
    ],
)
def test_the_answer_is_sparks_and_no_body_is_read(spark, every_type, keys, where, zone):
    whole, ruined = every_type
    names = [name for name in spark.read.format("arrowipc").load(str(whole)).columns if name != "p"]
    texts = [f"count(`{name}`)" for name in names]
    texts += [f"{function}(`{name}`)" for name in names if is_ordered(name) for function in ("min", "max")]
    texts += ["count(*)", "max(p)", "count(p)"]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        options = {} if where is None else {"where": where}
        named = {f"a{i}": text for i, text in enumerate(texts)}
        ours = aggregate(spark, ruined, group_by=keys, aggregates=named, **options)
        theirs = sparks(spark, whole, keys, texts, where)
        assert theirs.schema == ours.schema
        assert aggregate_cases.rows(theirs) == aggregate_cases.rows(ours)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_a_sum_reads_the_bodies_that_are_torn(spark, every_type):
    with pytest.raises(PySparkException, match="checksum"):
        aggregate(spark, every_type[1], aggregates={"s": "sum(`int 0`)"}).collect()


# ---- which record batches are decoded, in this process


NUMBERS = pa.table({
    "id": pa.array(range(100)),
    "name": pa.array([f"{'x' * (70 if i < 50 else 3)}{i:03}" for i in range(100)]),
    "maybe": pa.array([None if i < 50 or i % 2 else i for i in range(100)], pa.int16()),
    "at": pa.array(np.arange(100) * 1000, pa.timestamp("ns")),
})  # fmt: skip

ASKED = s.StructType([
    s.StructField("id", s.LongType()), s.StructField("name", s.StringType()), s.StructField("maybe", s.ShortType()),
    s.StructField("at", s.TimestampNTZType()),
])  # fmt: skip


def type_of(part):
    if part.function.startswith("count"):
        return s.LongType()
    return s.DecimalType(38, 0) if part.function == "sum" else ASKED.fields[part.column].dataType


def run(path, parts, monkeypatch, **options):
    """Return the partial rows of all tasks, and the numbers of the record batches that were decoded."""
    decoded = []
    inner = ArrowIpcBatchReader(ASKED, parse_read({"path": str(path), **options}))
    output = s.StructType([s.StructField(f"a{i}", type_of(part)) for i, part in enumerate(parts)])
    monkeypatch.setattr(inner, "_rows", lambda file, *asked: _noted(file, decoded, inner, *asked))
    reader = MappedReader(inner, FunctionMapping(ship(PartialAggregates((), tuple(parts))), output, "UTC", ASKED))
    made = [row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()]
    return made, sorted(decoded)


def _noted(file, decoded, inner, *asked):
    def noted():
        for batch in file.batches:
            decoded.extend(range(batch.first_block, batch.first_block + len(batch.block_rows)))
            yield batch

    yield from ArrowIpcBatchReader._rows(inner, replace(file, batches=noted()), *asked)


COUNT, LEAST, MOST = Part("count_all", None), Part("min", 0), Part("max", 0)
ALL = list(range(10))
DECODED = [
    ("counts and extremes", [COUNT, LEAST, MOST, Part("count", 2)], {}, [], [100, 0, 99, 25]),
    ("strings that were cut", [COUNT, Part("max", 1)], {}, ALL[:5], [100, "x" * 70 + "049"]),
    ("a sum", [COUNT, Part("sum", 0)], {}, ALL, [100, 4950]),
    ("where decides for some", [COUNT, LEAST], {"where": "id >= 25"}, [2], [75, 25]),
    ("where decides for all", [COUNT, MOST], {"where": "id < 50"}, [], [50, 49]),
    ("where of nulls", [COUNT], {"where": "maybe IS NULL"}, ALL[5:], [75]),
    ("nanoseconds that must be whole microseconds", [COUNT, Part("max", 3)], {"nanoseconds": "error"}, ALL, [100, datetime(1970, 1, 1, 0, 0, 0, 99)]),
    ("rows alone", [COUNT], {}, [], [100]),
    ("nanoseconds that are only counted", [Part("count", 3)], {}, [], [100]),
    ("and that must be whole microseconds", [Part("count", 3)], {"nanoseconds": "error"}, ALL, [100]),
    ("files with errors are skipped", [COUNT, LEAST], {"ignoreCorruptFiles": "true"}, ALL, [100, 0]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "options", "decoded", "wanted"), [c[1:] for c in DECODED], ids=[c[0] for c in DECODED]
)
def test_only_record_batches_that_are_not_known_are_decoded(tmp_path, monkeypatch, parts, options, decoded, wanted):
    path = described(tmp_path / "a.arrow", NUMBERS, rows=10)
    made, found = run(path, parts, monkeypatch, **options)
    assert decoded == found
    assert wanted == list(made[0].values())


def test_extremes_of_statistics_need_no_header(tmp_path, monkeypatch):
    path = described(tmp_path / "a.arrow", NUMBERS, rows=10)
    counted = []
    monkeypatch.setattr(ipc.FileReader, "row_counts", lambda _, numbers: counted.append(numbers) or [10] * len(numbers))
    assert ([{"a0": 0, "a1": 99}], []) == run(path, [LEAST, MOST], monkeypatch)
    assert [] == counted
    run(path, [LEAST, COUNT], monkeypatch)
    assert [ALL] == [list(numbers) for numbers in counted]


def test_a_partition_without_rows_is_no_group(spark, tmp_path):
    """A file may have record batches, and no rows."""
    described(tmp_path / "p=1" / "a.arrow", NUMBERS)
    empty = bridge.batch_from_pyarrow(NUMBERS.to_batches()[0][:0])
    for path in (tmp_path / "p=1" / "b.arrow", tmp_path / "p=2" / "a.arrow"):
        path.parent.mkdir(exist_ok=True)
        write_described(str(path), [empty, empty], empty.schema)
    texts = ["count(*)", "count(id)", "min(id)", "max(name)", "count(p)"]
    extremes = ["max(p)", "min(id)", "max(id)"]
    asked = [(texts, ["p"]), (texts[:2], ["p"]), (texts[2:3], ["p"]), (texts[:1], []), (["max(p)"], []), (extremes, [])]
    for some, keys in asked:
        for where in (None, "p = 2"):
            named = {f"a{i}": text for i, text in enumerate(some)}
            ours = aggregate(spark, tmp_path, group_by=keys, aggregates=named, **({"where": where} if where else {}))
            assert sparks(spark, tmp_path, keys, some, where).collect() == ours.collect()


def test_headers_know_the_nulls_of_foreign_files(tmp_path, monkeypatch):
    path = tmp_path / "a.arrow"
    arrow_files.write(path, NUMBERS, rows=10)
    assert ([{"a0": 100, "a1": 25}], []) == run(path, [COUNT, Part("count", 2)], monkeypatch)
    assert ([{"a0": 100, "a1": 0}], ALL) == run(path, [COUNT, LEAST], monkeypatch)


def test_a_dictionary_may_hide_nulls_from_headers(tmp_path, monkeypatch):
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, None]), pa.array(["a", None]))
    path = tmp_path / "a.arrow"
    arrow_files.write(path, pa.table({**{n: NUMBERS[n][:4] for n in ("id", "maybe", "at")}, "name": hidden}))
    assert ([{"a0": 1}], [0]) == run(path, [Part("count", 1)], monkeypatch)


def test_the_parts_of_a_large_record_batch_are_answered_once(tmp_path, monkeypatch):
    path = described(tmp_path / "a.arrow", pa.concat_tables([NUMBERS] * 200).combine_chunks(), rows=20_000)
    small = {"maxPartitionBytes": "100000"}
    reader = ArrowIpcBatchReader(ASKED, parse_read({"path": str(path), **small}))
    assert 2 < len([part for partition in reader.partitions() for part in partition.ranges if part.rows])
    made, decoded = run(path, [COUNT, MOST], monkeypatch, **small)
    assert ([{"a0": 20_000, "a1": 99}], []) == (made, decoded)


def test_statistics_of_another_file_are_not_believed(tmp_path, monkeypatch):
    """Another writer copies the footer's metadata to other rows."""
    path = described(tmp_path / "a.arrow", NUMBERS, rows=10)
    with ipc.open(str(path)) as reader:
        pairs = dict(reader.custom_metadata)
    other = NUMBERS.set_column(0, "id", pc.add(NUMBERS["id"], 5))
    with pa.ipc.new_file(str(path), other.schema, metadata=pairs) as writer:
        writer.write_table(other, max_chunksize=10)
    with pytest.warns(UserWarning, match="statistics of a file are not used"):
        made, decoded = run(path, [COUNT, LEAST], monkeypatch)
    assert ([{"a0": 100, "a1": 5}], ALL) == (made, decoded)


@pytest.mark.slow
def test_answers_are_merged_as_they_come(tmp_path):
    """However many files a task has, it keeps one answer for each schema and partition."""
    partials = PartialAggregates((), (COUNT, LEAST))
    options = parse_read({"path": str(tmp_path)})
    answers = BlockAnswers(partials, s.StructType(ASKED.fields[:1]), options, "UTC")
    for i in range(20):
        described(tmp_path / f"{i}.arrow", NUMBERS.slice(i), rows=50)
    inner = ArrowIpcBatchReader(s.StructType(ASKED.fields[:1]), options)
    assert [] == [row for p in inner.partitions() for row in inner.read(p, answers=answers)]
    (row,) = answers.take()
    assert {"a0": [sum(range(81, 101))], "a1": [0]} == row.table.to_pydict()
    assert [] == list(answers.take())


def test_a_header_that_was_changed_is_an_error(tmp_path, monkeypatch):
    """The number of rows in a header, as it is to be counted, has a checksum."""
    path = described(tmp_path / "a.arrow", NUMBERS, rows=10)
    with ipc.open(str(path)) as reader:
        block = reader.blocks[3]
    data = bytearray(path.read_bytes())
    header = data[block.byte_offset : block.byte_offset + block.metadata_nbytes]
    assert 1 < header.count((10).to_bytes(8, "little"))
    data[block.byte_offset : block.byte_offset + block.metadata_nbytes] = header.replace(
        (10).to_bytes(8, "little"), (9).to_bytes(8, "little")
    )
    path.write_bytes(data)
    with pytest.raises(InvalidArrowError, match="checksum"):
        run(path, [COUNT], monkeypatch)


def test_count_where_statistics_decide_reads_no_body(spark, every_type):
    whole, ruined = every_type
    for where in ("p = 1", "`nulls` IS NULL"):
        assert spark.read.format("arrowipc").load(str(whole)).where(where).count() == count(spark, ruined, where=where)


def test_a_function_that_headers_do_not_know_is_left_to_the_rows():
    """Counts and extremes are answered; all others are not, those that are added one day as well."""
    schema = s.StructType([s.StructField("n", s.LongType())])
    asked = {name: BlockAnswers(PartialAggregates((), (Part(name, 0),)), schema, parse_read({"path": "/a"}), "UTC")
             for name in ("count", "min", "max", "sum", "product")}  # fmt: skip
    assert ["count", "min", "max"] == [name for name, answers in asked.items() if answers.need_statistics]
