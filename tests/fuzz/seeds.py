"""Seeds of the fuzz targets: small files of `tests/data`, and of the corpus where ARROW_IPC_CORPUS names it.

    python tests/fuzz/seeds.py DIRECTORY

writes DIRECTORY/<target>/<hash> for every target of `targets`.
"""

import hashlib
import io
import os
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.columns.compression import Compressor
from spark_arrow_ipc.ipc.constants import FOOTER_TAIL_NBYTES, MAGIC
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType
from spark_arrow_ipc.ipc.messages.message import decode_message

DATA = Path(__file__).parents[1] / "data"
TENSORS = Path(__file__).parents[1] / "tensor_data"
CORPUS = "ARROW_IPC_CORPUS"
MOST_NBYTES = 8 << 10
FOLDERS = ("arrow-testing/data", "others", "generated")
CONTENTS = (b"", b"a", bytes(1000), bytes(range(256)) * 3, b"spark" * 500)


def files():
    """Yield the contents of small files that look like Arrow."""
    paths = sorted(DATA.glob("*.arrow*"))
    corpus = os.environ.get(CORPUS)
    for folder in FOLDERS if corpus else ():
        paths += sorted(path for path in (Path(corpus) / folder).rglob("*") if path.is_file())
    for path in paths:
        if path.stat().st_size <= MOST_NBYTES and path.suffix not in {".gz", ".json", ".tsv"}:
            yield path.read_bytes()


def tensors():
    """Yield the contents of small files of tensors: those of other writers, and of ours what these do not have."""
    for path in sorted(TENSORS.glob("*.*")):
        if path.suffix != ".md":
            yield path.read_bytes()
    for array in (
        np.asfortranarray(np.ones((2, 3, 2), np.float16)),
        np.array(7, np.uint64),
        np.arange(3, dtype=np.int8),
    ):
        sink = io.BytesIO()
        ipc.write_tensor(sink, array, dim_names="abc"[: array.ndim])
        ipc.write_tensor(sink, ipc.CooTensor.from_dense_numpy(array))
        yield sink.getvalue()


def messages(stream):
    """Yield the flatbuffers of a stream's messages, as far as it is sound."""
    position = 0
    while position + 8 <= len(stream):
        legacy = stream[position : position + 4] != b"\xff\xff\xff\xff"
        start = position + (4 if legacy else 8)
        nbytes = int.from_bytes(stream[start - 4 : start], "little", signed=True)
        if nbytes <= 0:
            return
        flatbuffer = stream[start : start + nbytes]
        yield flatbuffer
        try:
            position = start + nbytes + decode_message(memoryview(flatbuffer), ipc.Limits()).body_nbytes
        except ArrowIpcError:
            return


def seeds():
    """Return the seeds by the name of the target."""
    made = defaultdict(set)
    for content in files():
        is_file = content.startswith(MAGIC)
        made["file" if is_file else "stream"].add(content)
        made["metadata"].update(messages(content[8:] if is_file else content))
        if is_file and len(content) > FOOTER_TAIL_NBYTES:
            tail = content[-FOOTER_TAIL_NBYTES:]
            nbytes = int.from_bytes(tail[:4], "little", signed=True)
            if 0 < nbytes < len(content):
                made["metadata"].add(content[-FOOTER_TAIL_NBYTES - nbytes : -FOOTER_TAIL_NBYTES])
    made["tensors"].update(tensors())
    for codec in CompressionType:
        for content in CONTENTS:
            prefix, frame = Compressor(codec).compress(memoryview(content))
            made["decompression"].add(bytes([codec]) + prefix + bytes(frame))
    return made


def write(directory):
    """Write all seeds below a directory; return how many by target."""
    made = seeds()
    for target, contents in made.items():
        folder = Path(directory) / target
        folder.mkdir(parents=True, exist_ok=True)
        for content in contents:
            (folder / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)
    return {target: len(contents) for target, contents in made.items()}


if __name__ == "__main__":
    print(write(sys.argv[1]))
