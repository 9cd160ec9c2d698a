"""`connect`: a connection to a bucket from its URL, the options ``storage.*`` and the environment of the machine.

The library (obstore) defines the options and checks them; the error of a misspelt one suggests the right one.
Credentials come, in this order, from the options, the environment, a profile of ``~/.aws`` or a single sign-on (by
boto3, if it is installed), or the role of the machine. Every machine uses its own: only options travel from the driver.
Errors hold no value of an option, which may be a secret.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.storage.base import PREFIX, StorageOptions, one_line, unknown_option
from spark_arrow_ipc.storage.object_reach import address_of, check_reachable
from spark_arrow_ipc.storage.object_values import check_endpoint, parse_value
from spark_arrow_ipc.storage.paths import StoreKind, kind_of, split_url

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_INSTALL: Final = "paths of object stores need the package obstore: pip install 'spark-arrow-ipc[cloud]'"

# Names for suggestions; the library accepts more (``aws_`` and ``azure_`` before each, old names), and decides
_STORE_OPTIONS: Final[Mapping[StoreKind, str]] = {
    StoreKind.S3: """access_key_id allow_http checksum_algorithm conditional_put container_authorization_token_file
        container_credentials_full_uri container_credentials_relative_uri copy_if_not_exists default_region
        disable_bulk_delete disable_tagging endpoint imdsv1_fallback metadata_endpoint region request_payer role_arn
        role_session_name s3_express secret_access_key server_side_encryption session_token skip_signature
        sse_bucket_key_enabled sse_customer_key_base64 sse_kms_key_id unsigned_payload
        virtual_hosted_style_request web_identity_token_file""",
    StoreKind.GCS: "application_credentials base_url bearer_token service_account service_account_key skip_signature",
    StoreKind.AZURE: """account_key account_name authority_host client_id client_secret credential_type disable_tagging
        encryption_key endpoint fabric_cluster_identifier fabric_session_token fabric_token_service_url
        fabric_workload_host federated_token_file msi_endpoint msi_resource_id object_id sas_key skip_signature
        tenant_id token use_azure_cli use_emulator use_fabric_endpoint""",
    StoreKind.HTTP: "",
    StoreKind.MEMORY: "",
}

_CLIENT_OPTIONS: Final = frozenset((
    "allow_http", "allow_invalid_certificates", "connect_timeout", "http1_only", "http2_only", "pool_idle_timeout",
    "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url", "randomize_addresses",
    "read_timeout", "root_certificate", "timeout", "user_agent",
))  # fmt: skip
_ENDPOINTS: Final[Mapping[StoreKind, tuple[str, ...]]] = {
    StoreKind.S3: ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    StoreKind.GCS: ("GOOGLE_BASE_URL",),
    StoreKind.AZURE: ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    StoreKind.HTTP: (),
    StoreKind.MEMORY: (),
}
# Variables that the library ignores if it gets any option of the client
_ALLOW_HTTP: Final = ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP")

# Options whose values may have several lines; in others a line break makes the library fail
_LINES: Final = re.compile(r"certificate|service_account")

_RETRY_OPTIONS: Final = frozenset(("max_retries", "retry_timeout"))
_PROFILE: Final = "profile"

# Time-out of a request that copies an object inside the store: 30 s are too short for a gigabyte.
_COPY_TIMEOUT: Final = timedelta(minutes=10)

# The library's default
_MAX_RETRIES: Final = 10

# Address of the service with the credentials of a cloud machine's role
_METADATA_ADDRESS: Final = ("169.254.169.254", 80)

_METADATA_SECONDS: Final = 1.0

# Environment variables with credentials, so that the library does not need the machine's role
_S3_FINDS: Final = (
    "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip

# Options with credentials or their location; broad, as the library decides in the end
_OTHERS_GIVE: Final = {
    StoreKind.GCS: re.compile(r"service_account|credential|token|skip_signature"),
    StoreKind.AZURE: re.compile(r"key|token|client|credential|sas|msi|azure_cli|emulator|fabric|skip_signature"),
}

# Prefixes of environment variables with credentials or their location
_OTHERS_FIND: Final = {
    StoreKind.GCS: re.compile(r"GOOGLE_|GCE_METADATA|SERVICE_ACCOUNT"),
    StoreKind.AZURE: re.compile(r"AZURE_|IDENTITY_|MSI_"),
}

_GCLOUD_FILE: Final = "~/.config/gcloud/application_default_credentials.json"

_REMEDY: Final = {
    StoreKind.S3: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY on every machine, give storage.access_key_id and "
    "storage.secret_access_key or storage.profile (with boto3)",
    StoreKind.GCS: "set GOOGLE_APPLICATION_CREDENTIALS on every machine, give storage.application_credentials or "
    "storage.service_account",
    StoreKind.AZURE: "set AZURE_STORAGE_ACCOUNT_KEY on every machine, give storage.account_key or storage.sas_key",
}


@dataclass(frozen=True, slots=True)
class _Groups:
    """The options by their consumer in the library."""

    store: dict[str, str]
    client: dict[str, Any]
    retry: dict[str, Any]
    profile: str | None


def load_obstore() -> Any:
    """Import obstore."""
    try:
        import obstore
    except ImportError as error:
        raise UnsupportedError(_INSTALL) from error
    return obstore


def repetitions(options: StorageOptions) -> int:
    """Return the most repetitions of a request."""
    return int(dict(options).get("max_retries", _MAX_RETRIES))


def connect(path: str, options: StorageOptions, *, copies: bool = False) -> ObjectStore:
    """Return the library's store of the bucket of a path; only without credentials, this makes a request, for a role."""
    load_obstore()
    from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

    root, kind = split_url(path)[0], kind_of(path)
    groups = _group(options, kind)
    if copies:  # `copy_with_repeats` repeats them itself
        # A copy answers when all bytes are copied.
        groups.client["timeout"] = _COPY_TIMEOUT
        groups.retry["max_retries"] = 0
    if kind is StoreKind.MEMORY:
        _check(not options, options, kind)
        return MemoryStore()
    if kind is StoreKind.HTTP:
        return _web_server(path, root, groups, options)
    cls: Any = {StoreKind.S3: S3Store, StoreKind.GCS: GCSStore, StoreKind.AZURE: AzureStore}[kind]
    arguments: dict[str, Any] = {"client_options": groups.client, "retry_config": groups.retry}

    def make() -> ObjectStore:
        store_of_url: ObjectStore = cls.from_url(root, config=groups.store, **arguments)
        return store_of_url

    address = address_of(groups.store, _ENDPOINTS[kind])
    if address is not None:
        _make_store(make, options, kind)  # first, as it finds misspelt options
        check_reachable(*address, path, groups.client, repetitions(options))
    if kind is not StoreKind.S3:
        store = _make_store(make, options, kind)
        if not _others_know(groups.store, kind):
            _check_role(kind)
        return store
    region = _first_of_environment(("AWS_REGION", "AWS_DEFAULT_REGION"))
    if region and not _has_any(groups.store, "region", "default_region"):
        groups.store["region"] = region
    store = _make_store(make, options, kind)  # first, as it finds misspelt options
    provider = _credential_provider(groups)
    if provider is None:
        return store
    arguments["credential_provider"] = provider
    return _make_store(make, options, kind)


