"""Threads decode record batches ahead: the same batches in the same order, an error in its turn, and no thread left."""

import io
import os
import struct
import threading
import time
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest
from arrow_from_pyarrow import batch_to_pyarrow

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ArrowIpcError, InvalidBodyError, LimitError, UnsupportedError
from spark_arrow_ipc.ipc.bytes.ahead import Ahead
from spark_arrow_ipc.ipc.columns import projection

BATCHES = 12
ROWS = 500


def batches(*, grows=False):
    """Return batches with numbers, strings, and a dictionary that is one for all, or grows."""
    words = [f"word {i}" for i in range(BATCHES)]
    return [
        pa.record_batch(
            {
                "n": pa.array(np.arange(ROWS) * i),
                "s": pa.array([f"<{i} {j}>" for j in range(ROWS)]),
                "d": pa.DictionaryArray.from_arrays(np.arange(ROWS, dtype=np.int8) % 2, words[: i + 2] if grows else words[:2]),
            }
        )
        for i in range(BATCHES)
    ]  # fmt: skip


def file_of(codec=None):
    return _written(pa.ipc.new_file, batches(), compression=codec)


def stream_of(codec=None):
    return _written(pa.ipc.new_stream, batches(grows=True), compression=codec, emit_dictionary_deltas=True)


def _written(new, made, **options):
    sink = io.BytesIO()
    with new(sink, made[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in made:
            writer.write_batch(batch)
    return sink.getvalue()


FORMATS = {"file": (file_of, batches()), "stream": (stream_of, batches(grows=True))}
SOURCES = {
    "bytes": lambda data, _: data,
    "a path": lambda data, path: path.write_bytes(data) and str(path),
    "a file object": lambda data, _: io.BytesIO(data),
}


def decoding():
    """Return the names of the threads that decode."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("arrow-ipc-decode")]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("format_", FORMATS)
def test_the_batches_are_pyarrows_in_their_order(format_, source, codec, tmp_path):
    make, expected = FORMATS[format_]
    with ipc.open(SOURCES[source](make(codec), tmp_path / "t.arrow"), threads=3) as reader:
        assert [batch_to_pyarrow(batch).to_pylist() for batch in reader] == [batch.to_pylist() for batch in expected]
    assert decoding() == []


@pytest.mark.parametrize("format_", FORMATS)
def test_a_projection_is_decoded_in_threads_as_well(format_):
    make, expected = FORMATS[format_]
    with ipc.open(make(), columns=["d", "n"], threads=2) as reader:
        found = [batch_to_pyarrow(batch) for batch in reader]
    assert [batch.to_pydict() for batch in found] == [batch.select(["d", "n"]).to_pydict() for batch in expected]


def broken(data, number):
    """Return a file or stream whose strings of one batch are no UTF-8."""
    return data.replace(f"<{number} 7>".encode(), f"<{number} ".encode() + b"\xff>", 1)


@pytest.mark.parametrize("number", [0, 1, 6, BATCHES - 1])
@pytest.mark.parametrize("format_", FORMATS)
def test_an_error_comes_with_its_batch_after_those_before_it(format_, number):
    data = broken(FORMATS[format_][0](), number)
    errors = []
    for threads in (1, 3):
        read = 0
        with ipc.open(data, threads=threads) as reader, pytest.raises(InvalidBodyError) as caught:
            for _ in reader:
                read += 1
        assert read == number
        errors.append((str(caught.value), caught.value.field_path, caught.value.block_number, caught.value.byte_offset))
    assert errors[0] == errors[1]
    assert decoding() == []


def test_a_body_beyond_the_budget_is_refused_before_it_is_read():
    """The same error in every way of reading, and not that the file ends before 512 TB."""
    data = bytearray(stream_of())
    messages = pa.ipc.MessageReader.open_stream(bytes(data))
    body_nbytes = next(message.body.size for message in messages if message.type == "record batch")
    at = data.find(struct.pack("<q", body_nbytes))
    data[at : at + 8] = struct.pack("<q", 512 << 40)
    for threads in (1, 3):
        with ipc.open(bytes(data), threads=threads) as reader, pytest.raises(LimitError, match="asks for 562,949"):
            list(reader)


def test_a_stream_that_is_broken_does_not_end_when_it_is_asked_again():
    with ipc.open(broken(stream_of(), 2), threads=2) as reader:
        assert len([next(reader), next(reader)]) == 2
        for _ in range(3):
            with pytest.raises(InvalidBodyError, match="UTF-8"):
                next(reader)


@pytest.mark.parametrize("nbytes", [-1, -9, 400])
def test_a_stream_that_is_cut_is_the_same_error(nbytes):
    data = stream_of()[:nbytes] if nbytes < 0 else stream_of()[: len(stream_of()) // 2 + nbytes]
    outcomes = []
    for threads in (1, 4):
        read = []
        try:
            read.extend(batch.num_rows for batch in ipc.open(data, threads=threads))
        except ArrowIpcError as error:
            read.append(str(error))
        outcomes.append(read)
    assert outcomes[0] == outcomes[1]


def test_a_dictionary_of_a_file_is_decoded_once(monkeypatch):
    reads = []
    read = projection.SelectedColumns.read_dictionary

    def slow(*args, **options):
        reads.append(threading.current_thread().name)
        time.sleep(0.05)
        return read(*args, **options)

    monkeypatch.setattr(projection.SelectedColumns, "read_dictionary", slow)
    with ipc.open(file_of(), threads=4) as reader:
        assert len({id(batch.column("d").dictionary) for batch in reader}) == 1
    assert len(reads) == 1
    assert reads[0].startswith("arrow-ipc-decode")


def test_threads_end_where_iterating_does():
    with ipc.open(file_of(), threads=2) as reader:
        for _ in reader:
            assert decoding()
            break
        assert decoding() == []
        iterator = iter(reader)
        assert next(iterator).num_rows == ROWS
        assert decoding()
    assert decoding() == []


@pytest.mark.parametrize("threads", [2, 5])
def test_as_many_jobs_as_threads_are_under_way(threads):
    most = running = taken = 0
    lock = threading.Lock()

    def job(number):
        def run():
            nonlocal most, running
            with lock:
                running += 1
                most = max(most, number - taken)
            time.sleep(0.002)
            with lock:
                running -= 1
            return number

        return run

    with closing(Ahead(map(job, range(40)), threads, "arrow-ipc-test", waits=True)) as ahead:
        for expected in range(40):
            assert next(ahead) == expected
            taken = expected
            time.sleep(0.001)
        assert next(ahead, None) is None
        assert next(ahead, None) is None
    assert running == 0
    assert threads - 1 <= most <= threads + 1


def test_an_error_of_making_a_job_comes_in_its_turn():
    def jobs():
        yield lambda: 1
        yield lambda: 2
        raise ValueError("broken")

    ahead = Ahead(jobs(), 4, "arrow-ipc-test")
    assert [next(ahead), next(ahead)] == [1, 2]
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            next(ahead)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_does_not_wait_for_threads_that_it_lacks():
    with closing(Ahead(iter([lambda: 1, lambda: 2, lambda: 3]), 2, "arrow-ipc-test")) as ahead:
        assert next(ahead) == 1
        pid = os.fork()
        if not pid:
            try:
                next(ahead)
            except UnsupportedError:
                ahead.close()
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        assert next(ahead) == 2


def test_at_least_one_thread():
    with pytest.raises(ValueError, match="at least one thread, found 0"):
        ipc.open(file_of(), threads=0)
