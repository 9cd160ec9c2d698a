"""Servers: what they serve, where they listen, and that they go."""

import contextlib
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import corpus
import polars as pl
import pyarrow as pa
import pytest
from dissociated_peers import ToyClient
from small_files import small_files

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ArrowIpcError, InvalidMetadataError, OptionError
from spark_arrow_ipc.ipc.dissociated.location import parse_location
from spark_arrow_ipc.ipc.dissociated.messages import Table

FILES = small_files()
WAYS = [("tcp", None), ("unix", None), ("unix", "memfd"), ("unix", "named"), ("tcp", "named")]


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def segment_of(server):
    return Path(server._region.handle.path)


@pytest.fixture(scope="module", params=WAYS, ids=[f"{scheme}-{memory}" for scheme, memory in WAYS])
def server(request, tmp_path_factory):
    scheme, memory = request.param
    listen = "dissociated+tcp://127.0.0.1:0"
    if scheme == "unix":
        listen = f"dissociated+unix://{tmp_path_factory.mktemp('s')}/s"
    with ipc.serve(FILES, listen, shared_memory=memory) as made:
        yield made


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("halves", [False, True], ids=["one", "two"])
def test_files_of_every_type_are_what_they_are_on_disk(server, halves):
    uri = server.split_uris if halves else server.uri
    for name, data in FILES.items():
        with ipc.open(data) as file, ipc.connect(uri, ticket=name) as reader:
            assert file.schema == reader.schema, name
            for expected, found in zip(file, reader, strict=True):
                assert expected.to_pylist() == found.to_pylist(), name
                assert expected.custom_metadata == found.custom_metadata, name


@pytest.mark.parametrize("name", FILES)
def test_a_client_written_from_the_document_gives_pyarrow_the_same(name):
    with ipc.serve({name: FILES[name]}) as server:
        location = parse_location(server.uri)
        toy = ToyClient((location.host, location.port), location.want_data, name.encode())
        found = pa.ipc.open_stream(toy.stream()).read_all()
        toy.close()
    assert pa.ipc.open_file(FILES[name]).read_all().equals(found)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_bodies_may_be_compressed(compression):
    data = FILES["int64.lz4.arrow"]
    with (
        ipc.serve({"t": data}, options=ipc.WriteOptions(compression=compression)) as server,
        ipc.open(data) as file,
        ipc.connect(server.uri_of("t")) as reader,
    ):
        assert [b.to_pylist() for b in file] == [b.to_pylist() for b in reader]


def dictionaries():
    sink = pa.BufferOutputStream()
    kind = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([("d", kind)])
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as writer:
        for rows in (["a"], ["a", "b"], ["c", None], ["c"]):
            writer.write_batch(pa.record_batch([pa.array(rows).dictionary_encode().cast(kind)], schema=schema))
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("how", ["unify", "delta"])
@pytest.mark.parametrize("memory", [None, "named"])
def test_dictionaries_grow_and_are_replaced(how, memory):
    data = dictionaries()
    options = ipc.WriteOptions(format="stream", dictionaries=how)
    with (
        ipc.serve({"t": data}, options=options, shared_memory=memory) as server,
        ipc.open(data) as stream,
        ipc.connect(server.uri_of("t")) as reader,
    ):
        assert [b.to_pylist() for b in stream] == [b.to_pylist() for b in reader]


def test_paths_and_batches_and_functions_are_served(tmp_path):
    path = tmp_path / "x.arrow"
    path.write_bytes(FILES["int.arrow"])
    with ipc.open(path) as reader:
        batches = list(reader)

    @contextlib.contextmanager
    def opens():
        yield Table(batches[0].schema, batches)

    with ipc.serve({"path": path, b"batches": batches, "function": opens}) as server:
        assert (b"path", b"batches", b"function") == server.tickets
        for ticket in server.tickets:
            for _ in range(2):
                with ipc.connect(server.uri_of(ticket)) as reader:
                    assert [b.to_pylist() for b in batches] == [b.to_pylist() for b in reader]
        with pytest.raises(KeyError):
            server.uri_of("other")


