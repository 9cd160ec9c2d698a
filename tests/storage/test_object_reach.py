"""A store that cannot be reached is said to be so soon, in one sentence; one that is busy is asked as often as before."""

import socket
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager

import pytest
from fault_server import Request, fault_server

from spark_arrow_ipc.storage import object_reach, object_store
from spark_arrow_ipc.storage.base import Connections
from spark_arrow_ipc.storage.object_reach import no_connection
from spark_arrow_ipc.storage.open import storage_of

OPTIONS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "hunter2-very-secret", "region": "us-east-1"}


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    """As in a process that has used no store; without variables of a cloud."""
    import os

    for name in list(os.environ):
        if name.startswith(("AWS_", "HTTP_PROXY", "http_proxy")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(object_store, "_stores", Connections())
    monkeypatch.setattr(object_reach, "_reached", set())


@contextmanager
def server(answer):
    """A server on a port of its own, which does something with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def speaks_http(connection):
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


@pytest.fixture
def strangers_certificate(tmp_path):
    """The answer of a server whose certificate nothing here has signed."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    def answer(connection):
        try:
            with context.wrap_socket(connection, server_side=True) as secure:
                speaks_http(secure)
        except (ssl.SSLError, OSError):
            pass

    return answer


def sentence(path, **options):
    """The error of a read, and that it came within seconds."""
    begun = time.monotonic()
    with pytest.raises(OSError, match="no connection to") as caught:
        storage, root = storage_of(path, tuple((OPTIONS | options).items()) if path.startswith("s3") else ())
        storage.read(f"{root}/x", 10)
    assert time.monotonic() - begun < 10
    text = str(caught.value)
    assert "\n" not in text
    assert "hunter2" not in text
    return text


def test_nothing_listens():
    text = sentence("s3://bucket/d", endpoint="http://127.0.0.1:1")
    assert "no connection to http://127.0.0.1:1: nothing answers there: the connection was refused" in text
    assert "(storage.endpoint)" in text


def test_nothing_listens_at_a_variables_address(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert "(AWS_ENDPOINT_URL)" in sentence("s3://bucket/d")


def test_a_web_server_that_is_not_there():
    assert "no connection to http://127.0.0.1:1: nothing answers there" in sentence("http://127.0.0.1:1/d")


def test_a_host_that_no_name_server_knows():
    text = sentence("s3://bucket/d", endpoint="http://no-such-host.invalid:9000")
    assert "no connection to http://no-such-host.invalid:9000: there is no host of this name (DNS)" in text


def test_https_where_a_server_speaks_http():
    with server(speaks_http) as port:
        text = sentence("s3://bucket/d", endpoint=f"https://127.0.0.1:{port}")
    assert f"no connection to https://127.0.0.1:{port}: it speaks no TLS" in text
    assert "write http://" in text


@pytest.mark.slow
def test_a_certificate_that_nothing_here_trusts(strangers_certificate):
    with server(strangers_certificate) as port:
        text = sentence("s3://bucket/d", endpoint=f"https://127.0.0.1:{port}")
    assert "its certificate is not trusted here; give the one that signed it by storage.root_certificate" in text


@pytest.mark.parametrize(("max_retries", "n_pauses"), [("0", 0), ("1", 1), ("10", 2)])
def test_retries_are_two_at_most(monkeypatch, max_retries, n_pauses):
    pauses, sleep, this = [], time.sleep, threading.current_thread()

    def note(seconds):
        if threading.current_thread() is this:
            pauses.append(seconds)
        else:  # one of another test in this process
            sleep(seconds)

    monkeypatch.setattr(time, "sleep", note)
    sentence("s3://bucket/d", endpoint="http://127.0.0.1:1", max_retries=max_retries)
    assert n_pauses == len(pauses)


def test_a_server_that_starts_a_moment_later_is_reached(monkeypatch):
    with fault_server() as store:
        store.objects.put("d/a", b"123")
        real, refused = object_reach.no_connection, iter(["no connection to it", None])
        monkeypatch.setattr(object_reach, "no_connection", lambda *of: next(refused, real(*of)))
        storage, root = storage_of(f"{store.url}/d", tuple(store.options.items()))
        assert b"123" == storage.read(f"{root}/a", 10)


@pytest.mark.parametrize("fault", ["503", "500"])
def test_a_busy_store_is_asked_again(fault):
    with fault_server() as store:
        store.objects.put("d/a", b"123")
        store.inject(Request.GET, fault, times=3)
        storage, root = storage_of(f"{store.url}/d", tuple(store.options.items()))
        assert b"123" == storage.read(f"{root}/a", 10)
        assert 4 == store.requests[Request.GET]


def test_a_server_is_asked_once_a_process():
    with fault_server() as store:
        for bucket in (store.url, store.url.replace("s3:", "s3a:")):
            storage, root = storage_of(f"{bucket}/d", tuple(store.options.items()))
            list(storage.list(root))
        assert {f"http://127.0.0.1:{store.port}"} == object_reach._reached
        assert {Request.LIST: 2} == dict(store.requests)


@pytest.mark.parametrize(
    "text", ["error sending request\nkind: ConnectionReset", "status code: 503 kind: Connect", "x"]
)
def test_an_answer_or_a_broken_connection_is_no_missing_server(text):
    assert no_connection(OSError(text)) is None
