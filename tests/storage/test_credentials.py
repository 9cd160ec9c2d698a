"""Where credentials come from, one after another, and that a secret is seen nowhere.

No test asks a metadata address: its variables name a server of ours, which counts who comes.
"""

import contextlib
import io
import logging
import os
import pickle
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from fault_server import ACCESS_KEY_ID, SECRET, Request, fault_server

from spark_arrow_ipc.dataset.scan.file_metadata import MetadataOptions
from spark_arrow_ipc.dataset.scan.scan import ScanOptions
from spark_arrow_ipc.storage import object_options, object_store
from spark_arrow_ipc.storage.base import Connections
from spark_arrow_ipc.storage.open import storage_of

ROOT = Path(__file__).parents[2]
CLOUDS = ("AWS_", "AZURE_", "GOOGLE_", "GCE_", "SERVICE_ACCOUNT", "IDENTITY_", "MSI_")
KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}
WRONG = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing"}
OPTIONS = {"access_key_id": ACCESS_KEY_ID, "secret_access_key": SECRET}


@contextlib.contextmanager
def metadata_address():
    """A server where a cloud's would be: its address, and who came. It closes each connection at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        visitors = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    visitors.append(1)
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname(), visitors
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine that knows no credentials, with a store: a fault server, a home, and who asked for a role."""
    for name in list(os.environ):
        if name.startswith(CLOUDS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(object_store, "_stores", Connections())
    with fault_server() as server, metadata_address() as ((host, port), visitors):
        server.objects.put("d/a", b"123")
        monkeypatch.setattr(object_options, "_METADATA_ADDRESS", (host, port))
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://{host}:{port}")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://{host}:{port}")
        yield server, tmp_path, visitors


def place(server, **options):
    there = {name: server.options[name] for name in ("endpoint", "region")}
    return storage_of(f"{server.url}/d", tuple((there | options).items()))


def profile(home, **profiles):
    (home / ".aws").mkdir()
    text = "".join(
        f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = {SECRET}\n" for name, key in profiles.items()
    )
    (home / ".aws" / "credentials").write_text(text)


SOURCES = {
    "options": ({}, OPTIONS, {}),
    "options before the environment": (WRONG, OPTIONS, {}),
    "the environment": (KEYS, {}, {}),
    "the environment before a profile": (KEYS, {}, {"default": "nobody"}),
    "a profile by option": ({}, {"profile": "me"}, {"me": ACCESS_KEY_ID, "default": "nobody"}),
    "a profile by option before the environment": (WRONG, {"profile": "me"}, {"me": ACCESS_KEY_ID}),
    "a profile by the environment": ({"AWS_PROFILE": "me"}, {}, {"me": ACCESS_KEY_ID, "default": "nobody"}),
    "the default profile": ({}, {}, {"default": ACCESS_KEY_ID}),
}


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_credentials_are_found_and_nobody_asks_for_a_role(machine, monkeypatch, source):
    server, home, visitors = machine
    environment, options, profiles = SOURCES[source]
    if profiles:
        pytest.importorskip("boto3")
        profile(home, **profiles)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    storage, root = place(server, **options)
    assert b"123" == storage.read(f"{root}/a", 10)
    assert [] == visitors


def test_a_server_of_the_environment_needs_no_option(machine, monkeypatch):
    server, _, _ = machine
    for name, value in (
        KEYS | {"AWS_ENDPOINT_URL": server.endpoint, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
    ).items():
        monkeypatch.setenv(name, value)
    storage, root = storage_of(f"{server.url}/d")
    assert b"123" == storage.read(f"{root}/a", 10)


@pytest.mark.parametrize("environment", [WRONG, {}], ids=["environment", "option"])
def test_wrong_credentials_are_one_sentence(machine, monkeypatch, environment):
    server, _, visitors = machine
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    storage, root = place(server, **({} if environment else {"access_key_id": "nobody", "secret_access_key": SECRET}))
    for call in (
        lambda: storage.read(f"{root}/a", 10),
        lambda: list(storage.list(root)),
        lambda: storage.put(f"{root}/b", b""),
    ):
        with pytest.raises(PermissionError, match="check the credentials and their rights") as caught:
            call()
        assert "\n" not in str(caught.value)
    assert 3 == server.requests.total()  # a refusal is not asked for again
    assert ([], {"d/a": b"123"}) == (visitors, server.objects.data())


NOTHING = """
    import sys, time
    from spark_arrow_ipc.errors import OptionError
    from spark_arrow_ipc.storage.open import storage_of
    begin = time.monotonic()
    storage, root = storage_of(sys.argv[1])
    try:
        list(storage.list(root))
    except OptionError as error:
        print(time.monotonic() - begin, error, sep="\\n")
"""


@pytest.mark.slow
def test_no_credentials_are_one_sentence_within_seconds(machine):
    """In a process of its own, as a user meets it; the variable says that the machine is none of a cloud."""
    _, home, visitors = machine
    environment = {name: value for name, value in os.environ.items() if not name.startswith(CLOUDS)}
    environment |= {name: value for name, value in os.environ.items() if "METADATA" in name}
    environment |= {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(home), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(NOTHING), "s3://bucket/d"],
        env=environment, capture_output=True, text=True, timeout=180, check=True,
    )  # fmt: skip
    seconds, text = done.stdout.splitlines()
    assert float(seconds) < 60
    assert text.startswith("no credentials for S3 were found: set AWS_ACCESS_KEY_ID")
    assert ("", []) == (done.stderr, visitors)


def test_a_machine_that_answers_is_asked_for_its_role_once_and_soon(machine):
    """The address answers, so the library may ask it; here it gives nothing, and that ends soon as well."""
    server, _, visitors = machine
    begin = time.monotonic()
    storage, root = place(server, max_retries="1")
    with pytest.raises(OSError, match=r"credential|metadata|token") as caught:
        storage.read(f"{root}/a", 10)
    assert time.monotonic() - begin < 100
    assert visitors
    assert "\n" not in str(caught.value)


# The secret is seen nowhere


def texts_of_errors(server):
    """The text of everything that goes wrong with a store, and what a traceback shows."""
    asked = [
        {}, {"secret_acces_key": SECRET}, {"allow_http": SECRET}, {"max_retries": SECRET}, {"retry_timeout": SECRET},
        {"region": "no such\nregion"}, {"endpoint": f"{SECRET}://x"}, {"timeout": SECRET},
        {"access_key_id": "nobody"}, {"proxy_url": f"http://user:{SECRET}@127.0.0.1:1"}, {"endpoint": "http://127.0.0.1:9"},
    ]  # fmt: skip
    for options in asked:
        try:
            storage, root = place(server, **(OPTIONS | {"max_retries": "0"} | options))
            for call in (
                lambda s, r: s.read(f"{r}/x", 1),
                lambda s, r: list(s.list(r)),
                lambda s, r: s.put_if_absent(f"{r}/a", b""),
            ):
                try:
                    call(storage, root)
                except Exception as error:  # noqa: BLE001
                    yield options, f"{error} {error!r} {error.__cause__!r} {pickle.loads(pickle.dumps(error))!r}"
        except Exception as error:  # noqa: BLE001
            yield options, f"{error} {error!r}"
    with pytest.raises(Exception, match="holds a password") as caught:
        storage_of(f"s3://{ACCESS_KEY_ID}:{SECRET}@bucket/d")
    yield "a URL", str(caught.value)


def test_the_secret_is_in_no_error_text_repr_or_log(machine, caplog):
    server, _, _ = machine
    with caplog.at_level(logging.DEBUG), contextlib.redirect_stderr(io.StringIO()) as said:
        for request in (Request.GET, Request.PUT, Request.LIST):
            server.inject(request, "403")
        found = [(options, text) for options, text in texts_of_errors(server)]
        assert len(found) > 15
        assert [] == [(options, text) for options, text in found if SECRET in text]
        storage, _ = place(server, **OPTIONS)
        holders = [storage, ScanOptions(storage=storage), MetadataOptions(storage=storage)]
        for each in (*holders, *map(pickle.loads, map(pickle.dumps, holders))):
            assert SECRET not in f"{each!r} {each}"
    assert SECRET not in caplog.text + said.getvalue()


def test_the_secret_is_in_no_repr_of_sparks_side(machine):
    pytest.importorskip("pyspark")
    from pyspark.sql import types as s

    from spark_arrow_ipc.spark.options.options import parse_read, parse_write
    from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader
    from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter

    server, _, _ = machine
    given = {f"storage.{name}": value for name, value in server.options.items()} | {"path": f"{server.url}/new"}
    schema = s.StructType([s.StructField("n", s.LongType())])
    reading, writing = parse_read(given), parse_write(given)
    writer = ArrowIpcBatchWriter.plan(schema, given["path"], writing, overwrite=False)
    writer.commit([])
    reader = ArrowIpcBatchReader(schema, reading)
    for each in (reading, writing, writer, writer._job, reader, *reader.partitions(), writer._job.staging):
        assert SECRET not in f"{each!r} {each} {pickle.loads(pickle.dumps(each))!r}"
