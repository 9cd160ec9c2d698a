"""What is bad of a file by its footer and headers is what its tasks would raise, and nothing else."""

import pyarrow as pa
import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.bad_files import BadFiles
from spark_arrow_ipc.errors import ArrowIpcError, OptionError
from spark_arrow_ipc.spark.options.options import parse_stream
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader

file_check = pytest.importorskip("spark_arrow_ipc.spark.read.file_check", reason="streams need Spark 4.2 or later")

TABLE = pa.table({"n": pa.array(range(3000), pa.int64()), "t": [str(i) for i in range(3000)]})


def written(table=TABLE, new=pa.ipc.new_file, rows=1000):
    sink = pa.BufferOutputStream()
    with new(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue().to_pybytes()


def columns(*names):
    types = {"n": s.LongType(), "t": s.StringType()}
    return s.StructType([s.StructField(name, types[name]) for name in names])


FILE, STREAM = written(), written(new=pa.ipc.new_stream)
LARGER = written(TABLE.set_column(0, "n", pa.array(["x"] * 3000)))
WITHOUT = written(TABLE.drop_columns("n"))
ALIKE = written(pa.table({"n": pa.array([1], pa.int64()), "N": pa.array(["a"])}))

# name: the bytes, the name of the file below the root, options, and what the error says (None if it is not bad)
CASES = {
    "a file": (FILE, "a.arrow", {}, None),
    "a stream": (STREAM, "a.arrows", {}, None),
    "a stream without its end": (STREAM[:-8], "a.arrows", {}, None),
    "a truncated file": (FILE[: len(FILE) // 2], "a.arrow", {}, "expected"),
    "a truncated stream": (STREAM[: len(STREAM) // 2], "a.arrows", {}, "expected"),
    "a file whose middle is gone": (FILE[:1000] + FILE[-1000:], "a.arrow", {}, "expected"),
    "a stream whose middle is gone": (STREAM[:20_000] + STREAM[-1000:], "a.arrows", {}, "expected"),
    "a footer of noise": (FILE[:-300] + b"\xff" * 290 + FILE[-10:], "a.arrow", {}, "expected"),
    "nothing": (b"", "a.arrow", {}, "expected"),
    "JSON": (b'{"a": 1}', "a.json", {}, "expected"),
    "another type": (LARGER, "a.arrow", {}, "n"),
    "another type in a column that is not read": (LARGER, "a.arrow", {"own": ("t",)}, None),
    "a column less": (WITHOUT, "a.arrow", {}, None),
    "a column less, and that is an error": (WITHOUT, "a.arrow", {"missingColumns": "error"}, "n"),
    "a partition for a column": (WITHOUT, "n=1/a.arrow", {"missingColumns": "error"}, None),
    "a partition of another type": (WITHOUT, "n=x/a.arrow", {"missingColumns": "error"}, "n"),
    "such a name where names are no columns": (FILE, "n=x/a.arrow", {"recursiveFileLookup": "true"}, None),
    "two columns alike, which some sessions tell apart": (ALIKE, "a.arrow", {"own": ("n",)}, None),
    "a table where tensors are read": (FILE, "a.arrow", {"tensors": "values"}, "tensor"),
}


@pytest.mark.parametrize(("data", "name", "options", "says"), CASES.values(), ids=CASES)
def test_a_file_is_bad_if_tasks_could_not_read_it(tmp_path, data, name, options, says):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    own = columns(*options.get("own", ("n", "t")))
    given = {name: value for name, value in options.items() if name != "own"}
    reading = parse_stream({"path": str(tmp_path), **given})[0]
    file = DataFile(str(path), len(data), path.stat().st_mtime_ns)
    why = BadFiles("skip", file_check.FileCheck(own, reading)).why(file, str(tmp_path))
    assert (says is None) == (why is None)
    assert says is None or says in why
    # What is bad is an error of the task, or of the plan, and what is not is read.
    reader = ArrowIpcBatchReader(own, reading)
    try:
        parts = reader.partitions_of([file], [str(tmp_path)])
        rows = sum(batch.num_rows for part in parts for batch in reader.read(part))
    except ArrowIpcError:
        assert why is not None or data is ALIKE  # outside of a session that tells the columns apart
    else:
        assert why is None
        assert rows


def test_a_damaged_body_is_for_the_tasks(tmp_path):
    data = bytearray(FILE)
    data[12_000:12_400] = b"\xff" * 400
    path = tmp_path / "a.arrow"
    path.write_bytes(data)
    reading = parse_stream({"path": str(tmp_path)})[0]
    own = columns("n", "t")
    file = DataFile(str(path), len(data), path.stat().st_mtime_ns)
    assert BadFiles("skip", file_check.FileCheck(own, reading)).why(file, str(tmp_path)) is None
    reader = ArrowIpcBatchReader(own, reading)
    with pytest.raises(ArrowIpcError):
        [list(reader.read(part)) for part in reader.partitions_of([file], [str(tmp_path)])]


def test_a_file_that_is_gone_is_not_bad(tmp_path):
    reading = parse_stream({"path": str(tmp_path)})[0]
    check = file_check.FileCheck(columns("n"), reading)
    with pytest.raises(ArrowIpcError, match="gone"):
        BadFiles("skip", check).why(DataFile(str(tmp_path / "x.arrow"), 1, 1), str(tmp_path))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"onBadFile": "quarantine"}, "notes files in the sourceLog"),
        ({"onBadFile": "skip", "recover": "true"}, "remove one"),
        ({"onBadFile": "leave"}, "fail, skip, quarantine"),
    ],
)
def test_what_cannot_be_had_is_refused(tmp_path, options, says):
    with pytest.raises(OptionError, match=says):
        reading, stream = parse_stream({"path": str(tmp_path), **options})
        file_check.bad_files_of(reading, stream, s.StructType(), None)
