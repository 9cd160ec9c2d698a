"""Flight says where tables are: one server or two, one stream or many."""

import sys

import pytest
from small_files import small_files

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import InvalidMetadataError, OptionError, UnsupportedError
from spark_arrow_ipc.ipc.dissociated.flight import FlightStream, is_flight

pa = pytest.importorskip("pyarrow")
flight = pytest.importorskip("pyarrow.flight")

DATA = small_files()["int.arrow"]


@pytest.fixture(scope="module")
def servers():
    """A server of tables, and one of Flight that knows them."""
    with ipc.serve({"t": DATA}) as tables:
        ways = {
            b"one": [("t", [tables.uri])],
            b"halves": [("t", list(tables.split_uris))],
            b"replicas": [("t", ["ucx://127.0.0.1:1?want_data=1", tables.uri, tables.uri])],
            b"several": [("t", [tables.uri]), ("t", [tables.uri])],
            b"none": [],
            b"nowhere": [("t", [])],
            b"ucx": [("t", ["ucx://127.0.0.1:1?want_data=1", "ucx://127.0.0.1:1?want_data=2"])],
            b"no want_data": [("t", ["dissociated+tcp://127.0.0.1:1"])],
        }

        class Server(flight.FlightServerBase):
            def get_flight_info(self, context, descriptor):
                if descriptor.command not in ways:
                    raise KeyError("no such\ncommand")
                endpoints = [flight.FlightEndpoint(ticket.encode(), uris) for ticket, uris in ways[descriptor.command]]
                return flight.FlightInfo(pa.schema([]), descriptor, endpoints, -1, -1)

        with Server("grpc://127.0.0.1:0") as server:
            yield tables, f"grpc://127.0.0.1:{server.port}"


@pytest.mark.parametrize("command", ["one", "halves", "replicas"])
def test_a_table_is_found_and_read(servers, command):
    _, uri = servers
    with ipc.open(DATA) as file, ipc.connect(uri, ticket=command) as reader:
        assert [b.to_pylist() for b in file] == [b.to_pylist() for b in reader]


def test_streams_are_found_one_by_one(servers):
    tables, uri = servers
    assert (FlightStream((tables.uri,), b"t"),) * 2 == ipc.find_streams(uri, "several")
    assert (FlightStream(tables.split_uris, b"t"),) == ipc.find_streams(uri, b"halves")


REFUSED = [
    ("several", OptionError, r"one stream, found 2.*find_streams"),
    ("none", OptionError, "one stream, found 0"),
    ("nowhere", InvalidMetadataError, "a location in endpoint 0"),
    ("ucx", UnsupportedError, "ucx:"),
    ("no want_data", OptionError, "want_data"),
    ("unknown", ConnectionError, r"GetFlightInfo: .no such"),
]


@pytest.mark.parametrize(("command", "error", "words"), REFUSED, ids=[c[0] for c in REFUSED])
def test_what_cannot_be_read_is_refused(servers, command, error, words):
    with pytest.raises(error, match=words):
        ipc.connect(servers[1], ticket=command)


def test_no_server_is_an_error_in_time():
    with pytest.raises(OSError, match=r"grpc://127\.0\.0\.1:1"):
        ipc.find_streams("grpc://127.0.0.1:1", "t", timeout=2)


def test_without_pyarrow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UnsupportedError, match=r"spark-arrow-ipc\[flight\]"):
        ipc.find_streams("grpc://127.0.0.1:1", "t")


def test_schemes_are_told_apart():
    assert [True, True, False, False] == [
        is_flight(u) for u in ("grpc://h:1", "GRPC+TLS://h:1", "dissociated+tcp://h:1", "x")
    ]
