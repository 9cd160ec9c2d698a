"""`check_reachable`: whether a server of one's own answers, before the library repeats requests to it for minutes; and the sentences.

The library repeats a request that found no server as often as one that a busy server refused, some two minutes by default.
A wrong address does not become right by that. So the first use of a store in a process asks its address whether anything
answers, a few seconds at most. Requests after it are repeated as they were: a server may be busy or start again.
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
_MOST_SECONDS: Final = 5.0
"""After so many no new try begins. One waits as long at most, unless the option connect_timeout says less."""

_CONNECT: Final = re.compile(r"kind: Connect\b")
"""The library's words for a request that was not sent, in the state that follows its text."""

_NO_SERVER: Final = re.compile(r"error sending request|builder error")

_ORIGIN: Final = re.compile(r"(https?://)(?:[^/\s@]*@)?([^/\s?]+)")

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
"""By words in the library's state: what is wrong with a connection."""


_reached: set[str] = set()
"""Servers that have answered this process."""


def no_connection(error: BaseException, where: str = "") -> str | None:
    """Return the sentence of a request for which no connection was made; None for every other error.

    Parameters
    ----------
    error
        The library's.
    where
        The option or variable that has the address.
    """
    text = str(error)
    if _CONNECT.search(text) is None or _NO_SERVER.search(text) is None:
        return None
    origin = _ORIGIN.search(text)
    reason = next(words for pattern, words in _REASONS if re.search(pattern, text) is not None)
    server = f"{origin[1]}{origin[2]}" if origin else "the store"
    return f"no connection to {server}: {reason.format(where=f' ({where})' if where else '')}"


def check_reachable(url: str, where: str, path: str, client: Mapping[str, Any], max_retries: int) -> None:
    """Raise if no connection to a server can be made; whatever it answers is an answer.

    One request without credentials, for the server's root, in a process.

    Parameters
    ----------
    url, where
        The address, and the option or variable that has it.
    path
        The path that is in errors.
    client
        The options of the library's client.
    max_retries
        How often a request is repeated at most.
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
    begun = time.monotonic()
    for number in range(1 + min(max_retries, _TRIES - 1)):
        if number:
            time.sleep(_PAUSE_SECONDS)
        try:
            head(store, "")
        except (BaseError, OSError) as error:
            sentence = no_connection(error, where)
        else:
            sentence = None
        if sentence is None:
            _reached.add(root)
            return
        if time.monotonic() - begun > _MOST_SECONDS:
            break
    raise OSError(errno.EIO, sentence, path)


def address_of(options: Mapping[str, str], variables: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the address of a server of one's own, and the option or variable that has it; None for those of a cloud."""
    for name, value in options.items():
        if re.fullmatch(
            r"(?i)((aws|azure|azure_storage|google)_)?(endpoint|endpoint_url|endpoint_url_s3|base_url)", name
        ):
            return value, f"storage.{name}"
    return next(((os.environ[name], name) for name in variables if os.environ.get(name)), None)
