"""`check_reachable`: check that a private server answers, before the library repeats requests to it for minutes.

The library repeats requests to an address without a server as it does to a busy server, some two minutes by default,
which does not help if the address is wrong. So the first use of a store in a process connects to its address, for a few
seconds at most. Later requests are repeated as before: a server may be busy or start again.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

_TRIES: Final = 3
_PAUSE_SECONDS: Final = 0.5
# Time for new tries, and for one try without a shorter connect_timeout
_MOST_SECONDS: Final = 5.0

# The library's words for a request that was not sent, in the state that follows its text
_CONNECT: Final = re.compile(r"kind: Connect\b")

_NO_SERVER: Final = re.compile(r"error sending request|builder error")

_ORIGIN: Final = re.compile(r"(https?://)(?:[^/\s@]*@)?([^/\s?]+)")

# By words in the library's state: the fault of a connection, the most special first
_REASONS: Final = (
    (r"dns error|failed to lookup", "there is no host of this name (DNS); check its spelling{where}, and the network"),
    (
        r"ConnectionRefused|Connection refused|code: 111",
        "nothing answers there: the connection was refused; check the host and the port{where}, and that the server runs",
    ),
    (
        r"InvalidCertificate|UnknownIssuer|invalid peer certificate|CertificateUnknown",
        "its certificate is not trusted here; give the one that signed it by storage.root_certificate",
    ),
    (
        r"InvalidContentType|InvalidMessage|HandshakeFailure|ProtocolVersion|PeerIncompatible",
        "it speaks no TLS that this machine understands; write http:// where it has none{where}",
    ),
    (r"TimedOut|timed out|deadline", "nothing answered in time; check the host and the port{where}, and the network"),
    (r"", "no connection could be made; check the host and the port{where}, and the network"),
)

# Servers that have answered this process
_reached: set[str] = set()


def no_connection(error: BaseException, where: str = "") -> str | None:
    """Describe a library's error without a connection, naming the option or variable of the address; None for others."""
    text = str(error)
    if _CONNECT.search(text) is None or _NO_SERVER.search(text) is None:
        return None
    origin = _ORIGIN.search(text)
    reason = next(words for pattern, words in _REASONS if re.search(pattern, text) is not None)
    server = f"{origin[1]}{origin[2]}" if origin else "the store"
    return f"no connection to {server}: {reason.format(where=f' ({where})' if where else '')}"


def check_reachable(url: str, where: str, path: str, client: Mapping[str, Any], max_retries: int) -> None:
    """Raise if no connection to a server can be made, by one request of this process for its root, without credentials.

    Parameters
    ----------
    url, where
        The address, and the option or variable with it.
    path
        The path in errors.
    client
        The options of the library's client.
    max_retries
        Most repetitions of a request.
    """
    parts = urlsplit(url)
    root = f"{parts.scheme}://{parts.netloc}"
    if root in _reached:
        return
    from obstore import head
    from obstore.exceptions import BaseError
    from obstore.store import HTTPStore

    limit = timedelta(seconds=_MOST_SECONDS)
    options = {"connect_timeout": limit, **client, "timeout": limit}
    make: Any = HTTPStore
    store = make(root, client_options=options, retry_config={"max_retries": 0})
    start = time.monotonic()
    for number in range(1 + min(max_retries, _TRIES - 1)):
        if number:
            # A server may be just starting.
            time.sleep(_PAUSE_SECONDS)
        try:
            head(store, "")
        except (BaseError, OSError) as error:
            # Any answer will do, a refusal too: it comes from a server.
            sentence = no_connection(error, where)
        else:
            sentence = None
        if sentence is None:
            _reached.add(root)
            return
        if time.monotonic() - start > _MOST_SECONDS:
            break
    raise OSError(errno.EIO, sentence, path)


def address_of(options: Mapping[str, str], variables: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the address of a private server, and the option or variable with it; None for a cloud's."""
    for name, value in options.items():
        if re.fullmatch(
            r"(?i)((aws|azure|azure_storage|google)_)?(endpoint|endpoint_url|endpoint_url_s3|base_url)", name
        ):
            return value, f"storage.{name}"
    return next(((os.environ[name], name) for name in variables if os.environ.get(name)), None)
