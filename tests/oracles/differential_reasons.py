"""Why our reader and pyarrow's may disagree about the same bytes: these are the only reasons that there are.

Each `Reason` quotes what decides, and says how often it applies among the 20,000 cases of the ordinary run of
`differential` (0: only among others): more is a change that somebody has to look at. `OURS_REFUSES` is where we are stricter, `PYARROW_REFUSES`
where we are not, and `DIFFERENT` where both decode and we hold what is written, pyarrow something else.
"""

import re
from dataclasses import dataclass

EQUAL = "both decode, equal"
REFUSED = "both refuse"
CRASHED = "we refuse, pyarrow's process dies"
UNEXPLAINED = "UNEXPLAINED"

NOT_OURS = "NOT OURS"
"""Begins what stands for an error of ours that is no `ArrowIpcError`."""
CRASH = "CRASH"
"""Begins what stands for the end of a process inside pyarrow."""

COLUMNAR = "Columnar.rst"
FLATBUFFERS = "FlatBuffers Internals"
V4_COMPRESSED = "Optional compression of the message body"
V4_SOURCE = (
    "Message.fbs, RecordBatch.compression: of the batch, whatever its version; polars, nanoarrow and arrow-rs agree"
)
V4_CASE = r"\.(lz4|zstd)\.arrows? byte \d+ from 4 to 3$"


@dataclass(frozen=True)
class Reason:
    """A reason to disagree.

    Parameters
    ----------
    name
        What is wrong with the bytes.
    pattern
        Regular expressions that find our error, pyarrow's, or the difference: of whoever has one here.
    quotation, source
        What decides, and where it stands.
    most
        How many of the cases of the ordinary run it explains.
    case
        Regular expression that finds the kind of case, where the sentence alone would excuse too much.
    """

    name: str
    pattern: str
    quotation: str
    source: str
    most: int
    case: str = ""

    def explains(self, what: str, sentence: str) -> bool:
        """Return whether this reason is behind a sentence about a case."""
        return re.search(self.pattern, sentence) is not None and re.search(self.case, what) is not None


