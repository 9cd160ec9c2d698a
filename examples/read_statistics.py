"""Print the statistics in a file's footer by the rules of docs/statistics.md: `read_statistics.py FILE`."""

import json
import sys
from base64 import b64decode
from struct import pack, unpack_from

import pyarrow as pa
from flatbuffers.table import Table
from xxhash import xxh3_64_intdigest as checksum

NULLS, NANS, ENDS = "ARROW:null_count:exact", "spark_arrow_ipc:nan_count:exact", ("ARROW:min_value", "ARROW:max_value")


def proof(data: pa.Buffer) -> tuple[bytes, bytes]:
    """Return the fingerprint of a file, and the bytes with which its checksums must begin."""
    footer = data[len(data) - 10 - unpack_from("<i", data, len(data) - 10)[0] : -10]  # pyarrow has verified it
    table = Table(footer, unpack_from("<I", footer)[0])
    lists = [(table.Vector(o), table.VectorLen(o)) if (o := table.Offset(slot)) else (0, 0) for slot in (10, 8)]
    blocks = [unpack_from("<qi4xq", footer, start + 24 * i) for start, n in lists for i in range(n)]
    schema = checksum(data[8 : min(at for at, _, _ in blocks)])
    listed = checksum(b"".join(pack("<3q", *block) for block in blocks))
    head = pack("<4sQQII", b"XXH3", schema, listed, *(n for _, n in lists))
    return f"{schema:016x}".encode(), head + b"".join(pack("<Q", checksum(data[at : at + n])) for at, n, _ in blocks)


def print_statistics(path: str) -> None:
    """Print a line for each column in each record batch; dates and times are numbers in their unit."""
    reader = pa.ipc.open_file(data := pa.memory_map(path).read_buffer())
    pair, sums = (reader.metadata[f"spark_arrow_ipc.{key}".encode()] for key in ("statistics", "checksums"))
    first, message = pa.ipc.MessageReader.open_stream(b64decode(pair[: 64 << 20], validate=True))
    root = Table(message.metadata, unpack_from("<I", message.metadata)[0])
    is_compressed = Table(message.metadata, root.Indirect(root.Pos + root.Offset(8))).Offset(10)
    stored, (fingerprint, start) = pa.ipc.read_schema(first), proof(data)
    is_proven = stored.metadata[b"spark_arrow_ipc.fingerprint"] == fingerprint and b64decode(sums).startswith(start)
    if is_compressed or not is_proven:
        raise SystemExit("nothing proves that the statistics are of this file")
    (batch := pa.ipc.read_record_batch(message, stored)).validate(full=True)
    for field, column in zip(list(stored)[1:], batch.columns[1:], strict=True):
        names, type_ = json.loads(field.metadata[b"spark_arrow_ipc.path"]), pa.struct(list(reader.schema))
        for name in names:
            type_ = type_.field(name).type
        while isinstance(type_, pa.BaseExtensionType | pa.DictionaryType | pa.RunEndEncodedType):
            type_ = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_.value_type
        type_ = pa.binary() if pa.types.is_fixed_size_binary(type_) and type_.byte_width > 64 else type_
        types = {child.type for child in field.type if child.name.startswith(ENDS)}
        counts = batch["ARROW:row_count:exact"].to_pylist()
        for i, rows, slot in zip(range(reader.num_record_batches), counts, column, strict=True):
            values = {k: v.value if pa.types.is_temporal(v.type) else v.as_py() for k, v in slot.items()}
            exact, cut = ([values.get(f"{end}:{kind}") for end in ENDS] for kind in ("exact", "approximate"))
            low, high = (b if a is None else a for a, b in zip(exact, cut, strict=True))
            nulls, nans, is_exact = values[NULLS], values.get(NANS), [None is not value for value in exact]
            is_order = low is None or high is None or low <= high
            if types != {type_} or not is_order or not 0 <= nulls <= nulls + (nans or 0) <= rows:
                raise SystemExit(f"the statistics of {names} break a rule")
            print(json.dumps([i, names, rows, nulls, nans, low, high, is_exact], default=str))


if __name__ == "__main__":
    print_statistics(sys.argv[1])
