"""Every enum, struct, union and table of Arrow's Flatbuffers schemas, declared once.

These are the declarations of ``Schema.fbs``, ``Message.fbs``, ``File.fbs``, ``Tensor.fbs`` and ``SparseTensor.fbs`` of
the Arrow columnar format 1.5, as values: `reader` and `builder` interpret them, and `fbs` prints them as IDL. Names are
the names in the specification; constants are named after the declaration, ``Struct_`` as `STRUCT_`, ``KeyValue`` as
`KEY_VALUE`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum, IntFlag
from functools import cached_property
from typing import Literal

from spark_arrow_ipc.arrow.schema import Endianness
from spark_arrow_ipc.arrow.types import DateUnit, Precision, TimeUnit
from spark_arrow_ipc.ipc.flatbuf import idl
from spark_arrow_ipc.ipc.flatbuf.idl import (
    EnumDefinition,
    SchemaFile,
    Slot,
    StructDefinition,
    StructField,
    TableDefinition,
    TableReference,
    UnionDefinition,
    Vector,
)

NAMESPACE = "org.apache.arrow.flatbuf"
"""The namespace of all five files."""

# --- enums
# `DateUnit`, `Precision`, `TimeUnit` and `Endianness` are parameters of types and schemas, so `arrow` declares them:
# it is the lower layer and must not import the codec. Their numbers are the numbers of the format.


class MetadataVersion(IntEnum):
    """Version of the metadata: V4 since 0.8, V5 since 1.0 (unions without validity)."""

    V1 = 0
    V2 = 1
    V3 = 2
    V4 = 3
    V5 = 4


class Feature(IntFlag):
    """Features that not every reader has; `Schema.features` has their numbers."""

    UNUSED = 0
    DICTIONARY_REPLACEMENT = 1
    COMPRESSED_BODY = 2


class UnionMode(IntEnum):
    """The slots of the children of a union: as many as the union (sparse), or only those used (dense)."""

    Sparse = 0
    Dense = 1


class IntervalUnit(IntEnum):
    """Unit of `Interval`."""

    YEAR_MONTH = 0
    DAY_TIME = 1
    MONTH_DAY_NANO = 2


class DictionaryKind(IntEnum):
    """The way in which a dictionary is stored."""

    DenseArray = 0


class CompressionType(IntEnum):
    """Compression codec of a body's buffers."""

    LZ4_FRAME = 0
    ZSTD = 1

    @property
    def word(self) -> Literal["lz4", "zstd"]:
        """The codec as options name it."""
        return "lz4" if self is CompressionType.LZ4_FRAME else "zstd"


class BodyCompressionMethod(IntEnum):
    """The unit of compression: each buffer by itself."""

    BUFFER = 0


class SparseMatrixCompressedAxis(IntEnum):
    """Compressed axis of a sparse matrix: CSR or CSC."""

    Row = 0
    Column = 1


class Type(IntEnum):
    """Discriminants of the union of types."""

    NONE = 0
    Null = 1
    Int = 2
    FloatingPoint = 3
    Binary = 4
    Utf8 = 5
    Bool = 6
    Decimal = 7
    Date = 8
    Time = 9
    Timestamp = 10
    Interval = 11
    List = 12
    Struct_ = 13
    Union = 14
    FixedSizeBinary = 15
    FixedSizeList = 16
    Map = 17
    Duration = 18
    LargeBinary = 19
    LargeUtf8 = 20
    LargeList = 21
    RunEndEncoded = 22
    BinaryView = 23
    Utf8View = 24
    ListView = 25
    LargeListView = 26


class MessageHeader(IntEnum):
    """Discriminants of the union of message headers."""

    NONE = 0
    Schema = 1
    DictionaryBatch = 2
    RecordBatch = 3
    Tensor = 4
    SparseTensor = 5

    @cached_property  # each batch needs it, for the context of its errors
    def noun(self) -> str:
        """The kind in words, for errors: "record batch"."""
        return re.sub("(?<=[a-z])(?=[A-Z])", " ", self.name).lower()


class SparseTensorIndex(IntEnum):
    """Discriminants of the union of sparse tensor indices."""

    NONE = 0
    SparseTensorIndexCOO = 1
    SparseMatrixIndexCSX = 2
    SparseTensorIndexCSF = 3


