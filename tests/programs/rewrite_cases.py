"""Files that were rewritten below their statistics, and what `where` and `_row_index` make of them.

Each case writes a random file with statistics as a write of Spark does, changes it in one of many ways that keep the
footer's metadata, and asks random predicates. The oracle is pyarrow, which knows nothing of statistics.

    python tests/programs/rewrite_cases.py --cases 200 --seed 1
"""

import argparse
import io
import random
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import pyarrow as pa
import pyarrow.compute as pc
from statistics_cases import write_described

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import InvalidArrowError
from spark_arrow_ipc.ipc.constants import EOS, MAGIC
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.options.options import parse_read
from spark_arrow_ipc.spark.read.dataset_schema import read_spark_schema
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader

BLOCKS = 8


# ---- what is changed: batches -> batches


def reorder(r, batches):
    return r.sample(batches, len(batches))


def swap_neighbours(r, batches):
    i = r.randrange(len(batches) - 1)
    return [*batches[:i], batches[i + 1], batches[i], *batches[i + 2 :]]


def shift(r, batches):
    by = r.choice([1, 1_000, -70])
    return [with_column(batch, "a", pc.add(batch["a"], by)) for batch in batches]


def shift_one(r, batches):
    i = r.randrange(len(batches))
    return [shift(r, [batch])[0] if i == number else batch for number, batch in enumerate(batches)]


def filter_rows(r, batches):
    keeps = [pa.array([r.random() < 0.6 for _ in range(batch.num_rows)]) for batch in batches]
    return [batch.filter(keep) for batch, keep in zip(batches, keeps, strict=True)]


def append(r, batches):
    return [*batches, *shift(r, r.sample(batches, r.randrange(1, 3)))]


def append_and_drop(r, batches):
    """As many batches as before."""
    return [*batches[1:], shift(r, batches[:1])[0]]


def same_sizes(r, batches):
    """Other values of the same widths: with one writer, the same headers and blocks."""
    order = [r.sample(range(batch.num_rows), batch.num_rows) for batch in batches]
    moved = [batch.take(pa.array(positions)) for batch, positions in zip(batches, order, strict=True)]
    return [with_column(batch, "a", pc.add(batch["a"], r.choice([500, -500]))) for batch in moved]


def nothing(_, batches):
    return batches


CHANGES = (reorder, swap_neighbours, shift, shift_one, filter_rows, append, append_and_drop, same_sizes, nothing)


def with_column(batch, name, values):
    i = batch.schema.get_field_index(name)
    return batch.set_column(i, batch.schema.field(i), values)


# ---- who writes: bytes of the original, new batches -> bytes


