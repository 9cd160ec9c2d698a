"""A secret in any option, in any form of a path, is in no error, repr, traceback, log record or line of the command line."""

import json
import logging
import pickle
import traceback

import pytest

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.errors import ArrowIpcError, OptionError
from spark_arrow_ipc.ipc import connect, create
from spark_arrow_ipc.ipc import open as open_ipc
from spark_arrow_ipc.storage.base import one_line, without_secrets
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import OBJECT_SCHEMES

SECRET = "hunter2Very/zqxj+kpv"
PARTS = ("hunter2", "Very", "zqxj", "kpv")

SCHEMES = (*OBJECT_SCHEMES, "hdfs", "viewfs", "hf", "ftp", "sftp", "webhdfs", "nosuch")
SERVERS = ("dissociated+tcp", "dissociated+unix", "grpc", "grpc+tls", "http", "s3")
PATHS = [
    *(f"{scheme}://user:{SECRET}@host/d" for scheme in SCHEMES),
    *(f"{scheme}://user:hunter2@host/d" for scheme in SCHEMES),
    *(f"{scheme}://user:{SECRET}@host/d" for scheme in ("S3", "Https")),
    *(f"{scheme}://host/d?sig=hunter2&x=1" for scheme in SCHEMES),
    *(f"{scheme}://host/d/*.arrow?X-Amz-Signature=hunter2" for scheme in SCHEMES),
    *(f"{scheme}://hunter2@host/d" for scheme in ("s3", "gs", "https", "hf", "nosuch")),
    *(f"{scheme}:/user:hunter2@host/d" for scheme in ("s3", "hdfs", "nosuch")),
    *(f"{scheme}:///user:{SECRET}@host/d" for scheme in ("s3", "hf", "gs")),
    *(f"{scheme}:///user:hunter2@host/d" for scheme in ("hdfs", "viewfs", "memory", "ftp", "file")),
    *(f"{scheme}://host/d#token=hunter2" for scheme in ("s3", "hdfs", "https", "hf")),
    "file://user:hunter2@host/d",
    "file:/user:hunter2@host/d",
    " s3://user:hunter2@host/d",
    "jdbc:nosuch://user:hunter2@host/d",
    f"s3://user:{SECRET}@{'h' * 100_000}/d",
    f"s3://user:{SECRET}@host/../d",
    f"s3://user:{SECRET}@host/\0d",
    f"simplecache::s3://user:{SECRET}@host/d",
    f"hf::s3://user:{SECRET}@host/d",
]


def texts(error):
    """All that may be shown of an error, here and where Spark sends it."""
    sent = pickle.loads(pickle.dumps(error))
    return "\n".join([str(error), repr(error), *traceback.format_exception(error), str(sent), repr(sent)])


def assert_hidden(text):
    assert [] == [part for part in PARTS if part in text.replace(__file__, "")]


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.DEBUG)
    return caplog


def errors_of_path(path):
    for call in (
        lambda: storage_of(path),
        lambda: storage_of(path, (("region", "r"),)),
        lambda: open_ipc(path),
        lambda: open_ipc(path, follow=True),
        lambda: create(path, Schema(())),
    ):
        try:
            call()
        except Exception as error:  # noqa: BLE001
            yield texts(error)


@pytest.mark.parametrize("path", PATHS, ids=[path[:60].replace("\0", "NUL") for path in PATHS])
def test_no_path_is_shown_with_its_secret(path, said, capsys, monkeypatch):
    found = list(errors_of_path(path))
    assert found
    for text in found:
        assert_hidden(text)
    assert main(["head", path]) != 0 if "\0" not in path else True
    assert_hidden(capsys.readouterr().err)
    assert_hidden(said.text)


