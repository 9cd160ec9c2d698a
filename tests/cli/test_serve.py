"""``arrowipc serve`` serves files until a signal, and leaves nothing."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.cli.main import main

ROOT = Path(__file__).parents[2]


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"a": range(rows)})
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


def serve(capsys, act, *arguments):
    """Run the command in this thread, and `act` with its lines in another, which ends it as a service manager does."""
    failures, lines = [], []

    def client():
        try:
            deadline = time.monotonic() + 120
            while not lines or not lines[-1].endswith("\n"):
                assert time.monotonic() < deadline
                time.sleep(0.01)
                lines.append(capsys.readouterr().out)
                if not lines[-1]:
                    lines.pop()
            act(dict(line.split("\t") for line in "".join(lines).splitlines()))
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            failures.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=client)
    thread.start()
    status = main(["serve", *arguments])
    thread.join()
    if failures:
        raise failures[0]
    return status


WAYS = [("tcp", ()), ("tcp", ("--shared-memory", "named")), ("unix", ()), ("unix", ("--shared-memory", "none")),
        ("tcp", ("--compression", "zstd"))]  # fmt: skip


@pytest.mark.parametrize(("scheme", "more"), WAYS, ids=[" ".join([s, *m]) for s, m in WAYS])
def test_a_directory_is_served_with_its_partitions(capsys, tmp_path, scheme, more):
    write(tmp_path / "lake" / "day=1" / "x.arrow", 3)
    write(tmp_path / "lake" / "day=2" / "y.arrow", 4)
    listen = f"dissociated+unix://{tmp_path}/s" if scheme == "unix" else "dissociated+tcp://127.0.0.1:0"
    found = {}

    def act(uris):
        for ticket, uri in uris.items():
            assert ("remote_handle" in uri) == ("named" in more or (scheme == "unix" and not more))
            with ipc.connect(uri) as reader:
                found[ticket] = [tuple(row.values()) for batch in reader for row in batch.to_pylist()]

    assert 0 == serve(capsys, act, str(tmp_path / "lake"), "--listen", listen, *more)
    assert {
        "day=1/x.arrow": [(i, 1) for i in range(3)],
        "day=2/y.arrow": [(i, 2) for i in range(4)],
    } == found
    assert not (tmp_path / "s").exists()
    assert [] == [path for path in Path("/proc/self/fd").iterdir() if "arrowipc" in str(path.resolve())]


def test_a_token_is_taken_from_the_environment(capsys, tmp_path, monkeypatch):
    write(tmp_path / "x.arrow", 3)
    monkeypatch.setenv("ARROWIPC_TOKEN", "geheim")

    def act(uris):
        (uri,) = uris.values()
        uri = uri.replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(ConnectionError, match="wants a token"):
            ipc.connect(uri)
        with ipc.connect(uri, token="geheim") as reader:
            assert 3 == sum(batch.num_rows for batch in reader)

    assert 0 == serve(capsys, act, str(tmp_path / "x.arrow"), "--listen", "dissociated+tcp://0.0.0.0:0")


def test_commands_read_what_is_served(capsys, tmp_path):
    """`validate` and `repair` read files, and say how a server's table becomes one."""
    write(tmp_path / "x.arrow", 3)
    with ipc.serve({"t": tmp_path / "x.arrow"}, f"dissociated+unix://{tmp_path}/s", shared_memory="memfd") as server:
        uri = server.uri_of("t")
        for command, expected in (
            (["count", uri], f"3\t{uri}\n"),
            (["cat", uri, "--format", "jsonl", "--limit", "2"], '{"a": 0}\n{"a": 1}\n'),
            (["cat", uri, "--columns", "a", "--format", "jsonl"], '{"a": 0}\n{"a": 1}\n{"a": 2}\n'),
        ):
            assert 0 == main(command)
            assert expected == capsys.readouterr().out
        assert 0 == main(["concat", uri, uri, str(tmp_path / "y.arrow")])
        with ipc.open(tmp_path / "y.arrow") as reader:
            assert 6 == sum(batch.num_rows for batch in reader)
        for command in ("validate", "repair"):
            assert 1 == main([command, uri, *["z.arrow"] * (command == "repair")])
            assert "'arrowipc concat URI FILE' writes a server's table into one" in "".join(capsys.readouterr())


def test_commands_take_their_token_from_the_environment(capsys, tmp_path, monkeypatch):
    write(tmp_path / "x.arrow", 3)
    with ipc.serve({"t": tmp_path / "x.arrow"}, token="geheim") as server:
        assert 1 == main(["count", server.uri_of("t")])
        assert "wants a token" in capsys.readouterr().err
        monkeypatch.setenv("ARROWIPC_TOKEN", "geheim")
        assert 0 == main(["count", server.uri_of("t")])


def test_count_and_inspect_move_no_values(capsys, tmp_path, monkeypatch):
    from spark_arrow_ipc.ipc.dissociated.session import Session

    write(tmp_path / "x.arrow", 3)
    sent, send = [], Session._send_body
    monkeypatch.setattr(Session, "_send_body", lambda *a: sent.append(a[2].nbytes) or send(*a))
    with ipc.serve({"t": tmp_path / "x.arrow"}) as server:
        for command in ("count", "inspect"):
            assert 0 == main([command, server.uri_of("t")])
    assert [0, 0] == sent


REFUSED = [
    ("no token", ["--listen", "dissociated+tcp://0.0.0.0:0"], "expected a token"),
    ("no such scheme", ["--listen", "ucx://h:1"], "ucx:"),
    ("memfd over tcp", ["--shared-memory", "memfd"], "only such a socket"),
]


@pytest.mark.parametrize(("more", "words"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_cannot_be_served_is_an_error(capsys, tmp_path, more, words):
    write(tmp_path / "x.arrow", 3)
    assert 1 == main(["serve", str(tmp_path / "x.arrow"), *more])
    assert words in capsys.readouterr().err


def test_two_files_of_one_ticket_are_refused(capsys, tmp_path):
    write(tmp_path / "a" / "x.arrow", 3)
    write(tmp_path / "b" / "x.arrow", 3)
    assert 1 == main(["serve", str(tmp_path / "a"), str(tmp_path / "b")])
    assert "'x.arrow' twice" in capsys.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_ends_leaves_nothing_or_what_the_next_removes(tmp_path, end):
    write(tmp_path / "x.arrow", 3)
    command = [
        sys.executable,
        "-m",
        "spark_arrow_ipc.cli.main",
        "serve",
        str(tmp_path / "x.arrow"),
        "--shared-memory",
        "named",
    ]

    def start():
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def segment(server):
        from spark_arrow_ipc.ipc.dissociated.location import parse_location
        from spark_arrow_ipc.ipc.dissociated.shared_memory import Handle

        uri = server.stdout.readline().split("\t")[1].strip()
        return Path(Handle.decode(parse_location(uri).remote_handle).path)

    with start() as first:
        path = segment(first)
        assert path.exists()
        first.send_signal(end)
        assert (0 if end == signal.SIGTERM else -9) == first.wait(120)
    assert path.exists() == (end == signal.SIGKILL)
    with start() as second:
        other = segment(second)
        assert not path.exists()
        second.terminate()
        assert 0 == second.wait(120)
    assert not other.exists()
