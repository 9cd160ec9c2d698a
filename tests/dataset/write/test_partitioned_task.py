"""Rows in any order become one file a partition, whatever fits into memory."""

import decimal
import random
import subprocess
import sys
import tracemalloc
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Array, RecordBatch, Schema, types
from spark_arrow_ipc.arrow.array_data import as_buffer
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.write import partitioned_task as module
from spark_arrow_ipc.dataset.write import staged_file
from spark_arrow_ipc.dataset.write.partitioned_task import PartitionBy, write_partitioned
from spark_arrow_ipc.dataset.write.staged_file import SinkOptions, Staging
from spark_arrow_ipc.errors import CommitError, LimitError, UnsupportedError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.names import TableDirectory

pytestmark = pytest.mark.usefixtures("publishing")

D = decimal.Decimal
US = types.TimeUnit.MICROSECOND
SCHEMA = Schema.of([field("a", types.int64), field("k", types.int32), field("b", types.utf8), field("s", types.utf8)])
BY = PartitionBy((1, 3))


def rows_of(count, partitions, seed=0):
    random.seed(seed)
    return [
        {"a": i, "k": random.choice([None, *range(partitions)]), "b": f"text {i}", "s": random.choice(["x", "y/z", None])}
        for i in range(count)
    ]  # fmt: skip


def batches_of(rows, portion=1000, schema=SCHEMA):
    return [RecordBatch.from_pylist(rows[i : i + portion], schema) for i in range(0, len(rows), portion)]


def expected_directory(row):
    null = "__HIVE_DEFAULT_PARTITION__"
    return f"k={null if row['k'] is None else row['k']}/s={null if row['s'] is None else row['s'].replace('/', '%2F')}"


@pytest.fixture
def staging(tmp_path):
    made = Staging(TableDirectory(LOCAL, str(tmp_path)), "job1")
    Path(made.path).mkdir(parents=True)
    return made


def left_in(staging):
    return sorted(path.name for path in Path(staging.path).iterdir())


def contents(staging, output):
    """Return the rows of each directory's files, in order."""
    found = defaultdict(list)
    for file in output.files:
        with ipc.open(staging.file(file.staged)) as reader:
            found[file.directory] += [row for batch in reader for row in batch.to_pylist()]
    return dict(found)


def expected(rows):
    found = defaultdict(list)
    for row in rows:
        found[expected_directory(row)].append({"a": row["a"], "b": row["b"]})
    return dict(found)


SIZES = {
    "all in memory": {},
    "few partitions, none spilled": {"_BUFFER_NBYTES": 20_000},
    "few partitions, a small buffer": {"_FEW_NBYTES": 20_000},
    "some open, others spilled": {"_BUFFER_NBYTES": 20_000, "_OPEN_FILES": 5, "_SPILL_BATCH_ROWS": 7},
    "all spilled": {"_BUFFER_NBYTES": 10_000, "_OPEN_FILES": 0, "_SPILL_BATCH_NBYTES": 100},
}


@pytest.mark.slow
@pytest.mark.one_in(6)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_every_partition_is_one_file_with_its_rows_in_order(staging, monkeypatch, sizes):
    for name, value in sizes.items():
        monkeypatch.setattr(module, name, value)
    rows = rows_of(4000, 10)
    output = write_partitioned(staging, batches_of(rows, 100), SCHEMA, BY, partition_id=7)
    assert expected(rows) == contents(staging, output)
    assert {1} == set(Counter(file.directory for file in output.files).values())
    assert {7} == {file.task for file in output.files}
    assert sorted(file.staged for file in output.files) == left_in(staging)


@pytest.mark.slow
def test_many_spills_are_merged_in_between(staging, monkeypatch):
    for name, value in {"_BUFFER_NBYTES": 5_000, "_OPEN_FILES": 3, "_SPILLS": 4}.items():
        monkeypatch.setattr(module, name, value)
    rows = rows_of(5000, 20)
    output = write_partitioned(staging, batches_of(rows, 50), SCHEMA, BY, partition_id=0)
    assert expected(rows) == contents(staging, output)