METADATA_VERSION = EnumDefinition(idl.SHORT, MetadataVersion, "V4 since 0.8; V5 since 1.0: unions without validity.")
FEATURE = EnumDefinition(idl.LONG, Feature, "What a file may use that not every reader knows.")
UNION_MODE = EnumDefinition(idl.SHORT, UnionMode)
PRECISION = EnumDefinition(idl.SHORT, Precision)
DATE_UNIT = EnumDefinition(idl.SHORT, DateUnit)
TIME_UNIT = EnumDefinition(idl.SHORT, TimeUnit)
INTERVAL_UNIT = EnumDefinition(idl.SHORT, IntervalUnit)
DICTIONARY_KIND = EnumDefinition(idl.SHORT, DictionaryKind)
ENDIANNESS = EnumDefinition(
    idl.SHORT, Endianness, "Byte order of the buffers of bodies, never of the metadata.", spelling=str.title
)
COMPRESSION_TYPE = EnumDefinition(idl.BYTE, CompressionType)
BODY_COMPRESSION_METHOD = EnumDefinition(idl.BYTE, BodyCompressionMethod, "BUFFER: each buffer by itself.")
SPARSE_MATRIX_COMPRESSED_AXIS = EnumDefinition(idl.SHORT, SparseMatrixCompressedAxis, "Row: CSR; Column: CSC.")

TYPE = UnionDefinition(Type)
MESSAGE_HEADER = UnionDefinition(MessageHeader)
SPARSE_TENSOR_INDEX = UnionDefinition(SparseTensorIndex)

# --- structs

BUFFER = StructDefinition(
    "Buffer",
    16,
    (StructField("offset", idl.LONG, 0), StructField("length", idl.LONG, 8)),
    "A region of a body, from the body's start, in bytes.",
)
FIELD_NODE = StructDefinition(
    "FieldNode",
    16,
    (StructField("length", idl.LONG, 0), StructField("null_count", idl.LONG, 8)),
    "Slots and nulls of one array.",
)
BLOCK = StructDefinition(
    "Block",
    24,
    (
        StructField("offset", idl.LONG, 0),
        StructField("metaDataLength", idl.INT32, 8),
        StructField("bodyLength", idl.LONG, 16),
    ),
    "One encapsulated message of a file; metaDataLength counts the prefix and the padding.",
)

# --- tables of Schema.fbs

NULL = TableDefinition("Null")
STRUCT_ = TableDefinition("Struct_")
LIST = TableDefinition("List")
LARGE_LIST = TableDefinition("LargeList")
LIST_VIEW = TableDefinition("ListView")
LARGE_LIST_VIEW = TableDefinition("LargeListView")
FIXED_SIZE_LIST = TableDefinition("FixedSizeList", (Slot(0, "listSize", idl.INT32),))
MAP = TableDefinition(
    "Map", (Slot(0, "keysSorted", idl.BOOL),), "One child: a struct of a key, never null, and a value."
)
UNION = TableDefinition(
    "Union",
    (Slot(0, "mode", UNION_MODE), Slot(1, "typeIds", Vector(idl.INT32), doc="Absent: the children's positions.")),
)
INT = TableDefinition("Int", (Slot(0, "bitWidth", idl.INT32, doc="8, 16, 32 or 64."), Slot(1, "is_signed", idl.BOOL)))
FLOATING_POINT = TableDefinition("FloatingPoint", (Slot(0, "precision", PRECISION),))
UTF8 = TableDefinition("Utf8")
BINARY = TableDefinition("Binary")
LARGE_UTF8 = TableDefinition("LargeUtf8")
LARGE_BINARY = TableDefinition("LargeBinary")
UTF8_VIEW = TableDefinition("Utf8View")
BINARY_VIEW = TableDefinition("BinaryView")
FIXED_SIZE_BINARY = TableDefinition("FixedSizeBinary", (Slot(0, "byteWidth", idl.INT32),))
BOOL = TableDefinition("Bool")
RUN_END_ENCODED = TableDefinition("RunEndEncoded", doc="Two children: run_ends and values.")
DECIMAL = TableDefinition(
    "Decimal",
    (
        Slot(0, "precision", idl.INT32),
        Slot(1, "scale", idl.INT32),
        Slot(2, "bitWidth", idl.INT32, 128, doc="32, 64, 128 or 256."),
    ),
)
DATE = TableDefinition("Date", (Slot(0, "unit", DATE_UNIT, DateUnit.MILLISECOND),))
TIME = TableDefinition(
    "Time",
    (
        Slot(0, "unit", TIME_UNIT, TimeUnit.MILLISECOND),
        Slot(1, "bitWidth", idl.INT32, 32, doc="32 for seconds and milliseconds, else 64."),
    ),
)
TIMESTAMP = TableDefinition(
    "Timestamp",
    (
        Slot(0, "unit", TIME_UNIT),
        Slot(1, "timezone", idl.STRING, doc="Absent or empty: local time of an unknown zone. Else values are UTC."),
    ),
)
INTERVAL = TableDefinition("Interval", (Slot(0, "unit", INTERVAL_UNIT),))
DURATION = TableDefinition("Duration", (Slot(0, "unit", TIME_UNIT, TimeUnit.MILLISECOND),))

