"""Shared memory, sockets, a file and Arrow Flight, one after the other on one table: CPU and wall time of the readers.

    python benchmarks/dissociated.py [--mib 400] [--turns 7]

Servers run in processes of their own; only the reader is measured, and each turn sums a column, so that every byte of
it is touched. Ratios are medians of ratios inside a turn.
"""

import argparse
import multiprocessing
import resource
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.flight

from spark_arrow_ipc import ipc


class _Flight(pa.flight.FlightServerBase):
    def __init__(self, path):
        super().__init__("grpc://127.0.0.1:0")
        self.table = pa.ipc.open_file(pa.memory_map(path)).read_all()

    def do_get(self, context, ticket):
        return pa.flight.RecordBatchStream(self.table)


def _serve_flight(path, pipe):
    server = _Flight(path)
    pipe.send(f"grpc://127.0.0.1:{server.port}")
    server.serve()


def _serve_ours(path, listen, memory, keep, pipe):
    with ipc.serve({"t": path}, listen, shared_memory=memory, keep_nbytes=keep) as server:
        pipe.send(server.uri_of("t"))
        server.wait()


def _start(target, *arguments):
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=target, args=(*arguments, theirs), daemon=True)
    process.start()
    return process, ours.recv()


def _sum(batches):
    return sum(float(np.frombuffer(batch.columns[0].buffers[1]).sum()) for batch in batches)


def _read_file(path):
    with ipc.open(path) as reader:
        return _sum(reader)


def _read_ours(uri):
    with ipc.connect(uri) as reader:
        return _sum(reader)


def _read_trusting(uri):
    with ipc.connect(uri, validation="structural") as reader:
        return _sum(reader)


def _read_flight(uri):
    client = pa.flight.FlightClient(uri)
    reader = client.do_get(pa.flight.Ticket(b"t"))
    total = sum(float(np.asarray(chunk.data.column(0)).sum()) for chunk in reader)
    client.close()
    return total


def _cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    """Print a table of medians, and the ratios to Arrow Flight."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=400)
    parser.add_argument("--turns", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "t.arrow")
        rows = 1 << 17
        schema = pa.schema([(f"c{i}", pa.float64()) for i in range(4)])
        rng = np.random.default_rng(1)
        with pa.ipc.new_file(path, schema) as writer:
            for _ in range(arguments.mib // 4):
                writer.write_batch(pa.record_batch([rng.random(rows) for _ in range(4)], schema=schema))
        servers = {
            "flight": _start(_serve_flight, path),
            "memfd": _start(_serve_ours, path, f"dissociated+unix://{folder}/m", "memfd", 0),
            "kept": _start(_serve_ours, path, "dissociated+tcp://127.0.0.1:0", None, 1 << 40),
            "tcp": _start(_serve_ours, path, "dissociated+tcp://127.0.0.1:0", None, 0),
        }
        uris = {name: uri for name, (_, uri) in servers.items()}
        ways = {
            "Flight DoGet, loopback": lambda: _read_flight(uris["flight"]),
            "shared memory (memfd)": lambda: _read_ours(uris["memfd"]),
            "shared memory, structural": lambda: _read_trusting(uris["memfd"]),
            "TCP, packed bodies, kept": lambda: _read_ours(uris["kept"]),
            "TCP, packed bodies": lambda: _read_ours(uris["tcp"]),
            "the file (ipc.open)": lambda: _read_file(path),
        }
        times = {name: [] for name in ways}
        sums = set()
        for turn in range(arguments.turns + 1):
            for name, read in ways.items():
                cpu, wall = _cpu(), time.perf_counter()
                sums.add(round(read(), 3))
                spent = _cpu() - cpu, time.perf_counter() - wall
                if turn:  # the first is for caches
                    times[name].append(spent)
        assert len(sums) == 1
        for process, _ in servers.values():
            process.kill()
        first = next(iter(ways))
        print(f"{Path(path).stat().st_size / 2**20:.0f} MiB, {arguments.turns} turns; medians of the reader's process")
        for name, spent in times.items():
            cpu, wall = (statistics.median(value[i] for value in spent) for i in (0, 1))
            ratios = [statistics.median(a[i] / b[i] for a, b in zip(spent, times[first], strict=True)) for i in (0, 1)]
            print(
                f"{name:28} cpu {cpu:6.3f} s  wall {wall:6.3f} s   to Flight: {ratios[0]:.3f} cpu {ratios[1]:.3f} wall"
            )


if __name__ == "__main__":
    main()
