"""What is fuzzed: five functions of bytes, which may raise nothing but `ArrowIpcError`.

What a target decodes has to be sound as well: it passes `validate.check` in full, and its values can be converted
to Python. The functions know nothing of atheris, so that tests can call them with one input; `run` does the rest.
"""

import io
import struct
from contextlib import contextmanager

import numpy as np

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.errors import ArrowIpcError, LimitError
from spark_arrow_ipc.ipc.columns.compression import Decompressor
from spark_arrow_ipc.ipc.columns.plan import compile_plan
from spark_arrow_ipc.ipc.constants import Limits
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType, MetadataVersion
from spark_arrow_ipc.ipc.messages.footer import decode_footer
from spark_arrow_ipc.ipc.messages.message import decode_message
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader, decode_schema

LIMITS = Limits(max_batch_bytes=64 << 20, max_metadata_bytes=1 << 20, max_columns=10_000)
TENSOR_LIMITS = Limits(max_batch_bytes=64 << 20, max_metadata_bytes=1 << 20, max_slots=1_000_000)
MOST_VALUES = 2_000
"""Rows of types without bytes cost nothing to claim; their Python values do."""


def metadata(data):
    """Decode bytes as a message's flatbuffer, and as a footer's; a schema is decoded and planned."""
    view = memoryview(data)
    with refusal():
        _decode_schema(decode_message(view, LIMITS).header)
    with refusal():
        _decode_schema(decode_footer(view, 1 << 20, LIMITS).schema)


@contextmanager
def refusal():
    """Take an `ArrowIpcError`, which has to have a text; let everything else pass."""
    try:
        yield
    except ArrowIpcError as error:
        text = str(error)
        assert text


def _decode_schema(header):
    if not isinstance(header, SchemaHeader):
        return
    message = decode_schema(header.view, LIMITS)
    assert str(message.schema)
    for version in (MetadataVersion.V4, MetadataVersion.V5):
        compile_plan(message.schema.fields, message.dictionary_ids, version)


def stream(data):
    """Read bytes as an IPC stream, in full and structurally."""
    _read(ipc.open_stream, data)


def file(data):
    """Read bytes as an IPC file, in full and structurally."""
    _read(ipc.open_file, data)


def _read(open_, data):
    for validation in ("full", "structural"):
        with refusal(), open_(data, validation=validation, limits=LIMITS) as reader:
            for batch in reader:
                if validation == "full":
                    _check_sound(batch)


def _check_sound(batch):
    try:
        for field, column in zip(batch.schema.fields, batch.columns, strict=True):
            assert column.length == batch.num_rows
            assert column.type == field.type
            validate.check(column, field.name)
    except ArrowIpcError as error:
        # Not a refusal: the reader had vouched for it.
        raise AssertionError(f"decoded, but not sound: {error}") from error
    if batch.num_rows <= MOST_VALUES:
        batch.to_pylist()


def decompression(data):
    """Decompress bytes as one buffer; the first byte chooses the codec."""
    if not data:
        return
    codec, buffer = CompressionType(data[0] & 1), memoryview(data)[1:]
    with refusal():
        output = Decompressor(codec, LIMITS.max_batch_bytes).decompress(buffer)
        declared = struct.unpack_from("<q", buffer)[0]
        assert len(output) == (len(buffer) - 8 if declared == -1 else declared)
        assert len(bytes(output)) == len(output)


def tensors(data):
    """Read bytes as tensors, make them dense, and write and read them again; whether all were sound."""
    with refusal():
        for tensor in ipc.read_tensors(data, limits=TENSOR_LIMITS):
            _check_tensor(tensor)
        return True
    return False


def _check_tensor(tensor):
    assert repr(tensor)
    written = io.BytesIO()
    ipc.write_tensor(written, tensor)
    again = ipc.read_tensor(written.getvalue())
    assert (tensor.shape, tensor.type, tensor.dim_names) == (again.shape, again.type, again.dim_names)
    if isinstance(tensor, ipc.Tensor):
        assert tensor.to_numpy().tobytes() == again.to_numpy().tobytes()
        return
    assert tensor.values.tobytes() == again.values.tobytes()
    coordinates = tensor.coordinates()
    assert coordinates.tolist() == again.coordinates().tolist()
    assert ((coordinates >= 0) & (coordinates < tensor.shape)).all()
    try:
        dense = tensor.to_dense_numpy(limits=TENSOR_LIMITS)
    except (LimitError, ValueError):
        return
    assert np.count_nonzero(dense) == np.count_nonzero(tensor.values)


TARGETS = {target.__name__: target for target in (metadata, stream, file, decompression, tensors)}