# Arrow C++ never decodes values, and people put pickles and digests there.
KEY_VALUE = TableDefinition("KeyValue", (Slot(0, "key", idl.STRING), Slot(1, "value", idl.LENIENT_STRING)))
_CUSTOM_METADATA = Vector(TableReference("KeyValue"))

DICTIONARY_ENCODING = TableDefinition(
    "DictionaryEncoding",
    (
        Slot(0, "id", idl.LONG),
        Slot(1, "indexType", TableReference("Int"), doc="Absent: int32."),
        Slot(2, "isOrdered", idl.BOOL),
        Slot(3, "dictionaryKind", DICTIONARY_KIND),
    ),
)
FIELD = TableDefinition(
    "Field",
    (
        Slot(0, "name", idl.STRING),
        Slot(1, "nullable", idl.BOOL),
        Slot(2, "type", TYPE, doc="That of the values, where the field is dictionary-encoded."),
        Slot(4, "dictionary", TableReference("DictionaryEncoding")),
        Slot(5, "children", Vector(TableReference("Field"))),
        Slot(6, "custom_metadata", _CUSTOM_METADATA),
    ),
)
SCHEMA = TableDefinition(
    "Schema",
    (
        Slot(0, "endianness", ENDIANNESS),
        Slot(1, "fields", Vector(TableReference("Field"))),
        Slot(2, "custom_metadata", _CUSTOM_METADATA),
        Slot(3, "features", Vector(FEATURE)),
    ),
)

# --- tables of Message.fbs

BODY_COMPRESSION = TableDefinition(
    "BodyCompression", (Slot(0, "codec", COMPRESSION_TYPE), Slot(1, "method", BODY_COMPRESSION_METHOD))
)
RECORD_BATCH = TableDefinition(
    "RecordBatch",
    (
        Slot(0, "length", idl.LONG),
        Slot(1, "nodes", Vector(FIELD_NODE), doc="One for each field, depth first."),
        Slot(2, "buffers", Vector(BUFFER)),
        Slot(3, "compression", TableReference("BodyCompression")),
        Slot(4, "variadicBufferCounts", Vector(idl.LONG), doc="One for each field of views, depth first."),
    ),
)
DICTIONARY_BATCH = TableDefinition(
    "DictionaryBatch",
    (Slot(0, "id", idl.LONG), Slot(1, "data", TableReference("RecordBatch")), Slot(2, "isDelta", idl.BOOL)),
)
MESSAGE = TableDefinition(
    "Message",
    (
        Slot(0, "version", METADATA_VERSION),
        Slot(1, "header", MESSAGE_HEADER),
        Slot(3, "bodyLength", idl.LONG),
        Slot(4, "custom_metadata", _CUSTOM_METADATA),
    ),
)

# --- tables of File.fbs

FOOTER = TableDefinition(
    "Footer",
    (
        Slot(0, "version", METADATA_VERSION),
        Slot(1, "schema", TableReference("Schema")),
        Slot(2, "dictionaries", Vector(BLOCK)),
        Slot(3, "recordBatches", Vector(BLOCK)),
        Slot(4, "custom_metadata", _CUSTOM_METADATA),
    ),
)

# --- tables of Tensor.fbs and SparseTensor.fbs

