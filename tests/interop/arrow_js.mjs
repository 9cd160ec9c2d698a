// What arrow-js reads, written as Arrow's integration JSON.
//
//     NODE_PATH=.../node_modules node arrow_js.mjs JOBS
//
// JOBS is a file with [[source, target], ...]. Prints one line of JSON a job: {"target": ..., "error": null or words}.
// Numbers, text and bytes come from arrow-js's own accessors; times, which those turn into milliseconds, from its
// buffers. The JSON writer of arrow-js itself is not used: it prints negative integers as unsigned ones, has no
// metadata, and does not know all of the types that arrow-js reads.

import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";

// `require` looks into NODE_PATH, `import` does not.
const arrow = createRequire(import.meta.url)("apache-arrow");
const { DateUnit, IntervalUnit, Precision, TimeUnit, Type, UnionMode, Vector } = arrow;

const INLINE_NBYTES = 12;

const named = (name) => () => ({ name });
const TYPES = {
    Null: named("null"),
    Bool: named("bool"),
    Int: ({ bitWidth, isSigned }) => ({ name: "int", bitWidth, isSigned }),
    Float: ({ precision }) => ({ name: "floatingpoint", precision: Precision[precision] }),
    Decimal: ({ precision, scale, bitWidth }) => ({ name: "decimal", precision, scale, bitWidth }),
    Date: ({ unit }) => ({ name: "date", unit: DateUnit[unit] }),
    Time: ({ unit, bitWidth }) => ({ name: "time", unit: TimeUnit[unit], bitWidth }),
    Timestamp: ({ unit, timezone }) => ({ name: "timestamp", unit: TimeUnit[unit], timezone: timezone ?? undefined }),
    Duration: ({ unit }) => ({ name: "duration", unit: TimeUnit[unit] }),
    Interval: ({ unit }) => ({ name: "interval", unit: IntervalUnit[unit] }),
    FixedSizeBinary: ({ byteWidth }) => ({ name: "fixedsizebinary", byteWidth }),
    Binary: named("binary"),
    LargeBinary: named("largebinary"),
    BinaryView: named("binaryview"),
    Utf8: named("utf8"),
    LargeUtf8: named("largeutf8"),
    Utf8View: named("utf8view"),
    List: named("list"),
    LargeList: named("largelist"),
    FixedSizeList: ({ listSize }) => ({ name: "fixedsizelist", listSize }),
    Struct: named("struct"),
    Map: ({ keysSorted }) => ({ name: "map", keysSorted }),
    Union: ({ mode, typeIds }) => ({ name: "union", mode: UnionMode[mode].toUpperCase(), typeIds: [...typeIds] }),
};

const nameOf = (type) => Type[type.typeId];
const hex = (bytes) => Buffer.from(bytes).toString("hex").toUpperCase();
const text = (number) => (typeof number === "bigint" ? String(number) : number);
const sequence = (length, make) => Array.from({ length }, (_, i) => make(i));

// Numbers that JSON.stringify does not know, as strings between marks that `unquote` takes away.
const bare = (number) => `\u0001${number}\u0001`;
const unquote = (json) => json.replace(/"\\u0001([^"]*)\\u0001"/g, "$1");

// Integers of a buffer, whatever typed array it is.
function integers(data, bitWidth, bytesASlot = bitWidth / 8) {
    const { buffer, byteOffset, byteLength } = data.values;
    const view = new DataView(buffer, byteOffset, byteLength);
    const get = { 32: (at) => view.getInt32(at, true), 64: (at) => view.getBigInt64(at, true) }[bitWidth];
    return (slot, number = 0) => get(slot * bytesASlot + (number * bitWidth) / 8);
}

const float = (number) => (Object.is(number, -0) ? "-0.0" : String(number));

function decimal(words, bitWidth) {
    const { buffer, byteOffset, byteLength } = words;
    const bytes = new Uint8Array(buffer, byteOffset, byteLength);
    return String(BigInt.asIntN(bitWidth, BigInt(`0x${hex([...bytes].reverse())}`)));
}

const INTERVALS = {
    YEAR_MONTH: (data) => integers(data, 32),
    DAY_TIME: (data) => {
        const at = integers(data, 32, 8);
        return (i) => ({ days: at(i, 0), milliseconds: at(i, 1) });
    },
    MONTH_DAY_NANO: (data) => {
        const [small, large] = [integers(data, 32, 16), integers(data, 64, 16)];
        return (i) => ({ months: small(i, 0), days: small(i, 1), nanoseconds: bare(large(i, 1)) });
    },
};

