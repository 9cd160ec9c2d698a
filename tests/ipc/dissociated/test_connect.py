"""Clients that ask for a part of a table: its rows, and what travels for them."""

import io

import numpy as np
import pyarrow as pa
import pytest
from dissociated_peers import ToyClient, ToyServer, messages_of, packed_frames

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ColumnNotFoundError, InvalidMetadataError, OptionError
from spark_arrow_ipc.ipc.dissociated import connect
from spark_arrow_ipc.ipc.dissociated.connect import read_served_schema
from spark_arrow_ipc.ipc.dissociated.location import SCHEMA_ALONE, Selection, parse_location

KIND = pa.dictionary(pa.int8(), pa.string())
INNER = pa.dictionary(pa.int8(), pa.struct([("s", KIND)]))


def encoded(batches, kind="stream", **options):
    sink = io.BytesIO()
    new = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
    with new(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def of_words(*lists):
    return [pa.record_batch([pa.array(words).dictionary_encode().cast(KIND)], ["d"]) for words in lists]


def nested(*words):
    inner = [pa.array([word]).dictionary_encode().cast(KIND) for word in words]
    return [
        pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.StructArray.from_arrays([i], ["s"]))], ["n"])
        for i in inner
    ]  # fmt: skip


NUMBERS = [pa.record_batch([pa.array(range(i, 2 * i)), pa.array([f"x{i}"] * i)], ["a", "b"]) for i in range(1, 8)]
TABLES = {
    "file": encoded(NUMBERS, "file"),
    "stream": encoded(NUMBERS),
    "compressed": encoded(NUMBERS, compression="zstd"),
    "deltas": encoded(of_words(["a"], ["a", "b"], ["a", "b", "c"], ["c"]), emit_dictionary_deltas=True),
    "replaced": encoded(of_words(["a"], ["b"], ["c", "d"], ["d"], ["e", "a"])),
    "nested": encoded(nested("a", "b", "c")),
    "empty": encoded([NUMBERS[0].slice(0, 0)]),
}
WAYS = [("tcp", None), ("tcp", "named"), ("unix", "memfd")]


@pytest.fixture(scope="module", params=WAYS, ids=["packed", "named", "memfd"])
def server(request, tmp_path_factory):
    scheme, memory = request.param
    listen = (
        "dissociated+tcp://127.0.0.1:0" if scheme == "tcp" else f"dissociated+unix://{tmp_path_factory.mktemp('s')}/s"
    )
    with ipc.serve(TABLES, listen, shared_memory=memory, parts=3) as made:
        yield made


def rows(reader):
    return [row for batch in reader for row in batch.to_pylist()]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("of", [1, 2, 3, 20])
def test_parts_are_the_table_together(server, name, of):
    data = TABLES[name]
    expected = (pa.ipc.open_file if name == "file" else pa.ipc.open_stream)(data).read_all().to_pylist()
    found = []
    for part in range(of):
        with ipc.connect(server.uri_of(name), part=(part, of)) as reader:
            found += rows(reader)
    assert expected == found
    assert "&of=3" in server.uri_of(name)
    with ipc.connect(server.uri_of(name)) as reader:  # `of` alone is an advice
        assert expected == rows(reader)


def test_a_part_may_stand_in_the_uri(server):
    with ipc.connect(server.uri_of("file").replace("of=3", "part=2&of=3")) as reader:
        assert [row for batch in NUMBERS[4:] for row in batch.to_pylist()] == rows(reader)


CHOSEN = [
    ("one", ["b"]), ("none", []), ("reversed", ["b", "a"]), ("by position", [1]), ("a function", lambda schema: [schema.fields[0].name]),
]  # fmt: skip


@pytest.mark.parametrize("columns", [c[1] for c in CHOSEN], ids=[c[0] for c in CHOSEN])
@pytest.mark.parametrize("name", ["file", "stream", "compressed"])
def test_columns_are_those_of_the_file(server, name, columns):
    with (
        ipc.open(TABLES[name], columns=columns) as file,
        ipc.connect(server.uri_of(name), columns=columns, part=(1, 2)) as reader,
    ):
        assert file.schema == reader.schema
        assert [(b.num_rows, b.to_pylist()) for b in file][3:] == [(b.num_rows, b.to_pylist()) for b in reader]


WIDE = pa.record_batch(
    [pa.array(np.arange(1000)), pa.array([{"x": i, "y": str(i)} for i in range(1000)]), pa.array(np.arange(1000.0))],
    ["a", "s", "f"],
)
NARROWED = [
    ("a number", ["f"], 8000),
    ("nothing", [], 0),
    ("a field", [("s", "x")], 14_900),
    ("two", ["f", "a"], 16_000),
]


@pytest.mark.parametrize(("columns", "most"), [c[1:] for c in NARROWED], ids=[c[0] for c in NARROWED])
@pytest.mark.parametrize("table", [encoded([WIDE], "file"), "batches"], ids=["file", "batches"])
def test_other_columns_do_not_travel(monkeypatch, table, columns, most):
    from spark_arrow_ipc.ipc.dissociated import session

    if table == "batches":
        with ipc.open(encoded([WIDE])) as reader:
            table = list(reader)
        columns = [path if isinstance(path, str) else "s" for path in columns]
    sent = []
    send = session.Session._send_body
    monkeypatch.setattr(session.Session, "_send_body", lambda *a: sent.append(a[2].nbytes) or send(*a))
    with (
        ipc.serve({"t": table}) as server,
        ipc.open(encoded([WIDE]), columns=columns) as file,
        ipc.connect(server.uri_of("t"), columns=columns) as reader,
    ):
        assert file.schema == reader.schema
        assert rows(file) == rows(reader)
    assert 1 == len(sent)
    assert most <= sent[0] <= most * 1.1 + 100


