"""Parts of a server's table: how many, what they are called, how their rows are numbered."""

import io
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.scan.scan import ScanOptions
from spark_arrow_ipc.errors import ArrowIpcError, LimitError, OptionError, UnsupportedError
from spark_arrow_ipc.spark.read.remote import RemotePart, plan_parts, scan_remote

KNOWS = "dissociated+tcp://h:1/t?want_data=1&want_part=2"
PLANS = [
    ("one", KNOWS, None, [(None, None)]),
    ("as many as asked", KNOWS, 3, [(0, 3), (1, 3), (2, 3)]),
    ("the URI's own number first", KNOWS + "&of=2", 3, [(0, 2), (1, 2)]),
    ("a part", KNOWS + "&part=1&of=2", 3, [(1, 2)]),
    ("a server that knows none", "dissociated+tcp://h:1/t?want_data=1&of=2", 3, [(None, 2)]),
]


@pytest.mark.parametrize(("uri", "parts", "expected"), [c[1:] for c in PLANS], ids=[c[0] for c in PLANS])
def test_parts_are_planned_without_a_server(uri, parts, expected):
    from spark_arrow_ipc.ipc.dissociated.location import parse_location

    planned = plan_parts(uri, parts)
    found = [parse_location(part.uri) for part in planned]
    assert expected == [(location.part, location.of) for location in found]
    assert [location.without_tags for location in found] == [part.path for part in planned]
    assert "want" not in repr(planned)


@pytest.mark.slow
def test_the_number_of_parts_is_bounded():
    assert 100_000 == len(plan_parts(KNOWS, 10**15))


@pytest.mark.parametrize(("uri", "error"), [("dissociated+tcp://h:1/t", OptionError), ("ucx://h:1", UnsupportedError)])
def test_uris_are_checked(uri, error):
    with pytest.raises(error):
        plan_parts(uri, None)


def encoded(sizes):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, pa.schema([("a", pa.int64())])) as writer:
        for first, stop in pairwise(sizes):
            writer.write_batch(pa.record_batch([pa.array(range(first, stop))], ["a"]))
    return sink.getvalue()


@dataclass
class Rows:
    first_block: int
    first_row: int
    block_rows: tuple
    values: list


def test_rows_are_numbered_in_their_part_and_small_batches_joined():
    with ipc.serve({"t": encoded([0, 2, 5, 20_005, 20_006])}) as server:
        (part, last) = plan_parts(server.uri_of("t"), 2)
        found = [
            [
                Rows(s.first_block, s.first_row, s.block_rows, [row["a"] for row in s.batch.to_pylist()])
                for file in scan_remote(each, options=ScanOptions(joined_rows=10), token=None)
                for s in file.batches
            ]
            for each in (part, last)
        ]
    assert [Rows(0, 0, (2, 3), [*range(5)])] == found[0]
    assert [Rows(0, 0, (20_000,), [*range(5, 20_005)]), Rows(1, 20_000, (1,), [20_005])] == found[1]


ERRORS = [
    ("a limit", {"limits": ipc.Limits(max_batch_bytes=10)}, "t", LimitError, "max_batch_bytes"),
    ("no such table", {}, "u", ConnectionError, "no table of the ticket"),
]


@pytest.mark.parametrize(("given", "ticket", "error", "words"), [c[1:] for c in ERRORS], ids=[c[0] for c in ERRORS])
def test_errors_name_the_part_and_no_tag(given, ticket, error, words):
    with ipc.serve({"t": encoded([0, 100])}) as server:
        (part,) = plan_parts(server.uri_of("t").replace("ticket=t", f"ticket={ticket}"), None)
        with pytest.raises(error, match=words) as raised:
            for file in scan_remote(part, options=ScanOptions(ipc.ReadOptions(**given)), token=None):
                list(file.batches)
    assert isinstance(part, RemotePart)
    assert "want" not in str(raised.value)
    if isinstance(raised.value, ArrowIpcError):
        assert raised.value.path.startswith("dissociated+tcp://127.0.0.1:")
