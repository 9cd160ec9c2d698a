"""What `connect` makes of options, the environment and the machine. No request leaves this process."""

import socket

import pytest

from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.storage import object_options
from spark_arrow_ipc.storage.base import without_secrets
from spark_arrow_ipc.storage.object_options import _CLIENT_OPTIONS, _STORE_OPTIONS, connect
from spark_arrow_ipc.storage.paths import StoreKind

KEYS = (("access_key_id", "AKIDEXAMPLE"), ("secret_access_key", "hunter2-very-secret"))
URLS = {StoreKind.S3: "s3://b", StoreKind.GCS: "gs://b", StoreKind.AZURE: "abfss://c@acc.dfs.core.windows.net"}


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch, tmp_path):
    """No variable, no profile, and an address of roles that does not answer."""
    import os

    for name in os.environ:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "GCE_", "SERVICE_ACCOUNT", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(object_options, "_METADATA_ADDRESS", ("127.0.0.1", 9))
    monkeypatch.setattr(object_options, "check_reachable", lambda *_: None)
    return tmp_path


def profile(home, text):
    (home / ".aws").mkdir()
    (home / ".aws" / "credentials").write_text(text)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://b/x", KEYS),
        ("s3a://b", (*KEYS, ("region", "eu-central-1"), ("endpoint", "http://127.0.0.1:9"))),
        ("s3://b", (("skip_signature", "true"), ("timeout", "5s"), ("max_retries", "2"), ("retry_timeout", "10s"))),
        ("s3://b", (*KEYS, ("session_token", "t"), ("allow_http", "true"), ("connect_timeout", "1s"))),
        ("gs://b", (("skip_signature", "true"),)),
        ("abfss://c@acc.dfs.core.windows.net", (("account_key", "a2V5"),)),
        ("az://c", (("account_name", "acc"), ("account_key", "a2V5"))),
        ("https://host", (("timeout", "5s"),)),
        ("http://host", ()),
        ("memory://x", ()),
    ],
)
def test_options_make_a_connection(url, options):
    assert connect(url, options) is not None
    assert connect(url, options, copies=True) is not None


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("s3://b", (("acces_key_id", "A"), *KEYS), "no option storage.acces_key_id for S3; did you mean storage.access_key_id"),
        ("s3://b", (("zzz", "A"), *KEYS), 'no option storage.zzz for S3; "Object stores" in the documentation lists them'),
        ("gs://b", KEYS, "no option storage.access_key_id for Google Cloud Storage"),
        ("https://host", KEYS, "no option storage.access_key_id for a web server"),
        ("memory://x", (("region", "A"),), "no option storage.region for memory"),
        ("s3://b", (("region", "a\nb"), *KEYS), "storage.region holds a line break"),
        ("s3://b", (*KEYS, ("allow_http", "maybe")), "storage.allow_http must be true or false"),
        ("s3://b", (*KEYS, ("max_retries", "-1")), "storage.max_retries must be a whole number"),
        ("s3://b", (*KEYS, ("retry_timeout", "soon")), "storage.retry_timeout must be a number of seconds"),
        ("gs://b", (("profile", "p"),), "names a profile of ~/.aws, and the path is of Google Cloud Storage"),
        ("s3://b", (), "no credentials for S3 were found: set AWS_ACCESS_KEY_ID"),
        ("gs://b", (("base_url", "http://127.0.0.1:9"),), "no credentials for Google Cloud Storage were found: set GOOGLE_APP"),
        ("az://c", (("account_name", "acc"),), "no credentials for Azure Blob Storage were found: set AZURE_STORAGE_ACC"),
        ("az://c", (("account_key", "a2V5"),), "do not make a connection: .*Account must be specified"),
        ("az://c", (("account_name", "acc"), ("account_key", "hunter2!")), "do not make a connection: .*Invalid Access Key"),
    ],
)  # fmt: skip
def test_wrong_options_are_one_sentence_without_a_value(url, options, message):
    with pytest.raises(OptionError, match=message) as caught:
        connect(url, options)
    assert str(caught.value) == without_secrets(str(caught.value), options)


def test_a_profile_that_is_not_there_is_named():
    pytest.importorskip("boto3")
    with pytest.raises(OptionError, match=r"the profile that storage.profile names is not in ~/.aws/config"):
        connect("s3://b", (("profile", "p"),))


def test_a_machine_without_a_role_is_told_so_soon(monkeypatch):
    asked = []

    def refuses(address, timeout):
        asked.append((address, timeout))
        raise OSError

    monkeypatch.setattr(socket, "create_connection", refuses)
    with pytest.raises(OptionError, match="no credentials"):
        connect("s3://b", ())
    assert [(("127.0.0.1", 9), 1.0)] == asked
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(OptionError, match="no credentials"):
        connect("s3://b", ())
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("url", "environment"),
    [
        ("s3://b", {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "S"}),
        ("s3://b", {"AWS_SKIP_SIGNATURE": "true"}),
        ("s3://b", {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"}),
        ("gs://b", {"GOOGLE_SKIP_SIGNATURE": "true"}),
        ("gs://b", {"GCE_METADATA_HOST": "127.0.0.1:9"}),
        ("abfss://c@acc.dfs.core.windows.net", {"AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}),
    ],
)
def test_the_environment_is_enough(monkeypatch, url, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert connect(url, ()) is not None


def test_the_file_of_gcloud_is_enough(nothing_known):
    file = nothing_known / ".config" / "gcloud" / "application_default_credentials.json"
    file.parent.mkdir(parents=True)
    file.write_text(
        '{"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r", "quota_project_id": "p"}'
    )
    assert connect("gs://b", ()) is not None


@pytest.mark.parametrize(("environment", "options"), [({}, (("profile", "me"),)), ({"AWS_PROFILE": "me"}, ())])
def test_a_profile_is_read_by_boto3(nothing_known, monkeypatch, environment, options):
    pytest.importorskip("boto3")
    profile(nothing_known, "[me]\naws_access_key_id = AKIDME\naws_secret_access_key = S\n")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    store = connect("s3://b", options)
    assert "AKIDME" == store.credential_provider()["access_key_id"]


def test_a_profile_without_boto3_is_refused(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(UnsupportedError, match="pip install boto3"):
        connect("s3://b", (("profile", "me"),))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in URLS for name in _STORE_OPTIONS[kind].split()])
def test_the_library_knows_every_name_that_near_misses_offer(kind, name):
    with pytest.raises(OptionError) as caught:
        connect(URLS[kind], ((name, "\0"), ("no_such_option", "x")))
    assert f"storage.{name} for" not in str(caught.value)


def test_the_library_knows_every_option_of_the_client():
    values = {"timeout": "5s", "connect_timeout": "5s", "read_timeout": "5s", "pool_idle_timeout": "5s"}
    values |= {"pool_max_idle_per_host": "3", "proxy_url": "http://127.0.0.1:9", "proxy_excludes": "a"}
    for name in _CLIENT_OPTIONS - {"proxy_ca_certificate", "root_certificate"}:
        assert connect("s3://b", (*KEYS, (name, values.get(name, "true")))) is not None
