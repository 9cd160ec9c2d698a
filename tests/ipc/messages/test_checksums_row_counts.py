"""Row counts in the footer: polars writes the same, reads ours by as few requests as its own, and nobody here believes one."""

import contextlib
import io
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow as pa
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.ipc.messages.checksums import ROW_COUNTS_KEY, decode_row_counts, encode_row_counts

pl = pytest.importorskip("polars")

ROWS, PER_BATCH = 200_000, 10_000
FRAME = pl.DataFrame({"n": np.arange(ROWS), "x": np.random.default_rng(7).random(ROWS)})


def polars_file(**options):
    sink = io.BytesIO()
    FRAME.lazy().sink_ipc(sink, record_batch_size=PER_BATCH, **options)
    return sink.getvalue()


def our_file(frame=FRAME, per_batch=PER_BATCH):
    sink = io.BytesIO()
    ipc.write(sink, frame.iter_slices(per_batch))
    return sink.getvalue()


def pair_of(data):
    return dict(ipc.open(data).custom_metadata).get(ROW_COUNTS_KEY)


def test_the_pair_is_that_of_polars():
    assert pair_of(polars_file(_record_batch_statistics=True)) == pair_of(our_file())
    assert [PER_BATCH] * (ROWS // PER_BATCH) == decode_row_counts(ipc.open(our_file()).custom_metadata)


NONE = {"no record batch": [], "one record batch": [5], "more rows than polars counts": [2**32 - 1, 1]}


@pytest.mark.parametrize("case", NONE)
def test_there_is_no_pair_where_it_says_nothing(case):
    assert () == encode_row_counts(NONE[case])


def test_a_pair_of_as_many_rows_as_polars_counts():
    assert ((ROW_COUNTS_KEY, '{"record_batch_cum_len":[4294967295,4294967295]}'),) == encode_row_counts([2**32 - 1, 0])


def test_many_record_batches_cost_few_bytes():
    """Beside 24 bytes for the block of each in a footer, and those of its checksums."""
    ((_, value),) = encode_row_counts([65_536] * 10_000)
    assert len(value) < 11 * 10_000


MALFORMED = {
    "no JSON": "{",
    "no object": "[1, 2]",
    "another key": '{"rows": [1]}',
    "no list": '{"record_batch_cum_len": 3}',
    "numbers that are none": '{"record_batch_cum_len": [true, 2]}',
    "a negative number": '{"record_batch_cum_len": [-1]}',
    "a number beyond any file": f'{{"record_batch_cum_len": [{10**4000}]}}',
    "fractions": '{"record_batch_cum_len": [1.0]}',
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_pair_is_an_error_of_its_caller(case):
    with pytest.raises(ValueError, match=r"."):
        decode_row_counts(((ROW_COUNTS_KEY, MALFORMED[case]),))


def test_a_file_without_the_pair_has_none():
    assert decode_row_counts((("k", "v"),)) is None


def test_a_pair_that_was_copied_is_replaced():
    sink, schema = io.BytesIO(), Schema.of([t.field("n", t.int64)])
    with ipc.create(sink, schema) as writer:
        writer.custom_metadata[ROW_COUNTS_KEY] = claimed([7, 9])
        for rows in (2, 3):
            writer.write(pa.record_batch({"n": pa.array(range(rows), pa.int64())}))
    assert [2, 3] == decode_row_counts(ipc.open(sink.getvalue()).custom_metadata)


# ---- over a network


class Ranges(BaseHTTPRequestHandler):
    """One file, by ranges; notes the bytes of each reply."""

    protocol_version = "HTTP/1.1"
    data = b""
    sent: list[int]

    def do_GET(self):
        first, last = 0, len(self.data) - 1
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked is not None and asked[1]:
            first, last = int(asked[1]), min(int(asked[2] or last), last)
        elif asked is not None:
            first = max(0, len(self.data) - int(asked[2]))
        body = self.data[first : last + 1]
        self.sent.append(len(body))  # before the client has them, and looks here
        self.send_response(200 if asked is None else 206)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(self.data)}")
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self):
        self.sent.append(0)
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.data)))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(data):
    handler = type("Served", (Ranges,), {"data": data, "sent": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/data.arrow", handler.sent
        finally:
            server.shutdown()
            thread.join()


QUERIES = {
    "tail": (lambda rows: rows.tail(5), FRAME.tail(5)),
    "head": (lambda rows: rows.head(5), FRAME.head(5)),
    "slice": (lambda rows: rows.slice(123_456, 5), FRAME.slice(123_456, 5)),
}


def cost(data, query):
    """The requests and bytes of a query of polars, which has to give the right rows."""
    ask, expected = QUERIES[query]
    with served(data) as (url, sent):
        assert expected.equals(ask(pl.scan_ipc(url)).collect())
        return len(sent), sum(sent)


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_polars_asks_for_as_little_of_our_files_as_of_its_own(query):
    theirs, ours = cost(polars_file(_record_batch_statistics=True), query), cost(our_file(), query)
    assert theirs[0] == ours[0]
    assert ours[1] < 1.01 * theirs[1]
    # Without the pair it reads all of it.
    assert ours[1] < 0.2 * cost(polars_file(), query)[1]


# ---- a pair that lies


def claimed(rows):
    return json.dumps({"record_batch_cum_len": np.cumsum(rows).tolist()})


LIES = {
    "more rows": ([3, 3], "says 3 rows in record batch 0, which has 2: polars reads the wrong rows"),
    "fewer rows": ([1, 3], "says 1 rows in record batch 0, which has 2"),
    "fewer record batches": ([2], "says 1 record batches, and the file has 2: polars ignores it"),
    "more record batches": ([2, 2, 1], "says 3 record batches, and the file has 2"),
    "a falling count": ([2, -1], "says -1 rows in record batch 1, which has 3"),
}


def lying_file(path, value):
    with pa.ipc.new_file(str(path), pa.schema([("n", pa.int64())]), metadata={ROW_COUNTS_KEY: value}) as writer:
        for values in ([1, 2], [3, 4, 5]):
            writer.write_batch(pa.record_batch({"n": pa.array(values, pa.int64())}))
    return str(path)


@pytest.mark.parametrize("case", LIES)
def test_a_count_that_lies_changes_no_row(case, capsys, tmp_path):
    path = lying_file(tmp_path / "a.arrow", claimed(LIES[case][0]))
    with ipc.open(path) as reader:
        assert [2, 3] == reader.row_counts(range(len(reader)))
        assert [1, 2, 3, 4, 5] == [n for batch in reader for n in batch.columns[0].to_pylist()]
    answers = {}
    for command in ("head", "tail", "count"):
        assert 0 == main([command, path, *(() if command == "count" else ("-n", "2", "--json"))])
        answers[command] = capsys.readouterr().out
    assert ([1, 2], [4, 5]) == tuple(
        [json.loads(row)["n"] for row in answers[c].splitlines()] for c in ("head", "tail")
    )
    assert "5" in answers["count"].replace(path, "")


def test_polars_believes_a_count_that_lies(tmp_path):
    """Why `validate` names it."""
    path = lying_file(tmp_path / "a.arrow", claimed([1, 3]))
    assert [1, 2, 3] != pl.scan_ipc(path).head(3).collect()["n"].to_list()


@pytest.mark.parametrize("case", LIES)
def test_a_count_that_lies_is_named(case, capsys, tmp_path):
    path = lying_file(tmp_path / "a.arrow", claimed(LIES[case][0]))
    main(["validate", path])
    assert LIES[case][1] in capsys.readouterr().out


def test_a_malformed_count_is_named_and_a_true_one_is_not(capsys, tmp_path):
    main(["validate", lying_file(tmp_path / "a.arrow", '{"rows": 1}')])
    assert (
        f"the row counts of {ROW_COUNTS_KEY} in the footer are malformed: there is no list" in capsys.readouterr().out
    )
    main(["validate", lying_file(tmp_path / "b.arrow", claimed([2, 3]))])
    assert ROW_COUNTS_KEY not in capsys.readouterr().out


@pytest.mark.parametrize("command", ["concat", "rewrite", "repair"])
def test_a_pair_is_not_copied_to_a_file_of_other_batches(command, tmp_path):
    source = lying_file(tmp_path / "a.arrow", claimed([1, 4]))
    target = str(tmp_path / "b.arrow")
    assert main([command, source, target]) in {0, 1}
    assert [2, 3] == decode_row_counts(ipc.open(target).custom_metadata)