def _web_server(path: str, root: str, groups: _Groups, options: StorageOptions) -> ObjectStore:
    from obstore.store import HTTPStore

    _check(not groups.store, tuple(groups.store.items()), StoreKind.HTTP)
    if root.startswith("http:"):
        groups.client.setdefault("allow_http", True)
    check_reachable(root, "", path, groups.client, repetitions(options))
    make: Any = HTTPStore
    return _make_store(
        lambda: cast("ObjectStore", make(root, client_options=groups.client, retry_config=groups.retry)),
        options,
        StoreKind.HTTP,
    )


def _group(options: StorageOptions, kind: StoreKind) -> _Groups:
    groups = _Groups({}, {}, {}, dict(options).get(_PROFILE))
    if groups.profile is not None and kind is not StoreKind.S3:
        raise OptionError(f"the option {PREFIX}{_PROFILE} names a profile of ~/.aws, and the path is of {kind.value}")
    for name, value in options:
        # A line break comes from a copied secret, and makes the library panic.
        if not value.isprintable() and _LINES.search(name) is None:
            raise OptionError(f"the option {PREFIX}{name} holds a line break or another character that is not printed")
        for_library: Any = parse_value(name, value)
        if name in _CLIENT_OPTIONS:
            groups.client[name] = for_library
        elif name in _RETRY_OPTIONS:
            groups.retry[name] = for_library
        elif name != _PROFILE:
            groups.store[name] = for_library
    for variable in _ENDPOINTS[kind]:
        if os.environ.get(variable):
            check_endpoint(variable, os.environ[variable])
    address = address_of(groups.store, _ENDPOINTS[kind])
    if (address is not None and address[0].startswith("http:")) or _first_of_environment(_ALLOW_HTTP) == "true":
        groups.client.setdefault("allow_http", True)  # an address with http: is a choice
    return groups


