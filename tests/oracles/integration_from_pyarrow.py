"""Arrow's integration JSON of what pyarrow holds: expected contents that none of our own code has touched.

Values come from pyarrow's Python API (`to_pylist`, `view`, `offsets`, ...), never from its IPC writer. The
document says what Integration.rst says; how a writer groups bytes (views, padding) is left open.
"""

import decimal
import itertools

import pyarrow as pa
from pyarrow import lib

TYPES = {
    lib.Type_NA: lambda t: {"name": "null"},
    lib.Type_BOOL: lambda t: {"name": "bool"},
    **{
        getattr(lib, f"Type_{'INT' if signed else 'UINT'}{bits}"): (
            lambda t, bits=bits, signed=signed: {"name": "int", "bitWidth": bits, "isSigned": signed}
        )
        for bits in (8, 16, 32, 64)
        for signed in (True, False)
    },
    lib.Type_HALF_FLOAT: lambda t: {"name": "floatingpoint", "precision": "HALF"},
    lib.Type_FLOAT: lambda t: {"name": "floatingpoint", "precision": "SINGLE"},
    lib.Type_DOUBLE: lambda t: {"name": "floatingpoint", "precision": "DOUBLE"},
    **{
        type_id: lambda t: {"name": "decimal", "precision": t.precision, "scale": t.scale, "bitWidth": t.bit_width}
        for type_id in (lib.Type_DECIMAL32, lib.Type_DECIMAL64, lib.Type_DECIMAL128, lib.Type_DECIMAL256)
    },
    lib.Type_DATE32: lambda t: {"name": "date", "unit": "DAY"},
    lib.Type_DATE64: lambda t: {"name": "date", "unit": "MILLISECOND"},
    lib.Type_TIME32: lambda t: {"name": "time", "unit": UNITS[t.unit], "bitWidth": 32},
    lib.Type_TIME64: lambda t: {"name": "time", "unit": UNITS[t.unit], "bitWidth": 64},
    lib.Type_TIMESTAMP: lambda t: {
        "name": "timestamp",
        "unit": UNITS[t.unit],
        **({} if t.tz is None else {"timezone": t.tz}),
    },
    lib.Type_DURATION: lambda t: {"name": "duration", "unit": UNITS[t.unit]},
    lib.Type_INTERVAL_MONTH_DAY_NANO: lambda t: {"name": "interval", "unit": "MONTH_DAY_NANO"},
    lib.Type_FIXED_SIZE_BINARY: lambda t: {"name": "fixedsizebinary", "byteWidth": t.byte_width},
    lib.Type_BINARY: lambda t: {"name": "binary"},
    lib.Type_LARGE_BINARY: lambda t: {"name": "largebinary"},
    lib.Type_BINARY_VIEW: lambda t: {"name": "binaryview"},
    lib.Type_STRING: lambda t: {"name": "utf8"},
    lib.Type_LARGE_STRING: lambda t: {"name": "largeutf8"},
    lib.Type_STRING_VIEW: lambda t: {"name": "utf8view"},
    lib.Type_LIST: lambda t: {"name": "list"},
    lib.Type_LARGE_LIST: lambda t: {"name": "largelist"},
    lib.Type_LIST_VIEW: lambda t: {"name": "listview"},
    lib.Type_LARGE_LIST_VIEW: lambda t: {"name": "largelistview"},
    lib.Type_FIXED_SIZE_LIST: lambda t: {"name": "fixedsizelist", "listSize": t.list_size},
    lib.Type_STRUCT: lambda t: {"name": "struct"},
    lib.Type_MAP: lambda t: {"name": "map", "keysSorted": t.keys_sorted},
    lib.Type_SPARSE_UNION: lambda t: {"name": "union", "mode": "SPARSE", "typeIds": t.type_codes},
    lib.Type_DENSE_UNION: lambda t: {"name": "union", "mode": "DENSE", "typeIds": t.type_codes},
    lib.Type_RUN_END_ENCODED: lambda t: {"name": "runendencoded"},
}
UNITS = {"s": "SECOND", "ms": "MILLISECOND", "us": "MICROSECOND", "ns": "NANOSECOND"}
SINGLE_CHILD = (
    lib.Type_LIST,
    lib.Type_LARGE_LIST,
    lib.Type_LIST_VIEW,
    lib.Type_LARGE_LIST_VIEW,
    lib.Type_FIXED_SIZE_LIST,
)


