"""Checkpoints: the state of their entries, read by any tool, and what is refused."""

from dataclasses import replace

import log_cases
import polars as pl
import pyarrow as pa
import pytest

from spark_arrow_ipc.errors import CommitError, UnsupportedError
from spark_arrow_ipc.table.checkpoint import decode_checkpoint, encode_checkpoint
from spark_arrow_ipc.table.state import State


def facts_of(after):
    """Everything in a state, as plain values."""
    return {
        **{name: getattr(after, name) for name in State.__slots__ if name != "files"},
        "files": log_cases.files_of(after),
        "statistics": None if after.files.statistics is None else after.files.statistics.to_pylist(),
    }


@pytest.mark.parametrize("seed", range(4))
def test_a_checkpoint_is_the_state_of_its_entries_byte_for_byte(seed):
    """Whoever makes it, from whatever checkpoint before it."""
    entries, _ = log_cases.random_entries(seed, 40)
    after = State(log_cases.TABLE).after(*entries)
    stepwise = State(log_cases.TABLE)
    for start in range(0, 40, 7):
        stepwise = stepwise.after(*entries[start : start + 7])
        stepwise = decode_checkpoint(encode_checkpoint(stepwise), log_cases.TABLE, stepwise.number)
    assert facts_of(after) == facts_of(stepwise)
    assert encode_checkpoint(after) == encode_checkpoint(stepwise)


def test_other_readers_read_a_checkpoint(tmp_path):
    entries, models = log_cases.random_entries(5, 30)
    path = tmp_path / "c.checkpoint"
    path.write_bytes(encode_checkpoint(State(log_cases.TABLE).after(*entries)))
    with pa.memory_map(str(path)) as source:
        theirs = pa.ipc.open_file(source).read_all()
    assert sorted(models[-1].files) == sorted(theirs["path"].to_pylist())
    assert sum(nbytes for nbytes, _ in models[-1].files.values()) == sum(theirs["bytes"].to_pylist())
    bounds = pl.read_ipc(path)["statistics"].struct.field("id")
    assert bounds.null_count() < len(bounds)


@pytest.mark.parametrize("value", [-1, "1", True, None, 1.5])
def test_a_hostile_checkpoint_is_refused(value):
    after = State(log_cases.TABLE).after(*log_cases.random_entries(2, 5)[0])
    for name in ("horizon", "last_removal", "time"):
        with pytest.raises(CommitError, match="wrong kind"):
            decode_checkpoint(encode_checkpoint(replace(after, **{name: value})), log_cases.TABLE, 5)
    with pytest.raises(CommitError):
        decode_checkpoint(encode_checkpoint(replace(after, tokens={"t": value})), log_cases.TABLE, 5)


def test_every_cut_of_a_checkpoint_is_refused_or_is_the_state():
    after = State(log_cases.TABLE).after(*log_cases.random_entries(2, 5)[0])
    data = encode_checkpoint(after)
    for stop in range(0, len(data), 61):
        with pytest.raises(CommitError):
            decode_checkpoint(data[:stop], log_cases.TABLE, 5)


def test_every_byte_of_a_checkpoint_that_is_another_is_refused_or_means_nothing():
    after = State(log_cases.TABLE).after(*log_cases.random_entries(2, 5)[0])
    data, refused = encode_checkpoint(after), 0
    for i in range(len(data)):
        try:
            read = decode_checkpoint(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :], log_cases.TABLE, 5)
        except (CommitError, UnsupportedError):
            refused += 1
        else:
            assert facts_of(after) == facts_of(read), i
    assert refused > len(data) // 2