def _first_of_environment(names: Sequence[str]) -> str:
    """Return the first variable that is set, or an empty string."""
    return next(filter(None, map(os.environ.get, names)), "")


def _credential_provider(groups: _Groups) -> Any:
    """Return boto3's provider if boto3 has credentials and the library would find none, or None."""
    if groups.profile is None and (
        _has_any(groups.store, "access_key_id", "skip_signature", "web_identity_token_file")
        or _has_any(groups.store, "container_credentials_relative_uri", "container_credentials_full_uri")
        or any(map(os.environ.get, _S3_FINDS))
        or os.environ.get("AWS_SKIP_SIGNATURE", "").lower() == "true"
    ):
        return None
    wants_profile = groups.profile or os.environ.get("AWS_PROFILE")
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        if wants_profile:
            raise UnsupportedError("a profile of ~/.aws is read by boto3: pip install boto3") from error
    else:
        from botocore.exceptions import BotoCoreError

        with suppress(BotoCoreError, ValueError, OSError):
            session = boto3.Session(profile_name=groups.profile)
            # The library asks for a role faster than boto3.
            session._session.get_component("credential_provider").remove("iam-role")  # noqa: SLF001 - no public way
            if session.get_credentials() is not None:
                return Boto3CredentialProvider(session)
        if wants_profile:
            raise OptionError(
                f"the profile that {f'{PREFIX}{_PROFILE}' if groups.profile else 'AWS_PROFILE'} names is not in "
                "~/.aws/config or ~/.aws/credentials of this machine, or has no credentials"
            )
    _check_role(StoreKind.S3)
    return None


def _others_know(store: Mapping[str, str], kind: StoreKind) -> bool:
    """Return True if options, the environment or a file name credentials of Google or Azure."""
    return (
        any(map(_OTHERS_GIVE[kind].search, store))
        or any(map(_OTHERS_FIND[kind].match, os.environ))
        or (kind is StoreKind.GCS and os.path.exists(os.path.expanduser(_GCLOUD_FILE)))
    )


def _check_role(kind: StoreKind) -> None:
    """Raise unless the service with the role of a cloud machine answers."""
    # Without it the library would try for minutes.
    if (kind is StoreKind.S3 and os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true") or not _has_role():
        raise OptionError(
            f"no credentials for {kind.value} were found: {_REMEDY[kind]}, give the machines a role, or "
            f"{PREFIX}skip_signature=true for a public bucket"
        )


def _has_role() -> bool:
    """Return True if the service with the role of a cloud machine answers within a second."""
    try:
        socket.create_connection(_METADATA_ADDRESS, timeout=_METADATA_SECONDS).close()
    except OSError:
        return False
    return True


def _has_any(store: Mapping[str, str], *names: str) -> bool:
    return any(name in store or f"aws_{name}" in store for name in names)


def _check(holds: bool, options: StorageOptions, kind: StoreKind) -> None:
    if not holds:
        raise _unknown(options[0][0], kind)


def _make_store(make: Callable[[], ObjectStore], options: StorageOptions, kind: StoreKind) -> ObjectStore:
    from obstore.exceptions import BaseError, UnknownConfigurationKeyError

    try:
        return make()
    except UnknownConfigurationKeyError as error:
        names = re.findall(r"[A-Za-z0-9_]+", str(error))
        wrong = next((name for name, _ in options if name in names), options[0][0] if options else "")
        raise _unknown(wrong, kind) from None
    except (BaseError, ValueError, TypeError) as error:
        text = str(error).partition("\n")[0]
        raise OptionError(f"the options {PREFIX}* do not make a connection: {one_line(text, options)}") from None


def _unknown(name: str, kind: StoreKind) -> OptionError:
    names = [*_STORE_OPTIONS[kind].split(), *_CLIENT_OPTIONS, *_RETRY_OPTIONS]
    names += [_PROFILE] if kind is StoreKind.S3 else []
    return unknown_option(name, names, kind.value, '"Object stores" in the documentation lists them')