def test_a_client_written_from_the_page_asks_for_a_part():
    with ipc.serve({"t": TABLES["file"]}) as server:
        location = parse_location(server.uri)
        request = bytes.fromhex("01000000 03000000 01000000 01000000") + b"t"
        toy = ToyClient((location.host, location.port), location.want_part, request)
        found = pa.ipc.open_stream(toy.stream()).read_all()
        toy.close()
    assert pa.Table.from_batches(NUMBERS[2:4]).select(["b"]).equals(found)


def test_the_schema_alone_is_sent():
    with ipc.serve({"t": TABLES["file"]}) as server:
        assert ("a", "b") == read_served_schema(server.uri_of("t")).names
        location = parse_location(server.uri)
        toy = ToyClient((location.host, location.port), location.want_part, Selection(of=0).encode(b"t"))
        toy.read()
        toy.close()
    assert 2 == len(toy.raw)


def test_a_server_that_knows_no_parts_is_read_whole():
    frames = packed_frames(messages_of(NUMBERS[0]))
    with ToyServer(frames) as server, ipc.connect(server.uri, ticket="t", columns=["b"]) as reader:
        assert [{"b": "x1"}] == rows(reader)
    with ToyServer(frames) as server:
        assert ("a", "b") == read_served_schema(server.uri + "&ticket=t").names
    with pytest.raises(OptionError, match="a server that knows parts"):
        ipc.connect("dissociated+tcp://h:1?want_data=1&ticket=t&part=1&of=2")


@pytest.mark.parametrize("part", [(2, 2), (-1, 2), (0, 0)])
def test_parts_that_are_none_are_refused(part):
    with pytest.raises(OptionError, match="number of a part"):
        ipc.connect("dissociated+tcp://h:1?want_data=1&ticket=t", part=part)


def test_a_function_has_no_parts():
    import contextlib

    from spark_arrow_ipc.ipc.dissociated.messages import Table

    with ipc.open(TABLES["file"]) as reader:
        batches = list(reader)
    with ipc.serve({"t": lambda: contextlib.nullcontext(Table(batches[0].schema, batches))}, parts=2) as server:
        assert "want_part" not in server.uri_of("t")
        assert "of=" not in server.uri_of("t")
        with ipc.connect(server.uri_of("t"), columns=["a"]) as reader:
            assert 28 == len(rows(reader))
        with pytest.raises(ConnectionError, match="no parts"):
            ipc.connect(server.uri, ticket="t", part=(0, 2))


def test_a_column_that_is_not_there_is_an_error_and_a_table_that_changes_too(tmp_path):
    path = tmp_path / "x.arrow"
    path.write_bytes(TABLES["file"])

    def replaces(_):
        (tmp_path / "y").write_bytes(encoded([NUMBERS[0].rename_columns(["a", "c"])], "file"))
        (tmp_path / "y").rename(path)
        return ["b"]

    with ipc.serve({"t": path}) as server:
        with pytest.raises(ColumnNotFoundError, match="'z'"):
            ipc.connect(server.uri_of("t"), columns=["z"])
        with pytest.raises(InvalidMetadataError, match="read it again"):
            ipc.connect(server.uri_of("t"), columns=replaces)
        location = parse_location(server.uri)
        toy = ToyClient((location.host, location.port), location.want_part, Selection(columns=(7,)).encode(b"t"))
        with pytest.raises(ConnectionError, match="could not be read"):
            toy.read()
        toy.close()


def test_shared_memory_refuses_columns_which_its_clients_select(tmp_path):
    with ipc.serve({"t": TABLES["file"]}, f"dissociated+unix://{tmp_path}/s", shared_memory="memfd") as server:
        location = parse_location(server.uri)
        toy = ToyClient(location.path, location.want_part, Selection(columns=(0,)).encode(b"t"))
        with pytest.raises(ConnectionError, match="could not be read"):
            toy.read()
        toy.socket.close()


def test_a_request_that_is_too_long_is_not_made(monkeypatch):
    """It has at most 64 KiB, as a ticket: the client selects columns then."""
    monkeypatch.setattr(connect, "_MAX_TICKET_NBYTES", 16)
    encode, asked = Selection.encode, []
    monkeypatch.setattr(Selection, "encode", lambda self, ticket: asked.append(self) or encode(self, ticket))
    with ipc.serve({"t": TABLES["file"]}) as server, ipc.connect(server.uri_of("t"), columns=["b"]) as reader:
        assert 28 == len(rows(reader))
    assert [SCHEMA_ALONE, Selection(columns=(1,))] == asked  # the second was only measured


def test_a_broken_request_is_answered():
    with ipc.serve({"t": TABLES["file"]}) as server:
        location = parse_location(server.uri)
        toy = ToyClient((location.host, location.port), location.want_part, b"short")
        assert "broke the protocol" in toy.frame()[2].decode()
        toy.close()
