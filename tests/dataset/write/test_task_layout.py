"""Files end where they would become too long, and where a column changes its type."""

from pathlib import Path

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.write.staged_file import SinkOptions, Staging
from spark_arrow_ipc.dataset.write.task import write_empty, write_task
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.names import TableDirectory

SCHEMA = Schema.of([field("a", types.int64), field("b", types.utf8)])


def batch(first, rows):
    values = range(first, first + rows)
    return RecordBatch.from_pydict({"a": list(values), "b": [f"text {i}" for i in values]}, SCHEMA)


@pytest.fixture
def staging(tmp_path):
    made = Staging(TableDirectory(LOCAL, str(tmp_path)), "job1")
    Path(made.path).mkdir(parents=True)
    return made


def blocks_of(staging, output):
    """Return the rows of every record batch, file by file."""
    found = []
    for file in output.files:
        with ipc.open(staging.file(file.staged)) as reader:
            found.append([len(one) for one in reader])
    return found


def values_of(staging, output, name="a"):
    found = []
    for file in output.files:
        with ipc.open(staging.file(file.staged)) as reader:
            found += [value for one in reader for value in one.column(name).to_pylist()]
    return found


ROWS = [
    ("no bound", {}, [[100, 100, 50]]),
    ("as many as a batch", {"max_file_rows": 100}, [[100], [100], [50]]),
    ("more than a batch", {"max_file_rows": 120}, [[100, 20], [100, 20], [10]]),
    ("fewer than a batch", {"max_file_rows": 80}, [[80], [80], [80], [10]]),
    ("all", {"max_file_rows": 250}, [[100, 100, 50]]),
    ("one batch a file, however long", {"max_file_nbytes": 1}, [[100], [100], [50]]),
    ("both", {"max_file_nbytes": 1, "max_file_rows": 120}, [[100], [20], [100], [20], [10]]),
]


@pytest.mark.parametrize("portion", [7, 100, 250])
@pytest.mark.parametrize(("options", "expected"), [case[1:] for case in ROWS], ids=[case[0] for case in ROWS])
def test_files_end_where_they_are_full(staging, options, expected, portion):
    batches = [batch(i, min(portion, 250 - i)) for i in range(0, 250, portion)]
    how = SinkOptions(record_batch_rows=100, **options)
    output = write_task(staging, batches, SCHEMA, partition_id=0, options=how)
    assert expected == blocks_of(staging, output)
    assert list(range(250)) == values_of(staging, output)
    assert [sum(rows) for rows in expected] == [file.rows for file in output.files]


def test_record_batches_end_at_their_bytes(staging):
    output = write_task(staging, [batch(0, 250)], SCHEMA, partition_id=0, options=SinkOptions(record_batch_nbytes=1024))
    (lengths,) = blocks_of(staging, output)
    assert max(lengths) <= 1024 // 16 < sum(lengths)
    assert list(range(250)) == values_of(staging, output)


@pytest.mark.slow
@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("limit", [6_000, 20_000])
def test_no_file_of_several_batches_is_longer_than_it_may(staging, limit, kind, compression):
    how = SinkOptions(ipc.WriteOptions(format=kind, compression=compression), 100, max_file_nbytes=limit)
    output = write_task(staging, [batch(0, 5_000)], SCHEMA, partition_id=0, options=how)
    sizes = [file.nbytes for file in output.files]
    assert max(sizes) <= limit
    assert min(sizes[:-1]) > limit - 5_000
    assert list(range(5_000)) == values_of(staging, output)


@pytest.mark.slow
def test_dictionaries_count_for_the_length_of_a_file(staging):
    schema = Schema.of([field("d", types.dictionary(types.int32, types.utf8))])
    words = [f"a word of some length {i}" for i in range(2_000)]
    rows = RecordBatch(schema, (from_pylist.array(words, schema.fields[0].type),), 2_000)
    how = SinkOptions(record_batch_rows=100, max_file_nbytes=20_000)
    parts = [rows.slice(i, 100) for i in range(0, 2_000, 100)]
    own = [RecordBatch.from_pydict({"d": part.column("d").to_pylist()}, schema) for part in parts]
    output = write_task(staging, own, schema, partition_id=0, options=how)
    assert 1 < len(output.files)
    assert 20_000 >= max(file.nbytes for file in output.files)
    assert words == values_of(staging, output, "d")


def test_a_file_ends_where_a_type_changes(staging):
    plain = Schema.of([field("a", types.utf8)])
    encoded = Schema.of([field("a", types.dictionary(types.int32, types.utf8))])
    batches = [
        RecordBatch.from_pydict({"a": [f"{i}"] * 10}, schema)
        for i, schema in enumerate([encoded, encoded, plain, plain, encoded])
    ]
    output = write_task(staging, batches, plain, partition_id=0)
    found = []
    for file in output.files:
        with ipc.open(staging.file(file.staged)) as reader:
            found.append((reader.schema.fields[0].type, sum(map(len, reader))))
    types_ = [s.fields[0].type for s in (encoded, plain, encoded)]
    assert list(zip(types_, [20, 20, 10], strict=True)) == found
    assert [str(i) for i in range(5) for _ in range(10)] == values_of(staging, output)


@pytest.mark.parametrize("make", ["write_task", "write_empty"])
def test_pairs_stand_in_the_schema_and_in_the_footer(staging, make):
    pairs = (("k", "v"), ("x.y", "ü"))
    schema = Schema(SCHEMA.fields, pairs)
    how = SinkOptions(custom_metadata=pairs)
    if make == "write_task":
        (file,) = write_task(staging, [batch(0, 3)], schema, partition_id=0, options=how).files
    else:
        file = write_empty(staging, schema, options=how)
    with ipc.open_file(staging.file(file.staged)) as reader:
        assert (pairs, pairs) == (reader.schema.custom_metadata, tuple(reader.custom_metadata))


def test_an_error_removes_the_files_that_were_finished_too(staging):
    def batches():
        yield batch(0, 100)
        yield batch(100, 100)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_task(staging, batches(), SCHEMA, partition_id=0, options=SinkOptions(max_file_rows=30))
    assert [] == list(Path(staging.path).iterdir())
