"""A process that writes a stream in torn writes, with dictionaries, deltas and replacements."""

import subprocess
import sys

PRODUCER = """
import random, sys, time
import pyarrow as pa
path, batches, seed, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
luck = random.Random(seed)
class Torn:
    closed = False
    def __init__(self): self.file = open(path, "ab", buffering=0)
    def write(self, data):
        data = bytes(data)
        while data:
            n = luck.randrange(1, len(data) + 1)
            self.file.write(data[:n]); data = data[n:]
            if luck.random() < .1: time.sleep(pause)
    def flush(self): pass
schema = pa.schema([("n", pa.int64()), ("d", pa.dictionary(pa.int32(), pa.string()))])
words = []
with pa.ipc.new_stream(pa.PythonFile(Torn(), "w"), schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as writer:
    for i in range(batches):
        words = [f"new {i}"] if i % 17 == 0 else words + ([f"word {i}"] if i % 3 == 0 else [])
        array = pa.DictionaryArray.from_arrays(pa.array([len(words) - 1, 0], pa.int32()), pa.array(words))
        writer.write_batch(pa.record_batch([pa.array([2 * i, 2 * i + 1]), array], schema=schema))
"""


def producing(path, batches, *, seed=7, pause=0.001):
    """Start it. It appends so many record batches of two rows to a file, and now and then waits for `pause` seconds."""
    return subprocess.Popen([sys.executable, "-c", PRODUCER, str(path), str(batches), str(seed), str(pause)])