def children_of(type_):
    if type_.id in SINGLE_CHILD:
        return [type_.value_field]
    if type_.id == lib.Type_MAP:
        return [pa.field("entries", pa.struct([type_.key_field, type_.item_field]), nullable=False)]
    if type_.id == lib.Type_RUN_END_ENCODED:
        return [pa.field("run_ends", type_.run_end_type, nullable=False), pa.field("values", type_.value_type)]
    if pa.types.is_struct(type_) or pa.types.is_union(type_):
        return [type_.field(i) for i in range(type_.num_fields)]
    return []


class Document:
    """Collects fields, columns and dictionaries; ids are numbered in the pre-order of the fields."""

    def __init__(self, schema, batches):
        self.dictionaries = []
        columns = [[batch.column(i) for batch in batches] for i in range(len(schema))]
        fields = [self.field(field, arrays) for field, arrays in zip(schema, columns, strict=True)]
        self.json = {
            "schema": {"fields": fields, "metadata": metadata(schema.metadata)},
            "batches": [
                {
                    "count": batch.num_rows,
                    "columns": [self.column(f.name, batch.column(i)) for i, f in enumerate(schema)],
                }
                for batch in batches
            ],
            "dictionaries": self.dictionaries,
        }

    def field(self, field, arrays):
        type_, pairs = field.type, metadata(field.metadata)
        if isinstance(type_, pa.BaseExtensionType):
            pairs.append({"key": "ARROW:extension:metadata", "value": ""})  # of uuid, json, bool8
            pairs.append({"key": "ARROW:extension:name", "value": type_.extension_name})
            type_, arrays = type_.storage_type, [array.storage for array in arrays]
        made = {"name": field.name, "nullable": field.nullable, "metadata": pairs}
        if pa.types.is_dictionary(type_):
            id_ = len(self.dictionaries)
            values = arrays[0].dictionary if arrays else pa.array([], type_.value_type)
            made["dictionary"] = {"id": id_, "indexType": self.type(type_.index_type), "isOrdered": type_.ordered}
            self.dictionaries.append({"id": id_})
            column = self.column("DICT", values)
            self.dictionaries[id_]["data"] = {"count": len(values), "columns": [column]}
            type_, arrays = type_.value_type, [values]
        made["type"] = self.type(type_)
        made["children"] = [
            self.field(child, [children_arrays(array)[i] for array in arrays])
            for i, child in enumerate(children_of(type_))
        ]
        return made

    def type(self, type_):
        return TYPES[type_.id](type_)

    def column(self, name, array):
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        made = {"name": name, "count": len(array)}
        if pa.types.is_dictionary(array.type):
            return made | validity(array) | plain(array.indices)
        made |= BUFFERS.get(array.type.id, plain)(array)
        children = children_of(array.type)
        if children:
            made["children"] = [
                self.column(field.name, child) for field, child in zip(children, children_arrays(array), strict=True)
            ]
        return made


def metadata(pairs):
    return [{"key": key.decode(), "value": value.decode()} for key, value in (pairs or {}).items()]


def children_arrays(array):
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return children_arrays(array.storage)
    if type_.id == lib.Type_FIXED_SIZE_LIST:
        # `values` ignores the slice.
        return [array.values.slice(array.offset * type_.list_size, len(array) * type_.list_size)]
    if type_.id in SINGLE_CHILD:
        return [array.values]
    if type_.id == lib.Type_MAP:
        fields = [type_.key_field, type_.item_field]
        return [pa.StructArray.from_arrays([array.keys, array.items], fields=fields)]
    if type_.id == lib.Type_RUN_END_ENCODED:
        return [array.run_ends, array.values]
    if pa.types.is_struct(type_) or pa.types.is_union(type_):
        return [array.field(i) for i in range(type_.num_fields)]
    return []


def validity(array):
    return {"VALIDITY": [int(bit) for bit in array.is_valid().to_pylist()]}


def values_as(array, convert, null):
    return {"DATA": [null if value is None else convert(value) for value in array.to_pylist()]}


def as_int(bits):
    def encode(array):
        convert, null = (str, "0") if bits == 64 else (int, 0)
        same = array.type.id in INTEGERS
        return validity(array) | values_as(array if same else array.view(f"int{bits}"), convert, null)

    return encode


def unscaled(array):
    with decimal.localcontext(prec=100):
        return validity(array) | values_as(array, lambda d: str(int(d.scaleb(array.type.scale))), "0")


