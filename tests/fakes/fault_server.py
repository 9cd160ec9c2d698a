"""An S3 server of the tests' own, in memory: it counts requests, is as slow as it is told, and fails as it is told.

It understands what obstore asks for, in path style and with any signature: GetObject with ranges and If-Match,
HeadObject, PutObject with If-None-Match and If-Match, CopyObject, DeleteObject, DeleteObjects, ListObjectsV2 with
prefix, delimiter and pages, and multipart uploads. `FAULTS` has what may go wrong.

It lives in a thread and starts in milliseconds::

    with fault_server() as server:
        server.inject(Request.PUT, "stores, drops the connection")
        ...
        assert 2 == server.requests[Request.PUT]

As a program it serves the files of a directory, slowly, and prints its URL; ``GET /-/counts`` says what was asked::

    python tests/fakes/fault_server.py --files DIRECTORY --latency-ms 30 --nbytes-per-second 90e6
"""

import argparse
import asyncio
import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import s3_requests as s3
from s3_requests import BUCKET, Answer, Objects, Request

__all__ = [
    "ACCESS_KEY_ID",
    "BUCKET",
    "FAULTS",
    "LATE",
    "SECRET",
    "SLOW",
    "TWICE",
    "Fault",
    "FaultServer",
    "Request",
    "fault_server",
]

ACCESS_KEY_ID = "tests"
SECRET = "a-secret-that-must-not-be-seen"
CHUNK_NBYTES = 256 << 10
SLOW_NBYTES_PER_SECOND = 1 << 20


@dataclass(frozen=True)
class Fault:
    """How one request goes wrong.

    Parameters
    ----------
    performs
        Whether the request is carried out all the same.
    status, code
        The error that is answered; None answers as if nothing were wrong.
    drops
        Whether the connection is closed without an answer.
    silent
        Whether the connection stays open without an answer.
    torn
        Whether the connection is closed in the middle of the body.
    nbytes_per_second
        How fast the body comes.
    then
        Called after the request was carried out, before it is answered.
    late
        Whether the request is carried out at the next `FaultServer.deliver`: for the first time, or once more.
    begun
        Whether it is a copy that ends at the next `FaultServer.deliver`, of what was there when it began.
    """

    performs: bool = False
    status: int | None = None
    code: str = ""
    drops: bool = False
    silent: bool = False
    torn: bool = False
    nbytes_per_second: float | None = None
    then: Callable[[], None] | None = None
    late: bool = False
    begun: bool = False


FAULTS = {
    "drops the connection": Fault(drops=True),
    "stores, drops the connection": Fault(performs=True, drops=True),
    "500": Fault(status=500, code="InternalError"),
    "stores, 500": Fault(performs=True, status=500, code="InternalError"),
    "200 with an error inside": Fault(status=200, code="InternalError"),
    "409": Fault(status=409, code="ConditionalRequestConflict"),
    "503": Fault(status=503, code="SlowDown"),
    "403": Fault(status=403, code="AccessDenied"),
    "404": Fault(status=404, code="NoSuchKey"),
    "stores, never answers": Fault(performs=True, silent=True),
    "never answers": Fault(silent=True),
    "torn body": Fault(performs=True, torn=True),
    "slow body": Fault(performs=True, nbytes_per_second=SLOW_NBYTES_PER_SECOND),
}
"""The faults by name. S3 itself does each of them; "200 with an error inside" is its CopyObject's and
CompleteMultipartUpload's way to fail after the headers went out."""

LATE, TWICE, SLOW = Fault(drops=True, late=True), Fault(performs=True, late=True), Fault(drops=True, begun=True)
"""A request that a proxy carries out after its client is gone, one that it repeats, and a copy whose client is gone while
the store makes it; see `FaultServer.deliver`."""


@dataclass
class _Injected:
    request: Request
    fault: Fault
    times: float
    skip: int
    key: str


