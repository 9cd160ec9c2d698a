"""Values of options are checked before the library gets them: it panics over some, and repeats others."""

from datetime import timedelta

import pytest

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.storage import object_options
from spark_arrow_ipc.storage.object_options import _CLIENT_OPTIONS, _STORE_OPTIONS, connect
from spark_arrow_ipc.storage.object_values import _RULES, check_endpoint, parse_value
from spark_arrow_ipc.storage.paths import StoreKind

SECRET = "hunter2-very-secret"
KEYS = (("access_key_id", "AKIDEXAMPLE"), ("secret_access_key", "wJalrXUtnFEMI"))
URL = "must be a URL: write http://minio:9000 or https://minio:9000"

WRONG = [
    # option, value, what the error says
    ("endpoint", "minio:9000", URL),
    ("endpoint", "minio", URL),
    ("endpoint", "http:/minio", URL),
    ("endpoint", "http://", URL),
    ("endpoint", "http://:9000", URL),
    ("endpoint", "http://minio:99999", URL),
    ("endpoint", "http://minio:port", URL),
    ("endpoint", "http://mi nio:9000", URL),
    ("endpoint", "http://mün.example", URL),
    ("endpoint", "unix:///socket", URL),
    ("endpoint", "http://[::1:9000", URL),
    ("endpoint", f"http://user:{SECRET}@minio:9000", "holds a user or a password before @"),
    ("endpoint", f"http://{SECRET}@minio:9000", "holds a user or a password before @"),
    ("endpoint", f"http://minio:9000?sig={SECRET}", "has a query"),
    ("endpoint", f"http://minio:9000#{SECRET}", "has a query"),
    ("aws_endpoint", "minio:9000", URL),
    ("endpoint_url", "minio:9000", URL),
    ("base_url", "minio:9000", URL),
    ("base_url", f"http://user:{SECRET}@minio:9000", "holds a user or a password before @"),
    ("metadata_endpoint", "169.254.169.254", URL),
    ("proxy_url", "proxy:3128", "must be the URL of a proxy: write http://proxy:3128"),
    ("proxy_url", SECRET, "must be the URL of a proxy"),
    ("region", "a b", "must be the name of a region, such as eu-central-1"),
    ("default_region", "http://x", "must be the name of a region"),
    ("timeout", SECRET, "must be a number of seconds, or one with a unit of ms, s, m or h"),
    ("connect_timeout", "5 parsecs", "must be a number of seconds"),
    ("read_timeout", "-5s", "must be a number of seconds"),
    ("pool_idle_timeout", "", "must be a number of seconds"),
    ("retry_timeout", "9999999999999s", "must be a number of seconds"),
    ("retry_timeout", "999999999d", "must be a number of seconds"),
    ("max_retries", "-1", "must be a whole number below 10,000"),
    ("max_retries", "٣", "must be a whole number below 10,000"),
    ("pool_max_idle_per_host", "many", "must be a whole number below 10,000"),
    ("allow_http", "maybe", "must be true or false"),
    ("skip_signature", SECRET, "must be true or false"),
    ("aws_skip_signature", SECRET, "must be true or false"),
    ("virtual_hosted_style_request", "2", "must be true or false"),
    ("checksum_algorithm", SECRET, "must be sha256 or crc64nvme"),
    ("conditional_put", SECRET, "must be etag or disabled"),
    ("copy_if_not_exists", SECRET, "must be multipart, header:NAME:VALUE or"),
    ("server_side_encryption", SECRET, "must be AES256, aws:kms, aws:kms:dsse or sse-c"),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG, ids=[f"{name}={value}" for name, value, _ in WRONG])
def test_a_wrong_value_is_one_sentence_with_the_option(name, value, message):
    with pytest.raises(OptionError) as caught:
        parse_value(name, value)
    text = str(caught.value)
    assert f"the option storage.{name} {message}" in text
    assert SECRET not in text
    assert caught.value.__suppress_context__