OURS_REFUSES = (
    Reason(
        "a buffer that nobody needs lies outside the body, or at no multiple of 8",
        r"^InvalidBodyError: .*expected a buffer at a multiple of 8 inside the body",
        "a flat sequence of memory buffers written end-to-end with appropriate padding to ensure a minimum of 8-byte "
        "alignment [...] The memory offset and length of each constituent Buffer in the record batch's body",
        f'{COLUMNAR} "RecordBatch message"',
        902,
    ),
    Reason(
        "the null count is not that of the validity bitmap",
        r"^InvalidBodyError: .*expected a null count of \d+, as the validity bitmap has it",
        "The number of null value slots is a property of the physical array and considered part of the data structure.",
        f'{COLUMNAR} "Null count"',
        37,
    ),
    Reason(
        "more nulls than slots, in a node whose null count pyarrow does not read",
        r"^InvalidMetadataError: .*expected field nodes with 0 <= null_count <= length",
        "The null count is represented in the Arrow metadata as a 64-bit signed integer, as it may be as large as the "
        "array length.",
        f'{COLUMNAR} "Null count"',
        9,
    ),
    Reason(
        "the vtable says another size of its table than there is",
        r"^InvalidMetadataError: .*expected inline bytes of \w+ of 4 to",
        "The second one is the size of the object, in bytes (including the vtable offset). This size could be used for "
        "streaming, to know how many bytes to read to be able to access all inline fields of the object.",
        FLATBUFFERS,
        122,
    ),
    Reason(
        "a field lies behind the end of its table",
        r"^InvalidMetadataError: .*expected \w+\.\w+ within the table's \d+ inline bytes",
        "The second one is the size of the object, in bytes (including the vtable offset). This size could be used for "
        "streaming, to know how many bytes to read to be able to access all inline fields of the object.",
        FLATBUFFERS,
        23,
    ),
    Reason(
        "the vtable is too short for its own size",
        r"^InvalidMetadataError: .*expected (a vtable of \w+ of at least 4|the vtable of \w+ within)",
        "The first element is the size of the vtable in bytes, including the size element.",
        FLATBUFFERS,
        23,
    ),
    Reason(
        "text is no UTF-8, where pyarrow does not look at it",
        r"^InvalidMetadataError: .*in UTF-8, found",
        "Strings (indicated by string), which may only hold UTF-8 or 7-bit ASCII.",
        "FlatBuffers schemas, Vectors and strings",
        15,
    ),
    Reason(
        "an enum's value that does not exist, which pyarrow takes for the first or last one",
        r"^InvalidMetadataError: .*(is not a valid (TimeUnit|Precision|DateUnit)|a union mode of 0|an interval unit of 0)",
        "enum UnionMode : short { Sparse, Dense }; enum TimeUnit : short { SECOND, MILLISECOND, MICROSECOND, NANOSECOND }",
        "Schema.fbs",
        15,
    ),
    Reason(
        "the first bytes are not the magic: pyarrow looks at the last ones only",
        r"^NotArrowError: expected an Arrow IPC file \(ARROW1\) or stream",
        "The file starts and ends with a magic string ARROW1 (plus padding).",
        f'{COLUMNAR} "IPC File Format"',
        25,
    ),
    Reason(
        "the footer's metadata version does not exist",
        r"^UnsupportedError: the footer has metadata version",
        "enum MetadataVersion : short { V1, V2, V3, V4, V5 }",
        "Schema.fbs",
        8,
    ),
    Reason(
        "more nodes, buffers or variadic counts than the schema implies",
        r"^InvalidMetadataError: .*expected \d+ (buffers|field nodes|variadic buffer counts), as the schema implies",
        "Fields and buffers are flattened by a pre-order depth-first traversal of the fields in the record batch.",
        f'{COLUMNAR} "RecordBatch message"',
        11,
    ),
    Reason(
        "a compressed buffer is cut or too long; pyarrow does not read a bitmap without nulls, nor behind a frame",
        r"^InvalidBodyError: .*(before compressed data|one (LZ4|zstd) frame|a (whole|complete) (LZ4|zstd) frame|the zstd frame is broken|a frame of|uncompressed bytes"
        r"|an uncompressed length of at least|bytes from an LZ4 frame)",
        "Each constituent buffer is first compressed with the indicated compressor, and then written with the "
        "uncompressed length in the first 8 bytes as a 64-bit little-endian signed integer followed by the compressed "
        "buffer bytes.",
        "Message.fbs, BodyCompressionMethod.BUFFER",
        16,
    ),
    Reason(
        "a type without children has some",
        r"^InvalidMetadataError: .*expected no child fields of",
        "children apply only to nested data types like Struct, List and Union. For primitive types children will have "
        "length 0.",
        "Schema.fbs, Field.children",
        3,
    ),
    Reason(
        "metadata does not end at a multiple of 8 bytes",
        r"^InvalidFramingError: .*expected a metadata length of at least 0 that ends at a multiple of 8",
        "The metadata_size includes the size of the Message plus padding. [...] Padding bytes to an 8-byte boundary",
        f'{COLUMNAR} "Encapsulated message format"',
        0,
    ),
    Reason(
        "more slots than the limit, in types without bytes",
        r"^LimitError: .*the budget max_slots",
        "An implementation of Arrow is considered valid even if it only supports lengths up to the maximum 32-bit signed "
        "integer.",
        f'{COLUMNAR} "Array lengths"',
        0,
    ),
    Reason(
        "an endianness that does not exist",
        r"^InvalidMetadataError: .*expected an endianness of 0 or 1",
        "enum Endianness : short { Little, Big }",
        "Schema.fbs",
        0,
    ),
    Reason(
        "a batch of fewer than no rows, without columns that would say so",
        r"^InvalidMetadataError: .*expected a record batch length of at least 0",
        "number of records / rows. The arrays in the batch should all have this length",
        "Message.fbs, RecordBatch.length",
        2,
    ),
    Reason(
        "a block outside of the file, of a dictionary that no field has",
        r"^InvalidFramingError: dictionary batch .*expected a block at a multiple of 8 that ends before the footer",
        "At the end of the file, we write a footer containing a redundant copy of the schema (which is a part of the "
        "streaming format) plus memory offsets and sizes for each of the data blocks in the file.",
        f'{COLUMNAR} "IPC File Format"',
        0,
    ),
    Reason(
        "an index beyond a dictionary, in the values of another dictionary, which pyarrow does not look at",
        r"^InvalidBodyError: dictionary batch .*expected dictionary indices from 0 to below",
        "Dictionary encoding is a data representation technique to represent values by integers referencing a dictionary",
        f'{COLUMNAR} "Dictionary-encoded Layout"',
        0,
    ),
    Reason(
        "a block that reaches into the footer, or into another block",
        r"^InvalidFramingError: (record|dictionary) batch .*expected a block (at a multiple of 8 that ends before the footer|after the one)",
        "At the end of the file, we write a footer containing a redundant copy of the schema (which is a part of the "
        "streaming format) plus memory offsets and sizes for each of the data blocks in the file.",
        f'{COLUMNAR} "IPC File Format"',
        0,
    ),
    Reason(
        "the footer leaves out batches, or the first message ends before the first block: pyarrow reads fewer rows",
        r"^InvalidFramingError: expected blocks in the footer for all bytes between the schema and the footer",
        "At the end of the file, we write a footer containing a redundant copy of the schema (which is a part of the "
        "streaming format) plus memory offsets and sizes for each of the data blocks in the file.",
        f'{COLUMNAR} "IPC File Format"',
        10,
    ),
    Reason(
        "a dictionary batch says another length than its values have",
        r"^InvalidBodyError: dictionary batch .*expected a column of [\d,]+ rows",
        "number of records / rows. The arrays in the batch should all have this length",
        "Message.fbs, RecordBatch.length",
        57,
    ),
    Reason(
        "a validity bitmap that is there and too short, of an array without nulls",
        r"^InvalidBodyError: .*expected a validity bitmap of \d+ bytes for \d+ slots",
        "Arrays having a 0 null count may choose to not allocate the validity bitmap",
        f'{COLUMNAR} "Validity bitmaps": one that is not allocated has no bytes',
        0,
    ),
    Reason(
        "a message takes another number of bytes than its block in the footer says",
        r"^InvalidFramingError: .*expected a message whose metadata takes \d+ bytes, as the footer says",
        "At the end of the file, we write a footer containing a redundant copy of the schema (which is a part of the "
        "streaming format) plus memory offsets and sizes for each of the data blocks in the file.",
        f'{COLUMNAR} "IPC File Format"',
        0,
    ),
)
"""pyarrow decodes, and we refuse."""

