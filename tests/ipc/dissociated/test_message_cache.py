"""Messages that a server keeps: how many bytes, of which tables."""

import io
from dataclasses import dataclass

import pyarrow as pa
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.ipc.dissociated import messages
from spark_arrow_ipc.ipc.dissociated.messages import MessageCache


@dataclass(frozen=True)
class Message:
    held_nbytes: int


def record(kept, key, *sizes):
    return [m.held_nbytes for m in kept.record(key, map(Message, sizes))]


def sizes(kept, key):
    found = kept.find(key)
    return None if found is None else [m.held_nbytes for m in found]


def test_the_budget_holds_and_the_oldest_goes():
    kept = MessageCache(100)
    for key in "abc":
        assert [10, 20] == record(kept, key, 10, 20)
    assert 90 == kept.nbytes
    assert [10, 20] == sizes(kept, "a")  # now the newest
    record(kept, "d", 30)
    assert [None, [10, 20]] == [sizes(kept, key) for key in "ba"]
    assert [[10, 20], [30], 90] == [sizes(kept, "c"), sizes(kept, "d"), kept.nbytes]
    record(kept, "e", 60, 40)
    assert [[60, 40], 100] == [sizes(kept, "e"), kept.nbytes]


def test_what_does_not_fit_is_not_kept_and_displaces_others_once():
    kept = MessageCache(100)
    record(kept, "a", 50)
    assert [60, 60] == record(kept, "large", 60, 60)
    assert [None, None, 0] == [sizes(kept, "large"), sizes(kept, "a"), kept.nbytes]
    record(kept, "a", 50)
    record(kept, "large", 60, 60)
    assert [[50], 50] == [sizes(kept, "a"), kept.nbytes]


def test_two_recordings_share_the_budget():
    kept = MessageCache(100)
    first, second = (kept.record(key, map(Message, (40, 40))) for key in "ab")
    steps = [next(first), next(second), next(first, None), next(second, None)]
    assert [40] * 4 == [m.held_nbytes for m in steps]
    assert 100 >= kept.nbytes
    list(first), list(second)
    assert [None, [40, 40], 80] == [sizes(kept, "a"), sizes(kept, "b"), kept.nbytes]


def test_one_client_records_and_others_do_not():
    kept = MessageCache(100)
    first, second = kept.record("a", map(Message, (40,))), kept.record("a", map(Message, (40,)))
    next(first), next(second)
    assert 40 == kept.nbytes


def test_a_client_that_goes_midway_leaves_nothing():
    kept = MessageCache(100)
    first = kept.record("a", map(Message, (40, 40)))
    next(first)
    first.close()
    assert (0, None) == (kept.nbytes, sizes(kept, "a"))
    assert [40] == record(kept, "a", 40)
    assert [40] == sizes(kept, "a")


def test_a_budget_of_nothing_keeps_nothing():
    kept = MessageCache(0)
    record(kept, "a", 0)
    assert None is sizes(kept, "a")


def write(path, values):
    sink = io.BytesIO()
    table = pa.table({"a": values})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(sink.getvalue())
    fresh.replace(path)


def rows(uri, **given):
    with ipc.connect(uri, **given) as reader:
        return [row["a"] for batch in reader for row in batch.to_pylist()]


@pytest.mark.parametrize(("keep", "opens"), [(1 << 20, 2), (0, 5), (100, 5)], ids=["kept", "never", "too large"])
def test_a_file_is_read_once_for_all_clients_until_it_changes(tmp_path, monkeypatch, keep, opens):
    path = tmp_path / "x.arrow"
    write(path, [1, 2, 3])
    count = []
    monkeypatch.setattr(messages, "open_any", lambda *a, **k: count.append(a) or ipc.open(*a, **k))
    with ipc.serve({"t": path}, keep_nbytes=keep) as server:
        assert [[1, 2, 3]] * 3 == [rows(server.uri_of("t")) for _ in range(3)]
        write(path, [4])
        assert [[4]] * 2 == [rows(server.uri_of("t")) for _ in range(2)]
    assert opens == len(count)
