"""Find the locations and tickets of tables of Dissociated IPC by Arrow Flight.

Only ``GetFlightInfo`` is called; schemas and rows come from the servers in its answer. Needs pyarrow, of the extra
``flight``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidMetadataError,
    OptionError,
    UnsupportedError,
    error_context,
    has_url_user,
    printable,
)
from spark_arrow_ipc.ipc.dissociated.location import parse_location

_SCHEMES: Final = ("grpc", "grpc+tcp", "grpc+tls", "grpc+unix")
_MAX_ENDPOINTS: Final = 100_000
_SPEC: Final = 'Dissociated IPC, "URI Specification"'


@dataclass(frozen=True, slots=True)
class FlightStream:
    """A stream of a flight, for `connect`.

    Parameters
    ----------
    uris
        One, or two: of metadata and of bodies.
    ticket
        The name of the table.
    """

    uris: tuple[str, ...]
    ticket: bytes


def is_flight(uri: str) -> bool:
    """Return True for the URI of a Flight server."""
    return uri.partition("://")[0].lower() in _SCHEMES


def find_streams(uri: str, command: str | bytes, *, timeout: float = 30.0) -> tuple[FlightStream, ...]:
    """Return the streams of a command from a Flight server, which can be read in parallel.

    Parameters
    ----------
    uri
        ``grpc://host:port``, or ``grpc+tls:``, ``grpc+unix:``.
    command
        The server's name of a table.
    timeout
        Seconds for the answer.

    Raises
    ------
    UnsupportedError
        pyarrow is not installed, or a location is of another transport.
    InvalidMetadataError
        An endpoint has no location.
    ConnectionError, TimeoutError
        The server does not run, refuses, or does not answer in time.
    """
    address = uri.partition("?")[0]
    if has_url_user(address) or "@" in urlsplit(address).netloc:
        raise OptionError(
            "the URI of a Flight server holds a user or a password before @, and URIs are shown in errors and logs; remove it"
        )
    try:
        from pyarrow import flight
    except ImportError as error:
        raise UnsupportedError(
            f"a table of a Flight server needs pyarrow.flight ({error}); run: pip install 'spark-arrow-ipc[flight]'"
        ) from error
    descriptor = flight.FlightDescriptor.for_command(command)
    try:
        with flight.FlightClient(uri) as client:
            info = client.get_flight_info(descriptor, flight.FlightCallOptions(timeout=timeout))
    except flight.FlightTimedOutError as error:
        raise TimeoutError(f"{address}: no answer in {timeout:g} s") from error
    except Exception as error:  # Flight's errors have no base class
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConnectionError(f"{address}: GetFlightInfo: {printable(line)}") from error
    endpoints = info.endpoints
    if len(endpoints) > _MAX_ENDPOINTS:
        raise InvalidMetadataError(
            expected=f"at most {_MAX_ENDPOINTS:,} endpoints", found=f"{len(endpoints):,}", path=address
        )
    with error_context(path=address):
        uris = [[bytes(each.uri).decode(errors="replace") for each in endpoint.locations] for endpoint in endpoints]
        return tuple(
            FlightStream(_choose(number, uris[number]), bytes(endpoint.ticket.ticket))
            for number, endpoint in enumerate(endpoints)
        )


def _choose(number: int, uris: Sequence[str]) -> tuple[str, ...]:
    """Return the URIs to connect to."""
    # Locations of an endpoint are alternatives in Flight; in the protocol's reference, two of different tags are of
    # metadata and of bodies.
    if not uris:
        raise InvalidMetadataError(expected=f"a location in endpoint {number}", found="none", spec=_SPEC)
    located, errors = [], []
    for uri in uris:
        try:
            located.append((uri, parse_location(uri)))
        except ArrowIpcError as error:
            errors.append(error)
    if not located:
        raise errors[0]
    if len(located) == 2 == len(uris) and located[0][1].want_data != located[1][1].want_data:
        return tuple(uri for uri, _ in located)
    return (located[0][0],)