REFUSED = [
    ("another host without a token", {"listen": "dissociated+tcp://0.0.0.0:0"}, OptionError, "a token"),
    ("descriptors over tcp", {"shared_memory": "memfd"}, OptionError, "only such a socket passes descriptors"),
    ("compression in shared memory", {"shared_memory": "named", "options": ipc.WriteOptions(compression="lz4")},
     OptionError, "leave it or shared_memory out"),
    ("no batches", {"tables": {"t": []}}, OptionError, "at least one record batch"),
    ("no memory of the kind", {"shared_memory": "cuda"}, ValueError, "cuda"),
    ("no file", {"tables": {"t": "/none/such"}, "shared_memory": "named"}, FileNotFoundError, "none"),
    ("a broken file", {"tables": {"t": FILES["int.arrow"][:-20]}, "shared_memory": "named"}, ArrowIpcError, "truncated"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "error", "words"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_cannot_be_served_is_refused_and_leaves_nothing(given, error, words):
    before = descriptors()
    with pytest.raises(error, match=words):
        ipc.serve(given.pop("tables", {"t": FILES["int.arrow"]}), **given)
    assert before == descriptors()


def test_another_host_is_served_with_a_token():
    with ipc.serve({"t": FILES["int.arrow"]}, "dissociated+tcp://0.0.0.0:0", token="t") as server:
        uri = server.uri_of("t").replace("0.0.0.0", "127.0.0.1")
        with ipc.connect(uri, token="t") as reader:
            assert 1 == len(list(reader))


def test_a_socket_is_its_users_alone_and_goes_with_its_server(tmp_path):
    path = tmp_path / "s"
    listen = f"dissociated+unix://{path}"
    with ipc.serve({"t": FILES["int.arrow"]}, listen) as server:
        assert 0o600 == path.stat().st_mode & 0o777
        with pytest.raises(OSError, match="in use"):
            ipc.serve({"t": FILES["int.arrow"]}, listen)
        assert path.exists()
        assert "1 tables" in repr(server)
    assert not path.exists()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with ipc.serve({"t": FILES["int.arrow"]}, listen):
        assert path.exists()


def test_a_socket_takes_no_files_place(tmp_path):
    path = tmp_path / "data"
    path.write_text("precious")
    with pytest.raises(OSError, match="in use"):
        ipc.serve({"t": FILES["int.arrow"]}, f"dissociated+unix://{path}")
    assert "precious" == path.read_text()


def test_too_many_clients_are_told(tmp_path):
    with ipc.serve({"t": FILES["int.arrow"]}, max_clients=1) as server, ipc.connect(server.uri_of("t")) as reader:
        with pytest.raises(ConnectionError, match="all the clients"):
            ipc.connect(server.uri_of("t"))
        assert 1 == len(list(reader))


def test_closing_ends_connections_and_keeps_what_clients_have():
    with ipc.serve({"t": FILES["utf8_binary.arrow"]}, shared_memory="named") as server:
        segment = segment_of(server)
        assert 0o400 == segment.stat().st_mode & 0o777
        reader = ipc.connect(server.uri_of("t"))
        batch = next(reader)
    server.close()
    server.wait()
    assert not segment.exists()
    assert 3 == len(batch.to_pylist())
    reader.close()
    with pytest.raises(ConnectionError):
        ipc.connect(server.uri_of("t"))


CLIENT = """
import os, signal, sys
from spark_arrow_ipc import ipc
kept = [batch for uri in sys.argv[1:] for batch in ipc.connect(uri)]
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.exhaustive
def test_killed_clients_leave_nothing(tmp_path):
    import time

    root = Path(__file__).parents[3]
    listen = f"dissociated+unix://{tmp_path}/s"
    with ipc.serve(FILES, listen, shared_memory="memfd") as first, ipc.serve(FILES, shared_memory="named") as second:
        uris = [server.uri_of("int.arrow") for server in (first, second)]
        for _ in range(3):
            assert -9 == subprocess.run([sys.executable, "-c", CLIENT, *uris], cwd=root).returncode
        deadline = time.monotonic() + 120
        while first.num_clients or second.num_clients:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert (0, 0) == (first.nbytes_in_use, second.nbytes_in_use)
        for uri in uris:  # both serve on
            with ipc.connect(uri) as reader:
                assert 1 == len(list(reader))
        segment = segment_of(second)
        assert segment.exists()
    assert not segment.exists()


# With each change once without shared memory and once with it; each takes half a minute.
EACH_CHANGE = ("tcp", None)
CORPUS_WAYS = [
    pytest.param(
        *way, marks=pytest.mark.exhaustive if way == EACH_CHANGE else pytest.mark.nightly, id=f"{way[0]}-{way[1]}"
    )
    for way in WAYS
]


@pytest.mark.skipif(corpus.root() is None, reason=f"{corpus.VARIABLE} names no corpus")
@pytest.mark.parametrize(("scheme", "memory"), CORPUS_WAYS)
def test_every_file_of_the_corpus_is_what_it_is_on_disk(tmp_path, scheme, memory):
    good = [e for e in corpus.entries(corpus.root()) if e.expect == "ok" and e.format in {"file", "stream"}]
    listen = "dissociated+tcp://127.0.0.1:0" if scheme == "tcp" else f"dissociated+unix://{tmp_path}/s"
    failures = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ipc.ConcatenatedStreamsWarning)
        with ipc.serve({e.name: e.path for e in good}, listen, shared_memory=memory) as server:
            for entry in good:
                with ipc.open(entry.path) as file, ipc.connect(server.uri, ticket=entry.name) as reader:
                    found = corpus.difference(file.schema, tuple(file), reader.schema, tuple(reader))
                if found is not None:
                    failures[entry.name] = found
    assert {} == failures


def test_a_file_without_the_schemas_message_has_no_metadata_of_it(monkeypatch):
    """Some writers leave it out, and the footer has the schema (the corpus has such files)."""

    def none(_):
        raise InvalidMetadataError(expected="a schema", found="a record batch")

    monkeypatch.setattr(ipc.FileReader, "read_schema_metadata", none)
    data = FILES["int.arrow"]
    with ipc.serve({"t": data}) as server, ipc.open(data) as file, ipc.connect(server.uri_of("t")) as reader:
        assert () == reader.custom_metadata
        assert [b.to_pylist() for b in file] == [b.to_pylist() for b in reader]


@pytest.mark.parametrize("memory", ["memfd", "named"])
def test_other_libraries_take_what_is_in_shared_memory(memory, tmp_path):
    """No buffer is copied on the way from the server, and the memory stays after the reader, and after the server."""
    table = pa.table({"n": pa.array(range(5000)), "s": pa.array(["some text"] * 5000)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    options = ipc.WriteOptions(compression=None)
    listen = f"dissociated+unix://{tmp_path}/s"
    with (
        ipc.serve({"t": sink.getvalue().to_pybytes()}, listen, shared_memory=memory, options=options) as server,
        ipc.connect(server.uri_of("t")) as reader,
    ):
        theirs = reader.to_pyarrow().read_all()
    regions = [line.split()[0] for line in Path("/proc/self/maps").read_text().splitlines() if "arrowipc" in line]
    places = [range(*(int(part, 16) for part in region.split("-"))) for region in regions]
    assert places
    for column in theirs.columns:
        buffers = [buffer for buffer in column.chunk(0).buffers() if buffer is not None]
        assert all(any(buffer.address in place for place in places) for buffer in buffers)
    assert table.equals(theirs)
    assert 5000 == pl.DataFrame(theirs).height