def interval(array):
    names = ("months", "days", "nanoseconds")
    return validity(array) | values_as(array, lambda v: dict(zip(names, v, strict=True)), dict.fromkeys(names, 0))


def fixed(array):
    return validity(array) | values_as(array, lambda b: b.hex().upper(), "00" * array.type.byte_width)


def variable(convert, *, large):
    def encode(array):
        sizes = [len(v if isinstance(v, bytes) else (v or "").encode()) for v in (x or b"" for x in array.to_pylist())]
        offsets = list(itertools.accumulate(sizes, initial=0))
        offset = {"OFFSET": [str(o) if large else o for o in offsets]}
        return validity(array) | offset | values_as(array, convert, "")

    return encode


def views(convert):
    """All long values in one buffer, in order: another grouping than pyarrow's own is equal."""

    def encode(array):
        made, buffer = [], b""
        for value in array.to_pylist():
            data = value.encode() if isinstance(value, str) else value or b""
            if len(data) <= 12:
                made.append({"SIZE": len(data), "INLINED": convert(value) if data else ""})
                continue
            prefix = data[:4].hex().upper()
            made.append({"SIZE": len(data), "PREFIX_HEX": prefix, "BUFFER_INDEX": 0, "OFFSET": len(buffer)})
            buffer += data
        return validity(array) | {"VIEWS": made, "VARIADIC_DATA_BUFFERS": [buffer.hex().upper()] if buffer else []}

    return encode


def positions(*, large, sizes):
    def encode(array):
        convert = str if large else int
        made = {"OFFSET": [convert(v) for v in array.offsets.to_pylist()]}
        if sizes:
            made["SIZE"] = [convert(v) for v in array.sizes.to_pylist()]
        return validity(array) | made

    return encode


def union(array):
    # pyarrow's type_codes and offsets crash on a union without slots.
    codes = array.type_codes.to_pylist() if len(array) else []
    if array.type.id == lib.Type_SPARSE_UNION:
        return {"TYPE_ID": codes}
    return {"TYPE_ID": codes, "OFFSET": array.offsets.to_pylist() if len(array) else []}


def plain(array):
    return BUFFERS[array.type.id](array)


def to_hex(value):
    return value.hex().upper()


INTEGERS = {getattr(lib, f"Type_{kind}{bits}"): bits for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)}
BUFFERS = {
    lib.Type_NA: lambda array: {},
    lib.Type_BOOL: lambda array: validity(array) | values_as(array, bool, null=False),
    **{type_id: as_int(bits) for type_id, bits in INTEGERS.items()},
    **{
        type_id: lambda array: validity(array) | values_as(array, float, 0.0)
        for type_id in (lib.Type_HALF_FLOAT, lib.Type_FLOAT, lib.Type_DOUBLE)
    },
    **dict.fromkeys((lib.Type_DECIMAL32, lib.Type_DECIMAL64, lib.Type_DECIMAL128, lib.Type_DECIMAL256), unscaled),
    **dict.fromkeys((lib.Type_DATE32, lib.Type_TIME32), as_int(32)),
    **dict.fromkeys((lib.Type_DATE64, lib.Type_TIME64, lib.Type_TIMESTAMP, lib.Type_DURATION), as_int(64)),
    lib.Type_INTERVAL_MONTH_DAY_NANO: interval,
    lib.Type_FIXED_SIZE_BINARY: fixed,
    lib.Type_BINARY: variable(to_hex, large=False),
    lib.Type_LARGE_BINARY: variable(to_hex, large=True),
    lib.Type_STRING: variable(str, large=False),
    lib.Type_LARGE_STRING: variable(str, large=True),
    lib.Type_BINARY_VIEW: views(to_hex),
    lib.Type_STRING_VIEW: views(str),
    lib.Type_LIST: positions(large=False, sizes=False),
    lib.Type_MAP: positions(large=False, sizes=False),
    lib.Type_LARGE_LIST: positions(large=True, sizes=False),
    lib.Type_LIST_VIEW: positions(large=False, sizes=True),
    lib.Type_LARGE_LIST_VIEW: positions(large=True, sizes=True),
    lib.Type_FIXED_SIZE_LIST: validity,
    lib.Type_STRUCT: validity,
    lib.Type_SPARSE_UNION: union,
    lib.Type_DENSE_UNION: union,
    lib.Type_RUN_END_ENCODED: lambda array: {},
}


def to_json(schema, batches):
    """Return the integration JSON document of a pyarrow schema and record batches."""
    return Document(schema, batches).json