// How the values of slots that are not null are written: the values of `get`, or raw integers.
const VALUES = {
    Bool: (data, get) => (i) => get(i),
    Int: (data, get) => (i) => text(get(i)),
    Float: (data, get) => (i) => (Number.isFinite(get(i)) && !Object.is(get(i), -0) ? get(i) : bare(float(get(i)))),
    Decimal: (data, get) => (i) => decimal(get(i), data.type.bitWidth),
    Date: (data) => integers(data, data.type.unit === DateUnit.DAY ? 32 : 64),
    Time: (data) => integers(data, data.type.bitWidth),
    Timestamp: (data) => integers(data, 64),
    Duration: (data) => integers(data, 64),
    Interval: (data) => INTERVALS[IntervalUnit[data.type.unit]](data),
    FixedSizeBinary: (data, get) => (i) => hex(get(i)),
    Binary: (data, get) => (i) => hex(get(i)),
    LargeBinary: (data, get) => (i) => hex(get(i)),
    Utf8: (data, get) => (i) => get(i),
    LargeUtf8: (data, get) => (i) => get(i),
};

function views(data, toBytes, inlined) {
    const vector = new Vector([data]);
    const long = [];
    let offset = 0;
    const made = sequence(data.length, (i) => {
        const bytes = data.getValid(i) ? toBytes(vector.get(i)) : Buffer.alloc(0);
        if (bytes.length <= INLINE_NBYTES) {
            return { SIZE: bytes.length, INLINED: inlined(bytes) };
        }
        long.push(bytes);
        offset += bytes.length;
        return {
            SIZE: bytes.length,
            PREFIX_HEX: hex(bytes.subarray(0, 4)),
            BUFFER_INDEX: 0,
            OFFSET: offset - bytes.length,
        };
    });
    return { VIEWS: made, VARIADIC_DATA_BUFFERS: long.length ? [hex(Buffer.concat(long))] : [] };
}

const offsets = (data) => ({ OFFSET: data.length ? [...data.valueOffsets].map(text) : [0] });
const VARIABLE = {
    Binary: offsets,
    LargeBinary: offsets,
    Utf8: offsets,
    LargeUtf8: offsets,
    List: offsets,
    LargeList: offsets,
    Map: offsets,
    BinaryView: (data) => views(data, (bytes) => Buffer.from(bytes), hex),
    Utf8View: (data) => views(data, (value) => Buffer.from(value, "utf8"), (bytes) => bytes.toString("utf8")),
    Union: (data) => ({
        TYPE_ID: [...data.typeIds],
        ...(data.type.mode === UnionMode.Dense ? { OFFSET: [...data.valueOffsets] } : {}),
    }),
};

class Document {
    dictionaries = new Map();

    field(field) {
        const { name, nullable, type, metadata } = field;
        const values = nameOf(type) === "Dictionary" ? type.dictionary : type;
        const made = { name, nullable, type: this.type(values), children: this.fields(values.children ?? []) };
        if (values !== type) {
            const indexType = TYPES.Int(type.indices);
            made.dictionary = { id: Number(type.id), indexType, isOrdered: type.isOrdered };
        }
        return { ...made, metadata: this.metadata(metadata) };
    }

    fields(fields) {
        return fields.map((field) => this.field(field));
    }

    type(type) {
        return TYPES[nameOf(type)](type);
    }

    metadata(pairs) {
        return [...pairs].map(([key, value]) => ({ key, value }));
    }

    column(name, data) {
        const { type, length } = data;
        const made = { name, count: length };
        const kind = nameOf(type);
        if (kind !== "Null" && kind !== "Union") {
            made.VALIDITY = sequence(length, (i) => (data.getValid(i) ? 1 : 0));
        }
        if (kind === "Dictionary") {
            this.dictionary(type, data.dictionary);
            return { ...made, DATA: [...data.values].slice(0, length).map(text) };
        }
        Object.assign(made, VARIABLE[kind]?.(data));
        if (kind in VALUES) {
            const vector = new Vector([data]);
            const values = VALUES[kind](data, (i) => vector.get(i));
            made.DATA = sequence(length, (i) => (data.getValid(i) ? text(values(i)) : ""));
        }
        if (data.children?.length) {
            made.children = data.children.map((child, i) => this.column(type.children[i].name, child));
        }
        return made;
    }

    dictionary(type, vector) {
        const id = Number(type.id);
        if (this.dictionaries.has(id)) {
            return;
        }
        if (vector.data.length !== 1) {
            throw new Error(`a dictionary of ${vector.data.length} pieces`);
        }
        const [data] = vector.data;
        this.dictionaries.set(id, {
            id,
            data: { count: data.length, columns: [this.column(`DICT${id}`, data)] },
        });
    }

    of(bytes) {
        const reader = arrow.RecordBatchReader.from(bytes).open();
        const { fields, metadata } = reader.schema;
        const schema = { fields: this.fields(fields), metadata: this.metadata(metadata) };
        const batches = [...reader].map((batch) => ({
            count: batch.numRows,
            columns: fields.map((field, i) => this.column(field.name, batch.data.children[i])),
        }));
        return { schema, batches, dictionaries: [...this.dictionaries.values()] };
    }
}

for (const [source, target] of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
    let error = null;
    try {
        writeFileSync(target, unquote(JSON.stringify(new Document().of(readFileSync(source)))));
    } catch (thrown) {
        error = thrown.message;
    }
    console.log(JSON.stringify({ target, error }));
}