ADDRESSES = [
    *(f"{scheme}://user:hunter2@127.0.0.1:1/t" for scheme in SERVERS),
    *(f"{scheme}://user:{SECRET}@127.0.0.1:1/t" for scheme in SERVERS),
    *(f"{scheme}://hunter2@127.0.0.1:1/t" for scheme in SERVERS),
    *(f"{scheme}://127.0.0.1:1/t?want_data=1&token=hunter2" for scheme in SERVERS),
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_address_of_a_server_is_shown_with_its_secret(address):
    for uri, ticket in ((address, None), (address, "t"), ((address, address), "t")):
        with pytest.raises((ArrowIpcError, OSError)) as caught:
            connect(uri, ticket=ticket, token=SECRET, timeout=1)
        assert_hidden(texts(caught.value))


@pytest.mark.parametrize("token", ["hunter2", "hunter2\n", "hunter2" * 20_000])
@pytest.mark.parametrize("scheme", ["dissociated+tcp", "grpc"])
def test_no_token_of_a_server_is_shown(scheme, token):
    with pytest.raises((ArrowIpcError, OSError)) as caught:
        connect(f"{scheme}://127.0.0.1:1?want_data=1", ticket="t", token=token, timeout=1)
    assert_hidden(texts(caught.value))


@pytest.mark.parametrize("name", ["headers.Authorization", "headers", "default_headers", "nosuch"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_header_or_misspelt_option_is_shown(scheme, name):
    with pytest.raises(Exception, match=r".") as caught:
        open_ipc(f"{scheme}://host.invalid/d/f.arrow", storage={name: SECRET, "max_retries": "0"})
    assert_hidden(texts(caught.value))


@pytest.mark.parametrize("other", ["/local", "s3://bucket/d", "hdfs://host/d", "hf://datasets/a/b"])
def test_paths_of_several_kinds_are_not_shown_with_their_secrets(other):
    pytest.importorskip("pyspark")
    from spark_arrow_ipc.spark.options.options import parse_read

    for path in PATHS[::3]:
        options = parse_read({"paths": json.dumps([other, path.replace("\0", "")])})
        with pytest.raises(Exception, match=r".") as caught:
            storage = options.path_storage
            [storage.resolve(each) for each in options.paths]
        assert_hidden(texts(caught.value))


@pytest.mark.slow
def test_options_of_spark_are_not_shown_with_urls_secrets():
    pytest.importorskip("pyspark")
    from spark_arrow_ipc.spark.options.options import OPTIONS, parse_read, parse_stream, parse_write

    url = "https://user:hunter2@host/x?sig=hunter2"
    seen = 0
    for option in OPTIONS:
        name = option.name.replace("*", "endpoint")
        values = [url, f"[{url}]", f"['{url}']", f'["{url}"'] + (
            [SECRET, "\ud800" + SECRET, " "] if option.is_secret else []
        )
        for parse in (parse_read, parse_stream, parse_write):
            for value in values:
                try:
                    parse({"path": "/d", name: value})
                except ArrowIpcError as error:
                    assert_hidden(texts(error))
                    seen += 1
    assert seen > 100


FORMS = [
    # value of an option, text of a library
    ("plain", SECRET, f"bad {SECRET}"),
    ("in a URL", SECRET, "bad hunter2Very%2Fzqxj%2Bkpv"),
    ("in a URL's path", SECRET, "bad hunter2Very/zqxj%2Bkpv"),
    ("in JSON", 'hunter2"Very', r'{"a": "hunter2\"Very"}'),
    ("in XML", "hunter2&Very", "<m>hunter2&amp;Very</m>"),
    ("in a repr", "hunter2'Very\"s", repr("hunter2'Very\"s")),
    ("a proxy's password", "http://me:hunter2@proxy:3128", "proxy says no to hunter2"),
    ("a proxy's user and password", "http://me:hunter2@proxy:3128", "proxy says no to me:hunter2"),
    ("a line of a key", "-----BEGIN\nhunter2Very\n-----END", "cannot parse hunter2Very"),
    ("a string of JSON", '{"headers": {"Authorization": "Bearer hunter2Very"}}', "header 'hunter2Very' was refused"),
    ("in an option of any name", "hunter2Very", "no region hunter2Very"),
]


@pytest.mark.parametrize(("value", "text"), [form[1:] for form in FORMS], ids=[form[0] for form in FORMS])
@pytest.mark.parametrize("name", ["secret_access_key", "region", "anything"])
def test_a_librarys_text_is_without_the_value_in_any_form(name, value, text):
    assert_hidden(without_secrets(text, ((name, value),)))
    assert_hidden(one_line(text, ((name, value),)))


@pytest.mark.parametrize("value", ["http://minio:9000", "true", "30s", "12", "eu-central-1", "us-gov-east-1"])
def test_what_is_harmless_stays(value):
    assert f"cannot use {value}" == without_secrets(f"cannot use {value}", (("anything", value),))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://a:b@c/d", "s3://***@c/d"),
        ("github://org:repo@main/x", "github://org:repo@main/x"),
        ("abfss://container@account/x", "abfss://container@account/x"),
        ("sftp://user@host/x", "sftp://user@host/x"),
        ("nosuch://token@host/x", "nosuch://***@host/x"),
        ("http://host:9000/a@b", "http://host:9000/a@b"),
        ("https://h/a?b=1&token=xyz&c=2", "https://h/a?b=1&token=***&c=2"),
    ],
)
def test_urls_in_errors(text, shown):
    assert shown == str(OptionError(text)) == str(OptionError(path=text))
