"""A storage that publishes by copies which a server carries out: they end when they end, whatever became of who asked.

`CopyServer` runs in threads of the process that drives a test, and its clients are the processes that are killed. A copy
takes up to `seconds`; of some the reply is lost. What the protocol takes for granted is that a copy ends within the
grace. So here a wait for the grace is a wait for all copies that have begun (`settle`): whatever brings a file back then
is a fault of the protocol, however busy the machine.
"""

import json
import random
import socket
import socketserver
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

from copying_storage import CopyingStorage, copy

from spark_arrow_ipc.dataset.listing import tree
from spark_arrow_ipc.dataset.write import job_plan, old_files, vacuum
from spark_arrow_ipc.dataset.write.publisher import TIMING

GRACE_SECONDS = 1000.0
"""Longer than any other wait, by which it is known."""


class CopyServer:
    """Copies files; with ``with`` it runs until the end of the block."""

    def __init__(self, seconds=0.05, lost=0.02, seed=0):
        self.seconds, self.lost, self.rng = seconds, lost, random.Random(seed)
        self.path = tempfile.mktemp(prefix="copies")
        self.under_way = set()
        self.changed = threading.Condition()
        self.copies = self.replies_lost = 0
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                request = json.loads(self.rfile.readline() or b"[]")
                answer = server.settle() if request == ["settle"] else server.copy(*request) if request else ""
                with suppress(OSError):  # who asked is dead
                    self.wfile.write(answer.encode())

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads, block_on_close, request_queue_size = True, False, 128

        self.server = Server(self.path, Handler)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        Path(self.path).unlink()

    def copy(self, staged, final):
        """Copy a file; it begins when its source is opened, and not at all if that is gone."""
        token = object()
        with self.changed:
            self.under_way.add(token)
            seconds, is_lost = self.rng.uniform(0, self.seconds), self.rng.random() < self.lost
        data = None
        try:
            with suppress(FileNotFoundError):
                data = Path(staged).read_bytes()
            if data is None:
                return "missing"
            if is_lost:
                threading.Thread(target=self.end, args=(token, final, data, seconds), daemon=True).start()
                self.replies_lost += 1
                token = None
                return ""
            self.end(token, final, data, seconds)
            token = None
            return "copied"
        finally:
            if token is not None:
                self.ended(token)

    def end(self, token, final, data, seconds):
        time.sleep(seconds)
        try:
            copy(data, final)
            self.copies += 1
        finally:
            self.ended(token)

    def ended(self, token):
        with self.changed:
            self.under_way.discard(token)
            self.changed.notify_all()

    def settle(self):
        """Wait until all copies have ended that have begun by now."""
        with self.changed:
            waiting = set(self.under_way)
            self.changed.wait_for(lambda: not waiting & self.under_way, timeout=60)
        return "settled"


def asked(path, *request):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(json.dumps(request).encode() + b"\n")
        client.shutdown(socket.SHUT_WR)
        return client.makefile("rb").read().decode()


@contextmanager
def served(server, *, patience, rules=True):
    """Let all datasets of this process, and of those that it forks, lie in a storage whose copies a server makes.

    Parameters
    ----------
    server
        Makes the copies.
    patience
        Seconds after which a job is helped.
    rules
        Without them nobody waits for copies of others: what the tests find then shows that they can find it.
    """

    class Served(CopyingStorage):
        @staticmethod
        def copier(staged, final):
            answer = asked(server.path, str(staged), str(final))
            if answer == "missing":
                raise FileNotFoundError(2, "No such file", staged)
            if answer != "copied":
                raise OSError(104, "Connection reset by peer", staged)

    def sleep(seconds):
        if seconds < GRACE_SECONDS:
            time.sleep(seconds)
        elif rules:
            asked(server.path, "settle")

    storage = Served()
    place = lambda path, *_: (storage, storage.resolve(path))  # noqa: E731
    with (
        mock.patch.object(job_plan, "storage_of", place),
        mock.patch.object(vacuum, "storage_of", place),
        mock.patch.object(tree, "storage_of", place),
        mock.patch.object(old_files, "_DELETED_AT_ONCE", 1),
        mock.patch.multiple(TIMING, patience_seconds=patience, grace_seconds=GRACE_SECONDS, sleep=sleep),
    ):
        yield storage
