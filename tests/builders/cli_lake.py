"""Two partitions of rows, and what a command of ours says of them as JSON."""

import json

import numpy as np
import pytest

from spark_arrow_ipc.cli.main import main

pa = pytest.importorskip("pyarrow")
ROWS = 100


def table(k):
    numbers = np.arange(ROWS) + 1000 * k
    return pa.table(
        {
            "a": numbers,
            "name": pa.array([None if i % 10 == 3 else f"n{i % 7}" for i in numbers]).dictionary_encode(),
            "nested": pa.array([{"x": float(i), "items": [i]} for i in numbers]),
        }
    )


def write_lake(root):
    """Write two partitions of 100 rows: a file of four record batches, and a stream of three; return their directory."""
    for k, make, step in [(1, pa.ipc.new_file, 30), (2, pa.ipc.new_stream, 40)]:
        (root / f"k={k}").mkdir()
        with make(str(root / f"k={k}" / "x.arrow"), table(k).schema) as writer:
            writer.write_table(table(k).unify_dictionaries(), max_chunksize=step)
    return str(root)


def rows(capsys, *arguments):
    status = main([*arguments, "--json"])
    out, err = capsys.readouterr()
    assert (0, "") == (status, err)
    return [json.loads(line) for line in out.splitlines()]
