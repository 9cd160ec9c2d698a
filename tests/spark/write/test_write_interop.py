"""Arrow Java and arrow-js read partitions and dictionaries as they were given. No session needed.

The programs are those of `tests/interop`; see `tests/ipc/test_other_implementations.py` for what they need.
"""

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import integration_json
import pyarrow as pa
import pytest
from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.write.staged_file import Staging
from spark_arrow_ipc.spark.options.options import parse_write
from spark_arrow_ipc.spark.write.plan import plan_write
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.names import TableDirectory

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "tests" / "interop"
SCHEMA = s.StructType([
    s.StructField("k", s.IntegerType()), s.StructField("w", s.StringType()), s.StructField("n", s.LongType()),
    s.StructField("l", s.ArrayType(s.StringType())),
])  # fmt: skip
ROWS = [
    {"k": i % 3 or None, "w": f"w{i % 5}" if i % 4 else None, "n": i % 7, "l": [f"{i}", None] if i % 6 else None}
    for i in range(200)
]


def java():
    pyspark = importlib.util.find_spec("pyspark")
    if shutil.which("java") is None or shutil.which("javac") is None or pyspark is None:
        pytest.skip("there is no JDK")
    jars = Path(pyspark.origin).parent / "jars"
    options = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "-Darrow.struct.conflict.policy=CONFLICT_APPEND"]
    return ["java", *options, "-cp", f"{jars}/*", str(PROGRAMS / "ArrowJava.java")], "lz4"


def javascript():
    folders = [*os.environ.get("NODE_PATH", "").split(os.pathsep), str(ROOT / "build" / "node" / "node_modules")]
    if shutil.which("node") is None or not any(f and (Path(f) / "apache-arrow").is_dir() for f in folders):
        pytest.skip("Node or apache-arrow is not installed")
    # It brings no codec.
    return ["env", f"NODE_PATH={os.pathsep.join(folders)}", "node", str(PROGRAMS / "arrow_js.mjs")], "none"


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.slow
@pytest.mark.parametrize("ipc_format", ["file", "stream"])
@pytest.mark.parametrize("program", [java, javascript])
def test_the_files_of_a_task_are_read_equal(tmp_path, program, ipc_format):
    command, compression = program()
    options = {
        "partitionBy": "k", "dictionaryColumns": "w,n", "recordBatchRows": "30", "maxRecordsPerFile": "50",
        "ipcFormat": ipc_format, "compression": compression,
    }  # fmt: skip
    plan = plan_write(SCHEMA, parse_write(options))
    staging = Staging(TableDirectory(LOCAL, str(tmp_path)), "job1")
    Path(staging.path).mkdir(parents=True)
    types = [("k", pa.int32()), ("w", pa.string()), ("n", pa.int64()), ("l", pa.list_(pa.string()))]
    batches = pa.Table.from_pylist(ROWS, pa.schema(types)).to_batches(max_chunksize=70)
    files = plan.write(staging, batches, 0).files
    jobs = [[staging.file(file.staged), str(tmp_path / f"{i}.json")] for i, file in enumerate(files)]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    answer = subprocess.run([*command, str(tmp_path / "jobs.json")], capture_output=True, text=True, timeout=300)
    assert [None] * len(jobs) == [json.loads(line)["error"] for line in answer.stdout.splitlines()], answer.stderr
    found = []
    for file, (source, target) in zip(files, jobs, strict=True):
        key = file.directory.removeprefix("k=")
        rows = [row for batch in integration_json.read(target).batches for row in batch.to_pylist()]
        with ipc.open(source) as reader:
            assert [row for batch in reader for row in batch.to_pylist()] == rows
        found += [{"k": None if key.startswith("__") else int(key), **row} for row in rows]
    assert sorted(map(str, ROWS)) == sorted(map(str, found))