@pytest.mark.slow
def test_bounds_of_files_are_those_of_each_partition(staging, monkeypatch):
    monkeypatch.setattr(module, "_BUFFER_NBYTES", 20_000)
    monkeypatch.setattr(module, "_OPEN_FILES", 3)
    rows = rows_of(3000, 3)
    how = SinkOptions(record_batch_rows=30, max_file_rows=100)
    output = write_partitioned(staging, batches_of(rows, 77), SCHEMA, BY, partition_id=0, options=how)
    assert expected(rows) == contents(staging, output)
    counts = Counter(expected_directory(row) for row in rows)
    assert {d: -(-n // 100) for d, n in counts.items()} == Counter(f.directory for f in output.files)


@pytest.mark.slow
@pytest.mark.parametrize(("partitions", "blocks"), [(3, 6), (40, 1)], ids=["few", "many"])
def test_only_few_partitions_are_written_before_the_buffer_is_full(staging, monkeypatch, partitions, blocks):
    monkeypatch.setattr(module, "_FEW_NBYTES", 18_000)
    schema = Schema.of([field("k", types.int32), field("a", types.int64)])
    batches = batches_of([{"k": i % partitions, "a": i} for i in range(3_000)], 100, schema)
    output = write_partitioned(staging, batches, schema, PartitionBy((0,)), partition_id=0)
    assert [blocks] * partitions == [len(ipc.open_file(staging.file(file.staged))) for file in output.files]


@pytest.mark.slow
def test_a_task_of_few_partitions_holds_a_small_part_of_its_rows(staging):
    schema = Schema.of([field("k", types.int32), field("a", types.int64)])

    def batch(seed):
        values = np.random.default_rng(seed).integers(0, 20, 65_536)
        columns = [Array(f.type, len(values), 0, (None, as_buffer(values.astype(dtype)))) for f, dtype in
                   zip(schema.fields, (np.int32, np.int64), strict=True)]  # fmt: skip
        return RecordBatch(schema, tuple(columns), len(values))

    tracemalloc.start()
    try:
        write_partitioned(staging, map(batch, range(160)), schema, PartitionBy((0,)), partition_id=0)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 64 << 20 > held, "of 126 MB of rows"


def test_no_rows_are_no_files(staging):
    assert (
        () == write_partitioned(staging, [batches_of(rows_of(1, 1))[0].slice(0, 0)], SCHEMA, BY, partition_id=0).files
    )


@pytest.mark.slow
@pytest.mark.parametrize("spilled", [False, True])
def test_files_have_only_the_dictionary_values_that_they_name(staging, monkeypatch, spilled):
    if spilled:
        monkeypatch.setattr(module, "_BUFFER_NBYTES", 1_000)
        monkeypatch.setattr(module, "_OPEN_FILES", 0)
    schema = Schema.of([field("k", types.int32), field("d", types.dictionary(types.int32, types.utf8))])
    rows = [{"k": i % 4, "d": f"{i % 4}-{i % 8}" if i % 5 else None} for i in range(400)]
    output = write_partitioned(
        staging, [RecordBatch.from_pylist(rows, schema).slice(i, 50) for i in range(0, 400, 50)], schema,
        PartitionBy((0,)), partition_id=0,
    )  # fmt: skip
    for file in output.files:
        with ipc.open_file(staging.file(file.staged)) as reader:
            (batch,) = reader
            number = int(file.directory[2])
            assert [row["d"] for row in rows if row["k"] == number] == batch.column("d").to_pylist()
            assert {f"{number}-{number}", f"{number}-{number + 4}"} == set(batch.column("d").dictionary.to_pylist())


def test_other_types_begin_other_files(staging):
    plain = Schema.of([field("k", types.int32), field("a", types.utf8)])
    encoded = Schema.of([field("k", types.int32), field("a", types.dictionary(types.int32, types.utf8))])
    batches = [RecordBatch.from_pydict({"k": [1, 2], "a": [f"{i}", f"{i}"]}, s) for i, s in enumerate([encoded, plain])]
    output = write_partitioned(staging, batches, plain, PartitionBy((0,)), partition_id=0)
    assert ["k=1", "k=2", "k=1", "k=2"] == [file.directory for file in output.files]
    assert {"k=1": [{"a": "0"}, {"a": "1"}], "k=2": [{"a": "0"}, {"a": "1"}]} == contents(staging, output)


class Stop(BaseException):
    """As a killed task raises."""


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_an_error_leaves_nothing(staging, monkeypatch, sizes):
    for name, value in sizes.items():
        monkeypatch.setattr(module, name, value)

    def batches():
        yield from batches_of(rows_of(2000, 10), 100)
        raise Stop

    with pytest.raises(Stop):
        write_partitioned(staging, batches(), SCHEMA, BY, partition_id=0)
    assert [] == left_in(staging)


@pytest.mark.slow
def test_a_file_that_cannot_be_proven_takes_all_with_it(staging, monkeypatch):
    proven = []

    def refuse(path, *rest):
        proven.append(path)
        if len(proven) == 5:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(staged_file, "_verify", refuse)
    with pytest.raises(OSError, match="No space"):
        write_partitioned(staging, batches_of(rows_of(500, 20)), SCHEMA, BY, partition_id=0)
    assert [] == left_in(staging)


@pytest.mark.parametrize("sizes", [{}, {"_BUFFER_NBYTES": 1, "_OPEN_FILES": 0}], ids=["file", "spill"])
def test_a_task_of_an_ended_job_does_not_bring_its_directory_back(staging, monkeypatch, sizes):
    for name, value in sizes.items():
        monkeypatch.setattr(module, name, value)
    Path(staging.path).rmdir()
    with pytest.raises(CommitError, match="or the job ended"):
        write_partitioned(staging, batches_of(rows_of(50, 2)), SCHEMA, BY, partition_id=0)
    assert not Path(staging.path).exists()


BAD_VALUES = [
    ("too long", types.utf8, ["a" * 256], LimitError, "256 bytes cannot name"),
    ("too long when escaped", types.utf8, ["/" * 100], LimitError, "name of 302 bytes"),
    ("after the year 9999", types.date32, [4_000_000], UnsupportedError, "field k: .*outside the years 1 to 9999"),
]


@pytest.mark.parametrize("case", BAD_VALUES, ids=[case[0] for case in BAD_VALUES])
def test_a_value_that_cannot_name_a_directory_is_an_error(staging, case):
    _, type_, values, error, message = case
    schema = Schema.of([field("k", type_), field("a", types.int8)])
    batch = RecordBatch.from_pydict({"k": values, "a": [1] * len(values)}, schema)
    with pytest.raises(error, match=message):
        write_partitioned(staging, [batch], schema, PartitionBy((0,)), partition_id=0)


FEW_FILES = """
import resource, sys
from spark_arrow_ipc.arrow import Array, RecordBatch, Schema, types
from spark_arrow_ipc.arrow.array_data import as_buffer
from spark_arrow_ipc.dataset.write import partitioned_task as module
from spark_arrow_ipc.dataset.write.staged_file import Staging
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.names import TableDirectory
import numpy as np

resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
schema = Schema.of([types.field("k", types.int32), types.field("a", types.int64)])

def batch(seed):
    keys = np.random.default_rng(seed).integers(0, 300, 5000).astype(np.int32)
    columns = [Array(field.type, 5000, 0, (None, as_buffer(values))) for field, values in
               zip(schema.fields, (keys, np.arange(5000)), strict=True)]
    return RecordBatch(schema, tuple(columns), 5000)

module._BUFFER_NBYTES = 100_000
staging = Staging(TableDirectory(LOCAL, sys.argv[1]), "job1")
output = module.write_partitioned(staging, map(batch, range(40)), schema, module.PartitionBy((0,)), partition_id=0)
print(len({file.directory for file in output.files}), sum(file.rows for file in output.files))
"""


@pytest.mark.slow
def test_few_files_are_open_at_once(tmp_path):
    """80 descriptors in all, while at least three hundred files are written."""
    (tmp_path / "_ipc_stage" / "job1").mkdir(parents=True)
    ran = subprocess.run([sys.executable, "-c", FEW_FILES, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ("", "300 200000\n") == (ran.stderr, ran.stdout)