TENSOR_DIM = TableDefinition("TensorDim", (Slot(0, "size", idl.LONG), Slot(1, "name", idl.STRING)))
_SHAPE = Vector(TableReference("TensorDim"))
TENSOR = TableDefinition(
    "Tensor",
    (
        Slot(0, "type", TYPE, required=True),
        Slot(2, "shape", _SHAPE, required=True),
        Slot(3, "strides", Vector(idl.LONG), doc="In bytes; absent: row-major."),
        Slot(4, "data", BUFFER, required=True),
    ),
)
SPARSE_TENSOR_INDEX_COO = TableDefinition(
    "SparseTensorIndexCOO",
    (
        Slot(0, "indicesType", TableReference("Int"), required=True),
        Slot(1, "indicesStrides", Vector(idl.LONG)),
        Slot(2, "indicesBuffer", BUFFER, required=True),
        Slot(3, "isCanonical", idl.BOOL),
    ),
)
SPARSE_MATRIX_INDEX_CSX = TableDefinition(
    "SparseMatrixIndexCSX",
    (
        Slot(0, "compressedAxis", SPARSE_MATRIX_COMPRESSED_AXIS),
        Slot(1, "indptrType", TableReference("Int"), required=True),
        Slot(2, "indptrBuffer", BUFFER, required=True),
        Slot(3, "indicesType", TableReference("Int"), required=True),
        Slot(4, "indicesBuffer", BUFFER, required=True),
    ),
)
SPARSE_TENSOR_INDEX_CSF = TableDefinition(
    "SparseTensorIndexCSF",
    (
        Slot(0, "indptrType", TableReference("Int"), required=True),
        Slot(1, "indptrBuffers", Vector(BUFFER), required=True),
        Slot(2, "indicesType", TableReference("Int"), required=True),
        Slot(3, "indicesBuffers", Vector(BUFFER), required=True),
        Slot(4, "axisOrder", Vector(idl.INT32), required=True),
    ),
)
SPARSE_TENSOR = TableDefinition(
    "SparseTensor",
    (
        Slot(0, "type", TYPE, required=True),
        Slot(2, "shape", _SHAPE, required=True),
        Slot(3, "non_zero_length", idl.LONG),
        Slot(4, "sparseIndex", SPARSE_TENSOR_INDEX, required=True),
        Slot(6, "data", BUFFER, required=True),
    ),
)

# --- the files

FILES: tuple[SchemaFile, ...] = (
    SchemaFile(
        "Schema.fbs",
        (),
        (
            METADATA_VERSION, FEATURE, NULL, STRUCT_, LIST, LARGE_LIST, LIST_VIEW, LARGE_LIST_VIEW, FIXED_SIZE_LIST, MAP,
            UNION_MODE, UNION, INT, PRECISION, FLOATING_POINT, UTF8, BINARY, LARGE_UTF8, LARGE_BINARY, UTF8_VIEW,
            BINARY_VIEW, FIXED_SIZE_BINARY, BOOL, RUN_END_ENCODED, DECIMAL, DATE_UNIT, DATE, TIME_UNIT, TIME,
            TIMESTAMP, INTERVAL_UNIT, INTERVAL, DURATION, TYPE, KEY_VALUE, DICTIONARY_KIND, DICTIONARY_ENCODING, FIELD,
            ENDIANNESS, BUFFER, SCHEMA,
        ),
        SCHEMA,
        "Logical types, fields and schemas.",
    ),
    SchemaFile(
        "Message.fbs",
        ("Schema.fbs", "SparseTensor.fbs", "Tensor.fbs"),
        (
            FIELD_NODE, COMPRESSION_TYPE, BODY_COMPRESSION_METHOD, BODY_COMPRESSION, RECORD_BATCH, DICTIONARY_BATCH,
            MESSAGE_HEADER, MESSAGE,
        ),
        MESSAGE,
        "The encapsulated message: what precedes each body.",
    ),
    SchemaFile("File.fbs", ("Schema.fbs",), (FOOTER, BLOCK), FOOTER, "The footer of a file."),
    SchemaFile("Tensor.fbs", ("Schema.fbs",), (TENSOR_DIM, TENSOR), TENSOR, "Tensors: an optional part of the format."),
    SchemaFile(
        "SparseTensor.fbs",
        ("Tensor.fbs",),
        (
            SPARSE_TENSOR_INDEX_COO, SPARSE_MATRIX_COMPRESSED_AXIS, SPARSE_MATRIX_INDEX_CSX, SPARSE_TENSOR_INDEX_CSF,
            SPARSE_TENSOR_INDEX, SPARSE_TENSOR,
        ),
        SPARSE_TENSOR,
        "Sparse tensors: an optional part of the format.",
    ),
)  # fmt: skip
"""The files of ``format/`` and their declarations, in order."""

TABLES: Mapping[str, TableDefinition] = {
    definition.name: definition
    for file in FILES
    for definition in file.definitions
    if isinstance(definition, TableDefinition)
}
"""Every table by its name."""
