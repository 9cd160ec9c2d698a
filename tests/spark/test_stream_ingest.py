"""examples/stream_ingest.py by spark-submit, killed and started again; pyarrow drops the files and reads the lake."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[2]
SCHEMA = "id long, day string"


def drop(folder, number):
    """Drop a file of two rows, of two days."""
    table = pa.table({"id": [2 * number, 2 * number + 1], "day": [f"d{number % 2}", "d9"]})
    temporary = folder / f".{number}"
    with pa.ipc.new_file(temporary, table.schema) as writer:
        writer.write_table(table)
    temporary.rename(folder / f"{number}.arrow")


def submit(tmp_path, *options):
    command = [
        Path(sys.executable).with_name("spark-submit"),
        "--master",
        "local[2]",
        "--conf",
        "spark.ui.enabled=false",
    ]
    command += [ROOT / "examples" / "stream_ingest.py", "--schema", SCHEMA, "--partition-by", "day", "--max-files", "3"]
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)
    }  # fmt: skip
    with (tmp_path / "output").open("ab") as output:
        return subprocess.Popen(
            [*map(str, command), *options, *(str(tmp_path / name) for name in ("drop", "lake", "state"))],
            env=environment, stdout=output, stderr=output, start_new_session=True, cwd=tmp_path,
        )  # fmt: skip


def lake(tmp_path):
    """Return the rows that pyarrow finds, with the day of their directory."""
    if not (tmp_path / "lake").exists():
        return []
    data = pa.dataset.dataset(tmp_path / "lake", format="ipc", partitioning="hive", exclude_invalid_files=False)
    return sorted((row["id"], row["day"]) for row in data.to_table().to_pylist())


def test_a_job_that_is_killed_goes_on_where_it_was(tmp_path):
    (tmp_path / "drop").mkdir()
    for number in range(8):
        drop(tmp_path / "drop", number)
    job = submit(tmp_path, "--every", "100 milliseconds")
    try:
        deadline = time.monotonic() + 200
        while not list((tmp_path / "lake").glob("day=*/*.arrow")) and time.monotonic() < deadline:
            assert job.poll() is None, (tmp_path / "output").read_text()
            time.sleep(0.1)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    for number in range(8, 12):
        drop(tmp_path / "drop", number)
    last = submit(tmp_path)
    assert 0 == last.wait(300), (tmp_path / "output").read_text()
    expected = [(2 * number, f"d{number % 2}") for number in range(12)] + [
        (2 * number + 1, "d9") for number in range(12)
    ]
    assert sorted(expected) == lake(tmp_path)