class FaultServer:
    """The server: its objects, what it was asked, and what goes wrong next.

    Parameters
    ----------
    latency
        Seconds before each answer.
    nbytes_per_second
        Speed of a connection; None is as fast as it goes.
    """

    def __init__(self, *, latency: float = 0.0, nbytes_per_second: float | None = None):
        self.latency = latency
        self.nbytes_per_second = nbytes_per_second
        self.objects = Objects()
        self.port = 0
        self._injected: list[_Injected] = []
        self._tasks: set[asyncio.Task] = set()
        self._late: list[tuple[s3.Head, Request, bytes]] = []
        self.reset_counts()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"s3://{BUCKET}"

    @property
    def options(self):
        """The options that reach this server, without their prefix ``storage.``."""
        return {
            "endpoint": self.endpoint, "access_key_id": ACCESS_KEY_ID, "secret_access_key": SECRET,
            "region": "us-east-1", "allow_http": "true",
        }  # fmt: skip

    def inject(self, request, fault, *, times=1, skip=0, key=""):
        """Let the next requests of a kind fail.

        Parameters
        ----------
        request
            The kind.
        fault
            A name in `FAULTS`, or a `Fault`.
        times
            How many of them; ``math.inf`` for all.
        skip
            How many of them go well before.
        key
            Only those whose key contains this.
        """
        self._injected.append(_Injected(request, FAULTS[fault] if isinstance(fault, str) else fault, times, skip, key))

    def heal(self):
        """Forget what was injected."""
        self._injected.clear()

    @property
    def pending_faults(self):
        """How many injected faults have not happened yet."""
        return sum(injected.times for injected in self._injected)

    def deliver(self, *, of=lambda _: True):
        """Carry out the late requests of some kinds, and return their keys and the statuses that nobody is told of."""

        async def carry_out():
            late = [each for each in self._late if of(each[1])]
            self._late = [each for each in self._late if not of(each[1])]
            return [(head.key, s3.perform(self.objects, head, request, body).status) for head, request, body in late]

        return asyncio.run_coroutine_threadsafe(carry_out(), self._loop).result(120)

    def reset_counts(self):
        """Count from here on: requests by kind, by kind and key, bytes of bodies out and in, most at once."""
        self.requests: Counter[Request] = Counter()
        self.requests_by_key: Counter[tuple[Request, str]] = Counter()
        self.nbytes_out = self.nbytes_in = self.connections = self.at_once = self.most_at_once = 0

    @property
    def counts(self):
        return {request.name: n for request, n in sorted(self.requests.items(), key=lambda item: item[0].name)} | {
            "nbytes_out": self.nbytes_out, "nbytes_in": self.nbytes_in, "connections": self.connections,
            "most_at_once": self.most_at_once,
        }  # fmt: skip

    def _take_fault(self, request, key):
        for injected in self._injected:
            if injected.request is request and injected.key in key:
                if injected.skip:
                    injected.skip -= 1
                    continue
                injected.times -= 1
                if injected.times <= 0:
                    self._injected.remove(injected)
                return injected.fault
        return Fault(performs=True)

    # The server's own thread

    async def start(self, port=0):
        server = await asyncio.start_server(self._serve, "127.0.0.1", port, backlog=1024, limit=1 << 20)
        self.port = server.sockets[0].getsockname()[1]
        self._loop = asyncio.get_running_loop()
        return server

    async def stop(self, server):
        # No new connections; those that are being accepted become tasks, and need the server until then.
        for listening in server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(others, timeout=0.01)
        server.close()
        await server.wait_closed()

    async def _serve(self, reader, writer):
        self.connections += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while await self._one_request(reader, writer):
                pass
        writer.close()
        self._tasks.discard(task)

    async def _one_request(self, reader, writer):
        """Answer the next request of a connection; False where it is to be closed."""
        head = await s3.read_head(reader, writer)
        body = await reader.readexactly(head.nbytes)
        if head.path == "/-/counts":
            return await self._send(writer, head, Answer(200, json.dumps(self.counts).encode()), Fault())
        if head.method == "HEAD" and head.path == "/":  # whether anything answers: no request to a store
            return await self._send(writer, head, Answer(403), Fault())
        request = s3.kind_of(head)
        self.requests[request] += 1
        self.requests_by_key[request, head.key] += 1
        self.nbytes_in += len(body)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._answer(writer, head, request, body)
        finally:
            self.at_once -= 1

    async def _answer(self, writer, head, request, body):
        fault = self._take_fault(request, head.key)
        if self.latency:
            await asyncio.sleep(self.latency)
        answer = Answer(200)
        if not s3.is_signed_by(head, ACCESS_KEY_ID):
            answer = s3.error(403, "InvalidAccessKeyId")
        elif head.bucket != BUCKET:
            answer = s3.error(404, "NoSuchBucket")
        elif fault.performs:
            answer = s3.perform(self.objects, head, request, body)
        if fault.late:
            self._late.append((head, request, body))
        if fault.begun:
            self._late.append((head, Request.PUT, s3.source_of(self.objects, head).data))
        if fault.then is not None:
            fault.then()
        if fault.drops:
            return False
        if fault.silent:
            await asyncio.get_running_loop().create_future()
        if fault.status is not None:
            answer = s3.error(fault.status, fault.code)
        return await self._send(writer, head, answer, fault)

    async def _send(self, writer, head, answer, fault):
        body = memoryview(b"" if head.method == "HEAD" else answer.body)
        nbytes = answer.nbytes if answer.nbytes is not None else len(body)
        headers = {"Content-Length": nbytes, **answer.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {answer.status} {answer.status}\r\n{lines}\r\n".encode())
        stop = len(body) // 2 if fault.torn else len(body)
        speed = fault.nbytes_per_second or self.nbytes_per_second
        clock = asyncio.get_running_loop()
        begin = clock.time()
        step = min(CHUNK_NBYTES, int(speed / 20)) if speed else CHUNK_NBYTES
        for byte_offset in range(0, stop, step):
            part = body[byte_offset : min(byte_offset + step, stop)]
            if speed:
                await asyncio.sleep(max(0.0, (byte_offset + len(part)) / speed - (clock.time() - begin)))
            self.nbytes_out += len(part)
            writer.write(part)
            await writer.drain()
        await writer.drain()
        return not fault.torn


@contextlib.contextmanager
def fault_server(server=None, *, latency=0.0, nbytes_per_second=None):
    """A server in a thread of this process, with an empty bucket; gone at the end, with all its connections."""
    server = server or FaultServer(latency=latency, nbytes_per_second=nbytes_per_second)
    loop = asyncio.new_event_loop()
    listening = loop.run_until_complete(server.start())
    thread = threading.Thread(target=loop.run_forever, name="fault server", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(listening), loop).result(120)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _serve_files(arguments):
    server = FaultServer(latency=arguments.latency_ms / 1e3, nbytes_per_second=arguments.nbytes_per_second)
    for path in sorted(p for p in arguments.files.rglob("*") if p.is_file()):
        server.objects.put(path.relative_to(arguments.files).as_posix(), path.read_bytes())
    listening = await server.start(arguments.port)
    print(server.endpoint, server.url, flush=True)
    async with listening:
        await listening.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve the files of a directory as a bucket of S3, from memory.")
    parser.add_argument("--files", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--nbytes-per-second", type=float)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve_files(parser.parse_args()))
