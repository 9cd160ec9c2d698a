"""Variants in plain Python, value by value, after the Parquet format's VariantEncoding.md: the oracle of vectorised code."""

import datetime as dt
import decimal
import itertools
import struct
import uuid

EPOCH = dt.datetime(1970, 1, 1)
NUMBERS = {3: "<b", 4: "<h", 5: "<i", 6: "<q", 7: "<d", 14: "<f"}


def keys_of(metadata):
    """Return the strings of metadata."""
    width = (metadata[0] >> 6) + 1
    count = int.from_bytes(metadata[1 : 1 + width], "little")
    ends = [int.from_bytes(metadata[1 + width * (i + 1) : 1 + width * (i + 2)], "little") for i in range(count + 1)]
    octets = metadata[1 + width * (count + 2) :]
    return [octets[a:b].decode() for a, b in itertools.pairwise(ends)]


def decoded(metadata, value):
    """Return a variant as (type, value): objects as dicts, arrays as lists."""
    return _value(keys_of(metadata), value)


def _value(keys, value):
    basic, header = value[0] & 3, value[0] >> 2
    if basic == 0:
        return _primitive(header, value[1:])
    if basic == 1:
        return "string", value[1 : 1 + header].decode()
    is_object = basic == 2
    start_width = (header & 3) + 1
    id_width = (header >> 2 & 3) + 1 if is_object else 0
    count_width = 4 if header >> (4 if is_object else 2) & 1 else 1
    count = int.from_bytes(value[1 : 1 + count_width], "little")
    at = 1 + count_width
    ids = [int.from_bytes(value[at + i * id_width : at + (i + 1) * id_width], "little") for i in range(count)]
    at += count * id_width
    starts = [
        int.from_bytes(value[at + i * start_width : at + (i + 1) * start_width], "little") for i in range(count + 1)
    ]
    at += (count + 1) * start_width
    assert at + starts[-1] == len(value)
    values = [_value(keys, _cut(value[at:], start)) for start in starts[:-1]]
    if not is_object:
        return "array", values
    names = [keys[i] for i in ids]
    assert names == sorted(set(names), key=str.encode)
    return "object", dict(zip(names, values, strict=True))


def _cut(values, start):
    """Return one value out of many: its own size is in its bytes."""
    rest = values[start:]
    return rest[: _size(rest)]


def _size(value):
    basic, header = value[0] & 3, value[0] >> 2
    if basic == 1:
        return 1 + header
    if basic == 0:
        if header in (15, 16):
            return 5 + int.from_bytes(value[1:5], "little")
        return (
            1
            + {0: 0, 1: 0, 2: 0, 3: 1, 4: 2, 5: 4, 6: 8, 7: 8, 8: 5, 9: 9, 10: 17, 11: 4, 12: 8, 13: 8, 14: 4, 20: 16}[
                header
            ]
        )
    width, id_width = (header & 3) + 1, (header >> 2 & 3) + 1 if basic == 2 else 0
    count_width = 4 if header >> (4 if basic == 2 else 2) & 1 else 1
    count = int.from_bytes(value[1 : 1 + count_width], "little")
    last = 1 + count_width + count * (id_width + width)
    return last + width + int.from_bytes(value[last : last + width], "little")


def _primitive(header, rest):
    if header in NUMBERS:
        return f"number {header}", struct.unpack_from(NUMBERS[header], rest)[0]
    if header in (8, 9, 10):
        number = int.from_bytes(rest[1 : 1 + (4 << header - 8)], "little", signed=True)
        return f"decimal {header}", decimal.Decimal(number).scaleb(-rest[0], decimal.Context(prec=40))
    if header in (12, 13):
        kind = "timestamp" if header == 12 else "timestamp_ntz"
        return kind, EPOCH + dt.timedelta(microseconds=struct.unpack_from("<q", rest)[0])
    if header in (15, 16):
        octets = rest[4 : 4 + int.from_bytes(rest[:4], "little")]
        return ("binary", octets) if header == 15 else ("string", octets.decode())
    if header == 11:
        return "date", EPOCH.date() + dt.timedelta(days=struct.unpack_from("<i", rest)[0])
    return {0: ("null", None), 1: ("boolean", True), 2: ("boolean", False)}.get(header) or (
        "uuid",
        uuid.UUID(bytes=rest[:16]),
    )


def encoded(value, keys):
    """Return the bytes of a JSON value; `keys` gets the names of fields."""
    if isinstance(value, dict):
        for name in value:
            if name not in keys:
                keys.append(name)
        names = sorted(value, key=str.encode)
        # Values in the order of the dict and not of the names, as the format allows.
        made = {name: encoded(value[name], keys) for name in value}
        starts, total = {}, 0
        for name, octets in made.items():
            starts[name], total = total, total + len(octets)
        numbers = [keys.index(name).to_bytes(2, "little") for name in names]
        numbers += [starts[name].to_bytes(3, "little") for name in names] + [total.to_bytes(3, "little")]
        head = bytes([2 | (2 | 1 << 2 | 1 << 4) << 2]) + len(names).to_bytes(4, "little")
        return head + b"".join(numbers) + b"".join(made.values())
    if isinstance(value, list):
        made = [encoded(item, keys) for item in value]
        starts = [sum(map(len, made[:i])).to_bytes(4, "little") for i in range(len(made) + 1)]
        return bytes([3 | (3 | 1 << 2) << 2]) + len(made).to_bytes(4, "little") + b"".join(starts) + b"".join(made)
    if isinstance(value, str):
        octets = value.encode()
        return b"\x40" + len(octets).to_bytes(4, "little") + octets
    if isinstance(value, int) and not isinstance(value, bool):
        return b"\x18" + struct.pack("<q", value)
    return {None: b"\0", True: b"\4", False: b"\x08"}[value]


def metadata_of(keys, width=2):
    """Return the metadata of keys, with sizes of some bytes."""
    octets = [key.encode() for key in keys]
    ends = [sum(map(len, octets[:i])) for i in range(len(octets) + 1)]
    return (
        bytes([1 | width - 1 << 6])
        + b"".join(n.to_bytes(width, "little") for n in [len(keys), *ends])
        + b"".join(octets)
    )


def tagged(value):
    """Return a JSON value as `decoded` has it."""
    if isinstance(value, dict):
        return "object", {name: tagged(value[name]) for name in sorted(value, key=str.encode)}
    if isinstance(value, list):
        return "array", [tagged(item) for item in value]
    names = {str: "string", bool: "boolean", type(None): "null", int: "number 6"}
    return names[type(value)], value


def shredded(value, shape, keys):
    """Return the parts of a JSON value; a shape is int, str, [shape], {name: shape}, or None for bytes."""
    parts = {"value": None} if shape is None else {"value": None, "typed_value": None}
    if isinstance(shape, type) and type(value) is shape:
        parts["typed_value"] = value
    elif isinstance(shape, list) and isinstance(value, list):
        parts["typed_value"] = [shredded(item, shape[0], keys) for item in value]
    elif isinstance(shape, dict) and isinstance(value, dict):
        missing = {"value": None}
        parts["typed_value"] = {
            name: shredded(value[name], below, keys) if name in value else missing for name, below in shape.items()
        }
        keys += [name for name in shape if name in value and name not in keys]
        rest = {name: item for name, item in value.items() if name not in shape}
        parts["value"] = encoded(rest, keys) if rest else None
    else:
        parts["value"] = encoded(value, keys)
    return parts