def by_pyarrow(r, original, batches):
    metadata = pa.ipc.open_file(original).metadata
    options = pa.ipc.IpcWriteOptions(compression=r.choice([None, "lz4", "zstd"]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batches[0].schema, metadata=metadata, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def by_pyarrow_with_all_metadata(_, original, batches):
    """Footer metadata into the schema too, and each batch with the metadata of the one in its place."""
    reader = pa.ipc.open_file(original)
    schema = batches[0].schema.with_metadata({**(batches[0].schema.metadata or {}), **reader.metadata})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, metadata=reader.metadata) as writer:
        for i, batch in enumerate(batches):
            found = reader.get_batch_with_custom_metadata(min(i, reader.num_record_batches - 1))
            writer.write_batch(batch.replace_schema_metadata(schema.metadata), custom_metadata=found.custom_metadata)
    return sink.getvalue().to_pybytes()


def by_our_writer(r, original, batches):
    """Our codec, used by somebody who copies the footer's metadata; with checksums of its own or without."""
    compression = _compression_of(original)
    sink = io.BytesIO()
    ours = [bridge.batch_from_pyarrow(batch) for batch in batches]
    options = ipc.WriteOptions(compression=compression, checksums=r.random() < 0.5)
    with ipc.open(original) as reader, ipc.create(sink, ours[0].schema, options) as writer:
        writer.custom_metadata.update(reader.custom_metadata)
        for batch in ours:
            writer.write(batch)
    return sink.getvalue()


def by_splicing(r, original, batches):
    """New messages after the old schema message, with the old footer pairs: an edit of bytes, not a writer of tables."""
    new = io.BytesIO()
    ours = [bridge.batch_from_pyarrow(batch) for batch in batches]
    with ipc.create(new, ours[0].schema, ipc.WriteOptions(compression=_compression_of(original))) as writer:
        for batch in ours:
            writer.write(batch)
        with ipc.open(original) as reader:
            writer.custom_metadata.update(reader.custom_metadata)
    return _renumbered(original, new.getvalue())


def _renumbered(original, new):
    """Replace the schema message of a file by that of another one, and move the blocks of its footer."""
    from spark_arrow_ipc.ipc.flatbuf import builder, tables
    from spark_arrow_ipc.ipc.messages.schema import encode_custom_metadata, encode_schema, number_dictionaries

    with ipc.open(original) as old, ipc.open(new) as own:
        head = original[: min(block.byte_offset for block in (*old.blocks, *old.dictionary_blocks))]
        start = min(block.byte_offset for block in (*own.blocks, *own.dictionary_blocks))
        stop = max(block.byte_offset + block.nbytes for block in (*own.blocks, *own.dictionary_blocks))
        places = {
            name: [(b.byte_offset - start + len(head), b.metadata_nbytes, b.body_nbytes) for b in blocks]
            for name, blocks in (("dictionaries", own.dictionary_blocks), ("recordBatches", own.blocks))
        }
        footer = builder.build(
            tables.FOOTER,
            {
                "version": 4,
                "schema": encode_schema(number_dictionaries(own.schema)),
                **{name: _int64s(rows) for name, rows in places.items()},
                "custom_metadata": encode_custom_metadata(old.custom_metadata),
            },
        )
    return b"".join([head, new[start:stop], EOS, footer, len(footer).to_bytes(4, "little"), MAGIC])


def _int64s(rows):
    import numpy as np

    return np.array(rows, np.int64).reshape(-1, 3)


def _compression_of(data):
    with ipc.open(data) as reader:
        compression = reader.read_header(0).compression
    return None if compression is None else compression.word


WRITERS = (by_pyarrow, by_pyarrow_with_all_metadata, by_our_writer, by_splicing)


# ---- the cases


def original_batches(r):
    """Batches whose column `a` rises, so that statistics skip most of them."""
    batches, first = [], 0
    rows = r.choice([40, 100])
    for _ in range(BLOCKS):
        count = rows if r.random() < 0.7 else r.randrange(1, 2 * rows)
        numbers = range(first, first + count)
        a = pa.array([None if r.random() < 0.05 else i for i in numbers], pa.int64())
        s = pa.array([f"n{i % 50:03}" for i in numbers])
        x = pa.array([i / 4 for i in numbers], pa.float64())
        d = pa.array([f"k{i // 100}" for i in numbers]).dictionary_encode()
        batches.append(pa.record_batch({"a": a, "s": s, "x": x, "d": d}))
        first += count
    table = pa.Table.from_batches(batches).unify_dictionaries()
    return [batch for batch in table.to_batches() if batch.num_rows]


def described(batches, compression=None):
    """Return the bytes of a file of ours with statistics."""
    sink = io.BytesIO()
    ours = [bridge.batch_from_pyarrow(batch) for batch in batches]
    write_described(sink, ours, ours[0].schema, compression=compression)
    return sink.getvalue()


def predicate(r, rows):
    """Return a predicate as text, and as a mask of a table."""
    value = r.randrange(-600, rows + 1_200)
    return r.choice([
        (f"a >= {value}", lambda table: pc.greater_equal(table["a"], value)),
        (f"a < {value}", lambda table: pc.less(table["a"], value)),
        (f"a = {value}", lambda table: pc.equal(table["a"], value)),
        ("a IS NULL", lambda table: pc.is_null(table["a"])),
        (f"x > {value / 4}", lambda table: pc.greater(table["x"], value / 4)),
        (f"d = 'k{value // 100}'", lambda table: pc.equal(table["d"].cast(pa.string()), f"k{value // 100}")),
    ])  # fmt: skip


def expected_rows(data, mask):
    """Return the rows that pyarrow finds, each with its number in the file."""
    table = pa.ipc.open_file(data).read_all()
    table = table.append_column("_row_index", pa.array(range(table.num_rows), pa.int64()))
    found = table.filter(mask(table))
    return list(zip(*(found[name].to_pylist() for name in ("_row_index", "a", "s")), strict=True))


def found_rows(path, where, **options):
    """Return the rows that a plan and its tasks find."""
    given = {"path": str(path), "metadataColumns": "true", **options}
    parsed = parse_read(given if where is None else {**given, "where": where})
    reader = ArrowIpcBatchReader(read_spark_schema(parsed), parsed)
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return sorted(
        row for b in batches for row in zip(*(b[n].to_pylist() for n in ("_row_index", "a", "s")), strict=True)
    )


SPLITS = ({}, {"maxPartitionBytes": "4k", "minPartitionNum": "1"})


def check_rewrite(r, path, change, write):
    """Rewrite one file and ask it; return whether its statistics were used, were ignored, or the file was refused.

    Only bytes that were edited below the old schema message may be refused, or skipped as they were written.
    """
    batches = original_batches(r)
    original = described(batches, r.choice([None, "lz4", "zstd"]))
    data = write(r, original, change(r, batches))
    path.write_bytes(data)
    outcome = "used"
    for _ in range(4):
        where, mask = predicate(r, sum(batch.num_rows for batch in batches))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                found = found_rows(path, where, **r.choice(SPLITS))
            except InvalidArrowError:
                assert write is by_splicing
                outcome = "refused"
                continue
        expected = expected_rows(data, mask)
        if expected != found and write is by_splicing:
            expected, outcome = expected_rows(original, mask), "skipped as written"
        assert expected == found, (
            where,
            change.__name__,
            write.__name__,
            sorted(set(expected) ^ set(found)),
            len(expected),
            len(found),
        )
        outcome = "ignored" if told else outcome
    return outcome


def check_edit(r, path):
    """Change bytes of one body in place. What is read is an error, what is skipped is skipped as it was written."""
    batches = original_batches(r)
    data = bytearray(described(batches, r.choice([None, "lz4", "zstd"])))
    with ipc.open(bytes(data)) as reader:
        block = r.choice(reader.blocks)
        header = reader.read_header(reader.blocks.index(block))
    start, nbytes = r.choice([(start, nbytes) for start, nbytes in header.buffers.tolist() if nbytes])
    where, mask = predicate(r, sum(batch.num_rows for batch in batches))
    expected = expected_rows(bytes(data), mask)
    data[block.byte_offset + block.metadata_nbytes + start + r.randrange(nbytes)] ^= 1 << r.randrange(8)
    path.write_bytes(data)
    try:
        found_rows(path, None)
    except InvalidArrowError:
        pass
    else:
        raise AssertionError("an edited body was read")
    try:
        found = found_rows(path, where, **r.choice(SPLITS))
    except InvalidArrowError:
        return "error"
    assert expected == found
    return "skipped as written"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    outcomes = Counter()
    with tempfile.TemporaryDirectory() as directory:
        for i in range(arguments.cases):
            r = random.Random(f"{arguments.seed} {i}")
            path = Path(directory) / f"{i}.arrow"
            if i % 6 == 5:
                outcomes["edit in place", check_edit(r, path)] += 1
                continue
            change, write = CHANGES[i % len(CHANGES)], r.choice(WRITERS)
            outcomes[f"{change.__name__} {write.__name__}", check_rewrite(r, path, change, write)] += 1
            path.unlink()
    for (what, outcome), count in sorted(outcomes.items()):
        print(f"{count:5} {what}: {outcome}")
    print(f"{arguments.cases} files, 0 wrong rows")


if __name__ == "__main__":
    sys.exit(main())