PYARROW_REFUSES = (
    Reason(
        "the null count of a Null array is not its length: pyarrow believes it, we count",
        r"^ArrowInvalid: .*null_count value \(\d+\) doesn't match actual number of nulls in array",
        "a simplified memory-efficient layout for the Null data type where all values are null. In this case no memory "
        "buffers are allocated.",
        f'{COLUMNAR} "Null Layout"',
        2,
    ),
    Reason(
        "values outside of their type's range, which 16 golden files hold and their JSON has",
        r"^ArrowInvalid: .*(does not fit in precision of decimal|does not represent a whole number of days"
        r"|is not within the acceptable range of)",
        "(no sentence: golden files of Arrow hold such values, and their JSON says that they are right; ARROW-13558)",
        "arrow-testing, generated_decimal and generated_datetime",
        2,
    ),
    Reason(
        "storage or metadata are not what pyarrow's class of the extension type wants: we keep them as they are",
        r"^ArrowInvalid: (Invalid storage type for \w+|Expected \w+ storage type|Unexpected serialized metadata"
        r"|Serialize data must be empty)",
        "This extension metadata can annotate any of the built-in Arrow logical types. The intent is that an "
        "implementation that does not support an extension type can still handle the underlying data.",
        f'{COLUMNAR} "Extension Types"',
        1,
    ),
    Reason(
        "a pair of custom metadata without a key or a value",
        r"^OSError: Unexpected null field custom_metadata\.(key|value)",
        "table KeyValue { key: string; value: string; } (neither is required)",
        "Schema.fbs",
        0,
    ),
    Reason(
        "a schema without the vector of its fields, which is one without fields",
        r"^OSError: Unexpected null field Schema\.fields",
        "table Schema { fields: [Field]; } (not required)",
        "Schema.fbs",
        0,
    ),
    Reason(
        "an index type that is not there, which is one",
        r"^OSError: Unexpected null field DictionaryEncoding\.indexType",
        "The dictionary indices are constrained to be non-negative integers. If this field is null, the indices must be "
        "signed int32.",
        "Schema.fbs, DictionaryEncoding.indexType",
        0,
    ),
    Reason(
        "custom metadata of a message of version V4: pyarrow takes any for the compression of Arrow 0.17",
        r"^ArrowInvalid: Only LZ4_FRAME and ZSTD compression allowed",
        "custom_metadata: [ KeyValue ];",
        "Message.fbs, Message",
        0,
        case=r"metadata\.arrows? byte \d+ from 4 to 3$",
    ),
    Reason(
        "a map's entries are flagged as nullable and none is null: a null one is refused when the values are checked",
        r"^ArrowInvalid: Map's key-item pairs must be non-nullable structs",
        "Whether the field is semantically nullable. While this has no bearing on the array's physical layout, many "
        "systems distinguish nullable and non-nullable fields",
        f'{COLUMNAR} "Schema message" (Schema.fbs forbids the flag; the entries are sound all the same)',
        0,
    ),
    Reason(
        "compressed buffers with metadata V4: pyarrow ignores that they are compressed",
        r"^ArrowInvalid: In column \d+",
        V4_COMPRESSED,
        V4_SOURCE,
        0,
        case=V4_CASE,
    ),
    Reason(
        "a dictionary block that is none, in a file whose columns need no dictionary: we do not read it",
        r"^OSError: Header-type of flatbuffer-encoded Message is not DictionaryBatch",
        "This enables random access to any record batch in the file.",
        f'{COLUMNAR} "IPC File Format"',
        0,
    ),
    Reason(
        "runs with metadata V4, which is older than they are: pyarrow looks for a validity bitmap that they never had",
        r"^OSError: buffer_index out of range",
        "The REE parent has no validity bitmap, and it's null count field should always be 0.",
        f'{COLUMNAR} "Run-End Encoded Layout"',
        0,
        case=r"run_ends\.\S*arrows? byte \d+ from 4 to 3$",
    ),
    Reason(
        "a dictionary batch of an id that no field has: nothing can refer to it",
        r"^ArrowKeyError: No record of dictionary type with id",
        "The complete semantic schema for a sequence of record batches, therefore, consists of the schema along with all "
        "of the dictionaries.",
        f'{COLUMNAR} "Dictionary Messages"',
        1,
    ),
    Reason(
        "a stream that ends among its dictionaries, before any record batch",
        r"^ArrowInvalid: IPC stream ended without reading the expected number \(\d+\) of dictionaries",
        "The stream writer can signal end-of-stream (EOS) either by writing 8 bytes [...] or closing the stream interface.",
        f'{COLUMNAR} "IPC Streaming Format"',
        2,
    ),
    Reason(
        "a width of bytes that pyarrow has no room for, in a file without rows",
        r"^ArrowInvalid: byte width of FixedSizeBinaryType too large",
        "table FixedSizeBinary { byteWidth: int; }",
        "Schema.fbs",
        0,
    ),
)
"""We decode, and pyarrow refuses."""

