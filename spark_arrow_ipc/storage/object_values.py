"""`parse_value`: convert the value of an option of an object store for the library (obstore), or refuse it in one sentence.

The library panics over some values, repeats others in its errors and fails at others after minutes. So each option
whose values have a form is checked before the library gets it. A value may be a secret in the wrong option: no error
repeats one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Final
from urllib.parse import SplitResult, urlsplit

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.storage.base import PREFIX

# Prefixes that the library accepts before the names of its options
_PREFIXES: Final = re.compile(r"^(aws|azure(_storage)?|google)_")

_WEB: Final = ("http", "https")
_PROXIES: Final = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")

_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")

# The library's words, in lower case
_FLAGS: Final = {
    **dict.fromkeys(("true", "1", "on", "yes", "y"), True),
    **dict.fromkeys(("false", "0", "off", "no", "n"), False),
}

_DURATION: Final = re.compile(
    r"(\d{1,9}(\.\d{1,9})?)\s*(nsec|ns|usec|us|msec|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|hr|h|days?|d)?"
)
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_MOST_SECONDS: Final = 365 * 86_400.0


def parse_value(name: str, value: str) -> str | bool | int | timedelta:
    """Convert the value of an option for the library; `name` has no prefix."""
    rule = _RULES.get(_PREFIXES.sub("", name.lower()))
    if rule is None:
        return value
    expected, convert = rule
    try:
        return convert(value)
    except ValueError as error:
        raise OptionError(f"the option {PREFIX}{name} {error if error.args else f'must be {expected}'}") from None


def check_endpoint(name: str, value: str) -> None:
    """Raise if an environment variable for the address of a server has another value."""
    try:
        _web_address(value)
    except ValueError as error:
        expected = _RULES["endpoint"][0]
        raise OptionError(f"the variable {name} {error if error.args else f'must be {expected}'}") from None


def _web_address(value: str) -> str:
    address = _address(value, _WEB)
    if address.username is not None or address.password is not None:
        raise ValueError(
            "holds a user or a password before @, and it is shown in errors and logs; give credentials by options of "
            "their own, or leave them to the machine"
        )
    if address.query or address.fragment or "?" in value or "#" in value:
        raise ValueError("has a query (?...) or a fragment (#...), which no server's address has; remove it")
    return value


def _proxy(value: str) -> str:
    _address(value, _PROXIES)
    return value


def _address(value: str, schemes: tuple[str, ...]) -> SplitResult:
    """Return the parts of a URL with a host, or raise a ValueError without text, which might repeat a secret."""
    try:
        address = urlsplit(value)
        port = address.port
        host = address.netloc.rpartition("@")[2].removesuffix(f":{port}")
    except ValueError:
        raise ValueError from None
    if address.scheme not in schemes or _HOST.fullmatch(host) is None or not value.isascii() or " " in value:
        raise ValueError
    return address


def _flag(value: str) -> bool:
    try:
        return _FLAGS[value.lower()]
    except KeyError:
        raise ValueError from None


def _number(value: str) -> int:
    # The library takes 32 bits; more digits than these are a mistake.
    if not (value.isascii() and value.isdecimal()) or len(value) > 4:
        raise ValueError
    return int(value)


def _duration(value: str) -> timedelta:
    seconds, end = 0.0, 0
    text = value.strip()
    for end, part in _parts(text):  # noqa: B007 - the end of the last part
        seconds += part
    if not text or end != len(text) or seconds > _MOST_SECONDS:
        raise ValueError
    return timedelta(seconds=seconds)


def _parts(text: str) -> Iterator[tuple[int, float]]:
    """Yield the end of each part of a duration such as ``1m 30s``, and its seconds."""
    position = 0
    while (match := _DURATION.match(text, position)) is not None:
        unit = match[3] or "s"
        factor = _UNITS[unit[:2]] if unit[:2] in {"ns", "us", "ms"} else _UNITS["ms" if unit == "msec" else unit[0]]
        position = match.end()
        yield position, float(match[1]) * factor
        while text[position : position + 1] == " ":
            position += 1


def _matching(pattern: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if re.fullmatch(pattern, value, re.ASCII) is None:
            raise ValueError
        return value

    return check


_ENDPOINT: Final = "a URL: write http://minio:9000 or https://minio:9000, with the name and the port of your server"
_RULE = tuple[str, Callable[[str], str | bool | int | timedelta]]

# By the option's name: a description of its values, and a function that converts one or raises ValueError
_RULES: Final[Mapping[str, _RULE]] = {
    **dict.fromkeys(
        (
            "authority_host", "base_url", "container_credentials_full_uri", "endpoint", "endpoint_url", "endpoint_url_s3",
            "fabric_token_service_url", "identity_endpoint", "metadata_endpoint", "msi_endpoint",
        ),
        (_ENDPOINT, _web_address),
    ),
    "proxy_url": ("the URL of a proxy: write http://proxy:3128, with the name and the port of yours", _proxy),
    **dict.fromkeys(
        ("allow_http", "allow_invalid_certificates", "http1_only", "http2_only", "randomize_addresses"),
        ("true or false", _flag),
    ),
    **dict.fromkeys(
        (
            "disable_bulk_delete", "disable_tagging", "imdsv1_fallback", "request_payer", "s3_express", "skip_signature",
            "sse_bucket_key_enabled", "unsigned_payload", "use_azure_cli", "use_emulator", "use_fabric_endpoint",
            "virtual_hosted_style_request",
        ),
        ("true or false", lambda value: str(_flag(value)).lower()),
    ),
    **dict.fromkeys(
        ("connect_timeout", "pool_idle_timeout", "read_timeout", "retry_timeout", "timeout"),
        ("a number of seconds, or one with a unit of ms, s, m or h", _duration),
    ),
    "max_retries": ("a whole number below 10,000", _number),
    "pool_max_idle_per_host": ("a whole number below 10,000", lambda value: str(_number(value))),
    **dict.fromkeys(
        ("default_region", "region"),
        ("the name of a region, such as eu-central-1", _matching(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")),
    ),
    "checksum_algorithm": ("sha256 or crc64nvme", _matching(r"(?i:sha256|crc64nvme)")),
    "conditional_put": ("etag or disabled", _matching(r"etag|disabled")),
    "copy_if_not_exists": (
        "multipart, header:NAME:VALUE or header-with-status:NAME:VALUE:STATUS",
        _matching(r"multipart|header:[^:]+:[^:]+|header-with-status:[^:]+:[^:]+:\d{3}"),
    ),
    "server_side_encryption": ("AES256, aws:kms, aws:kms:dsse or sse-c", _matching(r"AES256|aws:kms(:dsse)?|sse-c")),
}  # fmt: skip
