"""Releases while an exception is on its way, in any thread, and when the interpreter ends."""

import gc
import subprocess
import sys
import threading
import traceback

import duckdb
import nanoarrow as na
import polars as pl
import pyarrow as pa
import pytest

from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t

BATCH = RecordBatch.from_pydict({"a": [1, None, 3]}, Schema.of([t.field("a", t.int64)]))

CONSUMERS = {
    "nobody": BATCH.__arrow_c_array__,
    "pyarrow": lambda: pa.record_batch(BATCH),
    "polars": lambda: pl.DataFrame(BATCH),
    "nanoarrow": lambda: na.Array(BATCH),
    "DuckDB": lambda: duckdb.from_arrow(pa.RecordBatchReader.from_stream(BATCH)),
}


def fail(*_):
    return 1 / 0


@pytest.mark.parametrize("consume", CONSUMERS.values(), ids=CONSUMERS)
def test_an_exception_on_its_way_arrives(consume):
    """The arguments are dropped while ZeroDivisionError is pending: without care for it the interpreter crashes."""
    for _ in range(50):
        with pytest.raises(ZeroDivisionError) as caught:
            print(consume(), consume(), fail())
        assert "called" not in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_the_garbage_collector_may_run_before_it_arrives():
    """It was scheduled before the exception was set, and runs where the next Python function begins."""
    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(200):
            circle = []
            circle.append(circle)
            del circle
            with pytest.raises(ZeroDivisionError):
                print(BATCH.__arrow_c_array__(), 1 / 0)
    finally:
        gc.set_threshold(*thresholds)


def test_its_context_stays():
    error = KeyError("first")
    with pytest.raises(ZeroDivisionError) as caught:
        try:
            raise error
        except KeyError:
            print(BATCH.__arrow_c_array__(), fail())
    assert error is caught.value.__context__


def test_in_many_threads_at_once():
    arrived = []

    def work():
        for _ in range(300):
            try:
                print(BATCH.__arrow_c_array__(), fail())
            except ZeroDivisionError:
                arrived.append(1)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1500 == len(arrived)


ENDS = {
    "capsules": "held = batch.__arrow_c_array__(), batch.__arrow_c_schema__(), batch.__arrow_c_stream__()",
    "pyarrow": "import pyarrow; held = pyarrow.table(batch)",
    "pyarrow, of a module that ends late": "import pyarrow, os, sys; os.held = sys.held = pyarrow.table(batch)",
    "pyarrow, in a circle": "import pyarrow; held = [pyarrow.table(batch)]; held.append(held)",
    "a reader of pyarrow's": "import pyarrow; held = pyarrow.RecordBatchReader.from_stream(batch)",
    "polars": "import polars; held = polars.DataFrame(batch).lazy()",
    "nanoarrow": "import nanoarrow; held = nanoarrow.Array(batch)",
    "DuckDB": "import duckdb; held = duckdb.sql('SELECT * FROM batch')",
    "a thread": (
        "import pyarrow, threading, time\n"
        "def work():\n    while True: pyarrow.table(batch)\n"
        "threading.Thread(target=work, daemon=True).start(); time.sleep(0.1)"
    ),
    "imported": "import pyarrow, sys; sys.held = RecordBatch.from_arrow(pyarrow.record_batch({'a': [1]}))",
}


@pytest.mark.slow
@pytest.mark.parametrize("line", ENDS.values(), ids=ENDS)
def test_a_process_with_live_capsules_ends_cleanly(line):
    program = (
        "from spark_arrow_ipc.arrow import RecordBatch, Schema, types as t\n"
        "batch = RecordBatch.from_pydict({'a': [1, None]}, Schema.of([t.field('a', t.int64)]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program + line], capture_output=True, text=True, timeout=60)
    assert (0, "") == (ended.returncode, ended.stderr)