DIFFERENT = (
    Reason(
        "pyarrow writes an extension type's metadata itself, from its own class",
        r"ARROW:extension:metadata",
        "'ARROW:extension:metadata' for a serialized representation of the ExtensionType necessary to reconstruct the "
        "custom type",
        f'{COLUMNAR} "Extension Types"',
        0,
    ),
    Reason(
        "compressed buffers with metadata V4: pyarrow takes them for values",
        r"^batch \d+, ",
        V4_COMPRESSED,
        V4_SOURCE,
        0,
        case=V4_CASE,
    ),
    Reason(
        "the name of an extension type twice: we keep both pairs, pyarrow's Python shows one",
        r"^field: pyarrow has .*'ARROW:extension:name', .* we have .*'ARROW:extension:name', ",
        "custom_metadata: [KeyValue]",
        "Schema.fbs, Field",
        0,
    ),
)
"""Both decode, and hold different things."""

REASONS = (*OURS_REFUSES, *PYARROW_REFUSES, *DIFFERENT)


def classify(what: str, ours: str | None, theirs: str | None, difference: str | None) -> str:
    """Return the name of the reason for what two readers say of a case, or `EQUAL`, `REFUSED`, `CRASHED`, `UNEXPLAINED`."""
    if ours is not None and ours.startswith(NOT_OURS):
        return UNEXPLAINED
    if theirs is not None and theirs.startswith(CRASH):
        return CRASHED if ours is not None else UNEXPLAINED
    if ours is not None and theirs is not None:
        return REFUSED
    if ours is not None:
        reasons, sentence = OURS_REFUSES, ours
    elif theirs is not None:
        reasons, sentence = PYARROW_REFUSES, theirs
    elif difference is not None:
        reasons, sentence = DIFFERENT, difference
    else:
        return EQUAL
    return next((reason.name for reason in reasons if reason.explains(what, sentence)), UNEXPLAINED)
