"""What nothing of ours imports: pandas, 0.4 seconds of CPU, anywhere; pyarrow for a schema; its kernels for a plan."""

import json
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import arrow_files
import pyarrow as pa
import pytest

WATCH = """
import json, sys, traceback

watched = {"pandas"}

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in watched:
            sys.exit(f"{name} is imported:\\n" + "".join(traceback.format_stack()))

from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

assert "pandas" not in sys.modules, "PySpark imports it"
sys.meta_path.insert(0, Watch())
"""

READ = """
for name, options in json.load(sys.stdin).items():
    print(name, file=sys.stderr)
    source = ArrowIpcDataSource(options)
    reader = source.reader(source.schema())
    print(sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)))
"""

PLAN = """
source = ArrowIpcDataSource(json.load(sys.stdin))
assert "pyarrow" not in sys.modules, "it would not be imported again"
watched.add("pyarrow")
schema = source.schema()
watched.remove("pyarrow")
watched.add("pyarrow.compute")
print(len(source.reader(schema).partitions()))
"""

WRITE = """
import pyarrow as pa

options = json.load(sys.stdin)
with pa.OSFile(options.pop("rows")) as file:
    batch = pa.ipc.open_file(file).get_batch(0)
writer = ArrowIpcDataSource(options).writer(ArrowIpcDataSource({"path": options["path"]}).schema(), overwrite=False)
writer.commit([writer.write(iter([batch]))])
print(batch.num_rows)
"""

NUMBERS = pa.table({"a": pa.array([1, None, 3]), "b": pa.array([1, 2, 2])})
TEXTS = pa.table({"a": ["x", "xyx", None]})
INSTANTS = pa.table({"a": pa.array([datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC), None], pa.timestamp("us", "UTC"))})
MAPS = pa.table({"a": pa.array([[(1, 2), (2, 3)], None], pa.map_(pa.int64(), pa.int64()))})
UNIONS = pa.table(
    {"a": pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["x", "y"])])}
)
RUN_ENDS = pa.table({"a": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, None]))})

# (The table that is read, the options, its rows that remain.)
READS = {
    "a scan": (NUMBERS, {}, 3),
    "numbers": (NUMBERS, {"where": "a >= 1 and a < 3 or a in (7, 9)"}, 1),
    "a point and a constant": (NUMBERS, {"where": "a = 3 and 1 = 1"}, 1),
    "two columns": (NUMBERS, {"where": "a = b and not a <=> null"}, 1),
    "patterns": (TEXTS, {"where": "a like 'x%x'"}, 1),
    "texts": (TEXTS, {"where": "a in ('x', 'y') or upper(a) = 'XYX'"}, 2),
    "floats": (pa.table({"a": [1.5, float("nan"), None]}), {"where": "a > 2D or a in (1.5D, 0D)"}, 2),
    "booleans": (pa.table({"a": [True, None]}), {"where": "a or a in (false)"}, 1),
    "bytes": (pa.table({"a": [b"x", None]}), {"where": "a = X'78'"}, 1),
    "dates": (pa.table({"a": [date(2022, 1, 8), None]}), {"where": "year(a) = 2022 and a in (date '2022-01-08')"}, 1),
    "instants": (INSTANTS, {"where": "a in (timestamp '2001-09-09 01:46:40Z')", "timeZone": "UTC"}, 1),
    "decimals": (pa.table({"a": [Decimal("1.50"), None]}), {"where": "a = 1.50 or a in (2.25, 3.25)"}, 1),
    "metadata columns": (NUMBERS, {"metadataColumns": "true"}, 3),
    "metadata only": (NUMBERS, {"metadataOnly": "true"}, 1),
    "lists": (pa.table({"a": [[1], None, []]}), {}, 3),
    "list views": (pa.table({"a": pa.array([[1, 2], None], pa.list_view(pa.int64()))}), {}, 2),
    "structs": (pa.table({"a": [{"b": 1}, None]}), {"where": "a.b = 1"}, 1),
    "maps": (MAPS, {}, 2),
    "run ends": (RUN_ENDS, {}, 3),
    "unions": (UNIONS, {}, 2),
    "dictionaries": (pa.table({"a": pa.array(["x", None]).dictionary_encode()}), {"where": "a = 'x'"}, 1),
}


def run(program: str, given: dict[str, object]) -> list[int]:
    """Return what a program prints, a process of its own that ends with a stack where pandas is imported."""
    done = subprocess.run(
        [sys.executable, "-c", WATCH + program], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_reads_do_without_it(tmp_path):
    for name, (table, _, _) in READS.items():
        (tmp_path / name).mkdir()
        arrow_files.write(tmp_path / name / "a.arrow", table)
    given = {name: {"path": str(tmp_path / name)} | options for name, (_, options, _) in READS.items()}
    assert dict(zip(READS, run(READ, given), strict=True)) == {name: rows for name, (_, _, rows) in READS.items()}


@pytest.mark.slow
def test_partition_columns_do_without_it(tmp_path):
    directory = tmp_path / "day=2020-01-01" / "n=1"
    directory.mkdir(parents=True)
    arrow_files.write(directory / "a.arrow", NUMBERS)
    assert run(READ, {"days": {"path": str(tmp_path), "where": "n = 1 and day > date '2000-01-01'"}}) == [3]


@pytest.mark.slow
def test_writes_do_without_it(tmp_path):
    arrow_files.write(tmp_path / "a.arrow", NUMBERS)
    assert run(WRITE, {"path": str(tmp_path), "rows": str(tmp_path / "a.arrow"), "compression": "lz4"}) == [3]
    assert sum(pa.ipc.open_file(path).read_all().num_rows for path in tmp_path.glob("*.arrow")) == 6


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"metadataColumns": "true"}, {"mergeSchema": "true", "columns": "a"}])
def test_a_schema_does_without_pyarrow_and_a_plan_without_its_kernels(tmp_path, options):
    arrow_files.write(tmp_path / "a.arrow", NUMBERS)
    assert run(PLAN, {"path": str(tmp_path)} | options) == [1]


@pytest.mark.slow
def test_an_import_would_be_seen(tmp_path):
    with pytest.raises(AssertionError, match="pandas is imported"):
        run("import pyarrow as pa\npa.scalar(1)", {})