RIGHT = [
    ("endpoint", "http://minio:9000", "http://minio:9000"),
    ("endpoint", "HTTPS://minio.example.org", "HTTPS://minio.example.org"),
    ("endpoint", "http://a_b:9000/path", "http://a_b:9000/path"),
    ("endpoint", "http://[::1]:9000", "http://[::1]:9000"),
    ("endpoint", "http://127.0.0.1:10000/devstoreaccount1", "http://127.0.0.1:10000/devstoreaccount1"),
    ("proxy_url", f"http://user:{SECRET}@proxy:3128", f"http://user:{SECRET}@proxy:3128"),
    ("proxy_url", "socks5://proxy:1080", "socks5://proxy:1080"),
    ("region", "us-gov-east-1", "us-gov-east-1"),
    ("region", "auto", "auto"),
    ("timeout", "30", timedelta(seconds=30)),
    ("timeout", "1500ms", timedelta(seconds=1.5)),
    ("timeout", "1m 30s", timedelta(seconds=90)),
    ("timeout", "2h37min", timedelta(hours=2, minutes=37)),
    ("timeout", "1.5s", timedelta(seconds=1.5)),
    ("retry_timeout", "2 m", timedelta(minutes=2)),
    ("max_retries", "0", 0),
    ("pool_max_idle_per_host", "8", "8"),
    ("allow_http", "YES", True),
    ("skip_signature", "0", "false"),
    ("conditional_put", "etag", "etag"),
    ("copy_if_not_exists", "header-with-status:a:b:412", "header-with-status:a:b:412"),
    ("session_token", "anything at all: ?@#", "anything at all: ?@#"),
]


@pytest.mark.parametrize(("name", "value", "expected"), RIGHT, ids=[f"{name}={value}" for name, value, _ in RIGHT])
def test_a_right_value_is_as_the_library_takes_it(name, value, expected):
    assert expected == parse_value(name, value)


@pytest.mark.parametrize("value", ["minio:9000", f"http://user:{SECRET}@minio:9000"])
def test_a_variable_of_the_environment_is_checked_likewise(monkeypatch, value):
    monkeypatch.setenv("AWS_ENDPOINT_URL", value)
    with pytest.raises(OptionError, match=r"the variable AWS_ENDPOINT_URL (must be a URL|holds a user)") as caught:
        connect("s3://bucket", KEYS)
    assert SECRET not in str(caught.value)
    check_endpoint("AWS_ENDPOINT_URL", "http://minio:9000")


STORES = {StoreKind.S3: "s3://b", StoreKind.GCS: "gs://b", StoreKind.AZURE: "az://c"}

FREE = [
    "access_key_id",
    "account_key",
    "account_name",
    "application_credentials",
    "bearer_token",
    "client_id",
    "client_secret",
    "container_authorization_token_file",
    "container_credentials_relative_uri",
    "credential_type",
    "encryption_key",
    "fabric_cluster_identifier",
    "fabric_session_token",
    "fabric_workload_host",
    "federated_token_file",
    "msi_resource_id",
    "object_id",
    "proxy_ca_certificate",
    "proxy_excludes",
    "role_arn",
    "role_session_name",
    "root_certificate",
    "sas_key",
    "secret_access_key",
    "service_account",
    "service_account_key",
    "session_token",
    "sse_customer_key_base64",
    "sse_kms_key_id",
    "tenant_id",
    "token",
    "user_agent",
    "web_identity_token_file",
]
"""Options whose values have no form that could be checked; the library takes any, or its error is shown without the value."""


def test_every_option_has_a_rule_or_is_known_to_have_none():
    names = {name for options in _STORE_OPTIONS.values() for name in options.split()} | _CLIENT_OPTIONS
    assert set(FREE) == names - set(_RULES)


@pytest.mark.slow
@pytest.mark.parametrize("kind", STORES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("value", [SECRET, "minio:9000", f"http://user:{SECRET}@h:1", "\x00", "", "ü"])
def test_no_value_of_any_option_is_repeated_or_a_panic(monkeypatch, kind, value):
    monkeypatch.setattr(object_options, "check_reachable", lambda *_: None)
    url = STORES[kind]
    said = []
    for name in [*_STORE_OPTIONS[kind].split(), *_CLIENT_OPTIONS]:
        given = (
            {"skip_signature": "true", "account_name": "a"} if kind is StoreKind.AZURE else {"skip_signature": "true"}
        )
        try:
            connect(url, tuple((given | {name: value}).items()))
        except OptionError as error:
            said.append(f"{error} {error!r}".replace("://minio:9000", ""))
    assert said
    assert [] == [text for text in said if SECRET in text or "minio:9000" in text]
