"""Structured mutants: sound files, changed as somebody who knows the format would change them.

    python tests/fuzz/mutants.py --count 100000             mutants 0 to 99,999
    python tests/fuzz/mutants.py --first 100000 --count 900000
    python tests/fuzz/mutants.py --show NUMBER              one mutant: what was done, and what our reader says
    python tests/fuzz/mutants.py --tensors --count 100000   mutants of tensors

A mutant is its number: it chooses a seed (`seeds.files`), one to three changes, and their values. A change is made on
what the bytes mean, and the file is put together again, so that most mutants pass the first checks: a slot of a table
(a type's parameters, field nodes, buffers, codecs, dictionary ids), a word of a body (offsets, indices, sizes, views,
run ends, compressed lengths), a whole message (left out, doubled, moved, taken from another file). Some are changed in
the raw bytes of the metadata as well, whole words and vtable entries.

Each is read in every way that the reader has: whole with both validations and checked by `validate`, as rows, small
batches joined, by its index, recovered. A leak is an error that is no `ArrowIpcError`, more than `MOST_SECONDS`, more
than `ADDRESS_SPACE` bytes, or the end of the process.
"""

import argparse
import mmap
import os
import random
import resource
import signal
import struct
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import numpy as np
from fuzz import seeds, targets

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.bytes.source import open_source
from spark_arrow_ipc.ipc.flatbuf import builder, reader, tables
from spark_arrow_ipc.ipc.messages.message import decode_message
from spark_arrow_ipc.ipc.recovery import open_recovered
from spark_arrow_ipc.ipc.tensors.read import iterate_tensors

MOST_SECONDS = 10
ADDRESS_SPACE = 2 << 30
"""Beyond what the process has after its imports."""
PIECE = 2_000
"""Mutants of one process."""

MAGIC = b"ARROW1"
CONTINUATION = b"\xff\xff\xff\xff"
NUMBERS = (
    0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 63, 64, 65, 100, 127, 128, 255, 256, 1000, 32767, 32768, 65535, 65536,
    (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 40) + 1, (1 << 62) - 1, (1 << 63) - 1,
)  # fmt: skip


@dataclass
class Parts:
    """A file or stream taken apart: the flatbuffer and the body of each message, and the footer of a file."""

    messages: list[tuple[bytes, bytes]]
    footer: dict | None


def parts_of(content):
    """Take a sound file or stream apart; None if its messages do not follow one another."""
    is_file = content.startswith(MAGIC)
    footer = None
    if is_file:
        nbytes = struct.unpack_from("<i", content, len(content) - 10)[0]
        footer = reader.to_mapping(reader.root(content[-10 - nbytes : -10], tables.FOOTER))
        content = content[8 : -10 - nbytes]
    messages = []
    for flatbuffer in seeds.messages(content):
        start = content.index(flatbuffer) + len(flatbuffer)
        nbytes = decode_message(memoryview(flatbuffer), ipc.Limits()).body_nbytes
        messages.append((flatbuffer, content[start : start + nbytes]))
    return Parts(messages, footer) if messages else None


@cache
def origins():
    """Return the seeds that can be taken apart."""
    found = []
    for content in seeds.files():
        try:
            with warnings.catch_warnings(action="ignore"), ipc.open(content) as opened:
                list(opened)
            parts = parts_of(content)
        except ArrowIpcError:
            continue
        if parts is not None:
            found.append(parts)
    return found


@cache
def tensor_origins():
    """Return the messages of each seed of tensors."""
    found = []
    for content in seeds.tensors():
        source = open_source(content)
        stored = list(iterate_tensors(source))
        found.append([
            (content[x.byte_offset + 8 : x.body_offset], content[x.body_offset : x.end_offset]) for x in stored
        ])  # fmt: skip
    return found


def joined(parts, choose):
    """Put a file or stream together; a footer gets the places that the messages have now, nearly always."""
    content = bytearray(MAGIC + bytes(2)) if parts.footer is not None else bytearray()
    blocks = {tables.MessageHeader.RecordBatch: [], tables.MessageHeader.DictionaryBatch: []}
    for flatbuffer, body in parts.messages:
        padded = flatbuffer + bytes(-len(flatbuffer) % 8)
        start = len(content)
        content += CONTINUATION + struct.pack("<i", len(padded)) + padded + body + bytes(-len(body) % 8)
        kind = kind_of(flatbuffer)
        if kind in blocks:
            blocks[kind].append((start, 8 + len(padded), len(body) + -len(body) % 8))
    content += CONTINUATION + bytes(4)
    if parts.footer is None:
        return content
    places = {
        "recordBatches": blocks[tables.MessageHeader.RecordBatch],
        "dictionaries": blocks[tables.MessageHeader.DictionaryBatch],
    }
    values = parts.footer | (places if choose.random() < 0.95 else {})
    footer = builder.build(tables.FOOTER, values)
    return content + footer + struct.pack("<i", len(footer)) + MAGIC


def kind_of(flatbuffer):
    """Return the kind of a message, by its discriminant alone."""
    try:
        return reader.root(flatbuffer, tables.MESSAGE).union("header")[0]
    except ArrowIpcError:
        return 0


# ---- changes


def number_like(choose, old):
    """Return a number that matters, or one beside the old one."""
    near = (old + 1, old - 1, old * 2, old // 2, -old, old + 8, old - 8, old ^ (1 << choose.randrange(63)))
    number = choose.choice(NUMBERS) * choose.choice((1, 1, 1, -1)) if choose.random() < 0.5 else choose.choice(near)
    return max(-(1 << 63), min((1 << 63) - 1, number))


def leaves(value, holder, key):
    """Yield (holder, key) of each value of nested mappings."""
    if isinstance(value, dict):
        for name in value:
            yield from leaves(value[name], value, name)
    elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict):
        yield holder, key
        yield from leaves(value[1], None, None)
    elif isinstance(value, list):
        yield holder, key
        for i, item in enumerate(value):
            yield from leaves(item, value, i)
    elif holder is not None:
        yield holder, key


def change_slot(choose, mapping):
    """Change one value of nested mappings, in place; return what was done."""
    places = [place for place in leaves(mapping, None, None) if place[0] is not None]
    if not places:
        return "nothing"
    holder, key = choose.choice(places)
    old = holder[key]
    if isinstance(old, bool):
        holder[key] = not old
    elif isinstance(old, int):
        holder[key] = number_like(choose, old)
    elif isinstance(old, str):
        holder[key] = choose.choice(("", "a", old * 2, "a\0b", "é" * 50, "UTC", "ARROW:extension:name"))
    elif isinstance(old, np.ndarray):
        holder[key] = changed_vector(choose, old)
    elif isinstance(old, list):
        holder[key] = changed_list(choose, old)
    elif isinstance(old, tuple) and len(old) == 2 and isinstance(old[1], dict):
        holder[key] = choose.choice((None, (choose.choice(TYPES), {}), (old[0], {})))
    else:
        holder[key] = None
    if choose.random() < 0.05 and isinstance(holder, dict):
        del holder[key]
    return f"{key} of {type(old).__name__}"


TYPES = tuple(tables.TABLES[member.name] for member in tables.Type if member)


def changed_vector(choose, old):
    rows = np.array(old, np.int64)
    if not rows.size or choose.random() < 0.15:
        return rows[: len(rows) // 2] if choose.random() < 0.5 else np.concatenate([rows, rows])
    at = choose.randrange(rows.size)
    flat = rows.reshape(-1)
    flat[at] = flat[choose.randrange(rows.size)] if choose.random() < 0.3 else number_like(choose, int(flat[at]))
    return rows


def changed_list(choose, old):
    new = list(old)
    if new and choose.random() < 0.5:
        del new[choose.randrange(len(new))]
    elif new:
        new.insert(choose.randrange(len(new) + 1), choose.choice(new))
    choose.shuffle(new)
    return new


def change_metadata(choose, parts):
    """Change a slot of a message, or of the footer."""
    if parts.footer is not None and choose.random() < 0.3:
        return f"footer: {change_slot(choose, parts.footer)}"
    number = choose.randrange(len(parts.messages))
    flatbuffer, body = parts.messages[number]
    mapping = reader.to_mapping(reader.root(flatbuffer, tables.MESSAGE))
    done = change_slot(choose, mapping)
    parts.messages[number] = builder.build(tables.MESSAGE, mapping), body
    return f"message {number}: {done}"


def change_body(choose, parts):
    """Change a word of a body, or its length."""
    number = choose.choice([i for i, (_, body) in enumerate(parts.messages) if body] or [0])
    flatbuffer, body = parts.messages[number]
    if not body:
        return "nothing"
    changed = bytearray(body)
    if choose.random() < 0.1:
        changed = changed[: choose.randrange(0, len(changed), 8)]
    else:
        nbytes = choose.choice((1, 4, 4, 8, 8))
        at = choose.randrange(len(changed) // nbytes) * nbytes if len(changed) >= nbytes else 0
        old = int.from_bytes(changed[at : at + nbytes], "little", signed=True)
        word = number_like(choose, old) & ((1 << 8 * nbytes) - 1)
        changed[at : at + nbytes] = word.to_bytes(nbytes, "little")
    parts.messages[number] = flatbuffer, bytes(changed)
    return f"body of message {number}"


def change_messages(choose, parts):
    """Leave out, double, move or replace a message."""
    messages = parts.messages
    number = choose.randrange(len(messages))
    kind = choose.choice(("leave out", "double", "move", "take from another"))
    if kind == "leave out":
        del messages[number]
    elif kind == "double":
        messages.insert(choose.randrange(len(messages) + 1), messages[number])
    elif kind == "move":
        messages.insert(choose.randrange(len(messages)), messages.pop(number))
    else:
        messages[number] = choose.choice(choose.choice(origins()).messages)
    return f"{kind} message {number}"


def change_raw(choose, content):
    """Change a word, or an entry of a vtable, somewhere in the bytes."""
    nbytes = choose.choice((1, 2, 2, 4, 4, 8))
    at = choose.randrange(max(len(content) // nbytes, 1)) * nbytes
    old = int.from_bytes(content[at : at + nbytes], "little")
    word = number_like(choose, old) & ((1 << 8 * nbytes) - 1)
    content[at : at + nbytes] = word.to_bytes(nbytes, "little")
    return f"byte {at}"


CHANGES = (change_metadata,) * 5 + (change_body,) * 3 + (change_messages,)


def mutant(number):
    """Return what was done, the bytes, and whether they are a file's."""
    choose = random.Random(number)
    while True:
        origin = choose.choice(origins())
        parts = Parts(list(origin.messages), None if origin.footer is None else _copied(origin.footer))
        try:
            done = [choose.choice(CHANGES)(choose, parts) for _ in range(choose.choice((1, 1, 2, 3))) if parts.messages]
            content = joined(parts, choose)
        except (ValueError, OverflowError, ArrowIpcError):
            continue  # no Flatbuffers hold such a value, or another change made it unreadable here
        if content and choose.random() < 0.25:
            done.append(change_raw(choose, content))
        return ", ".join(done), bytes(content), parts.footer is not None


def tensor_mutant(number):
    """Return what was done, the bytes, and False: tensors have no file format."""
    choose = random.Random(number)
    while True:
        parts = Parts(list(choose.choice(tensor_origins())), None)
        try:
            changes = choose.choices((change_metadata, change_body), (3, 1), k=choose.choice((1, 1, 2, 3)))
            done = [change(choose, parts) for change in changes]
        except (ValueError, OverflowError, ArrowIpcError):
            continue
        content = bytearray()
        for flatbuffer, body in parts.messages:
            padded = flatbuffer + bytes(-len(flatbuffer) % 8)
            content += CONTINUATION + struct.pack("<i", len(padded)) + padded + body
        if choose.random() < 0.25:
            done.append(change_raw(choose, content))
        return ", ".join(done), bytes(content), False


def _copied(value):
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict):
        return value[0], _copied(value[1])
    return value


# ---- reading


def read(content, *, is_file):
    """Read bytes in every way; whether they are sound. Any error but an `ArrowIpcError` leaves."""
    (targets.file if is_file else targets.stream)(content)
    try:
        _read_joined(content)
        sound = True
    except ArrowIpcError:
        sound = False
    try:
        with open_recovered(lambda: content, ipc.ReadOptions(limits=targets.LIMITS)).reader or ipc.open(b"") as opened:
            list(opened)
    except ArrowIpcError:
        pass
    return sound


def _read_joined(content):
    with ipc.open(content, validation="structural", limits=targets.LIMITS) as opened:
        if isinstance(opened, ipc.FileReader):
            for number in range(len(opened)):
                opened.nbytes_to_read(number)
                cut = opened.batch_rows(number)
                if cut is not None and cut.num_rows:
                    cut.read(0, 1)
            list(opened.read_joined(0, len(opened), below_rows=1000))
        else:
            opened.index()
            list(opened.read_joined(below_rows=1000))


class _TooLong(BaseException):
    pass


def _on_alarm(*_):
    raise _TooLong


def leak_of(number, *, of_tensors=False):
    """Return whether a mutant is sound, and its leak as text, or None."""
    done, content, is_file = tensor_mutant(number) if of_tensors else mutant(number)
    signal.alarm(MOST_SECONDS)
    try:
        with warnings.catch_warnings(action="ignore"):
            return targets.tensors(content) if of_tensors else read(content, is_file=is_file), None
    except _TooLong:
        return False, f"mutant {number} ({done}): more than {MOST_SECONDS} s\n{traceback.format_exc(limit=-6)}"
    except Exception:  # noqa: BLE001 - the finding that this program looks for
        return False, f"mutant {number} ({done}):\n{traceback.format_exc(limit=-6)}"
    finally:
        signal.alarm(0)


def _bound():
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _on_alarm)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, resource.RLIM_INFINITY))


def run(first, count, *, of_tensors=False):
    """Read so many mutants, each piece in a process of its own; return the sound ones and the leaks."""
    leaks, sound = [], 0
    (tensor_origins if of_tensors else origins)()
    start, stop = first, first + count
    while start < stop:
        piece = range(start, min(start + PIECE, stop))
        # The number of the mutant that is being read, and the sound ones before it: a child that dies leaves them.
        progress = mmap.mmap(-1, 16)
        progress[:] = struct.pack("<qq", start, 0)
        out, in_ = os.pipe()
        child = os.fork()
        if not child:
            os.close(out)
            _read_piece(piece, progress, in_, of_tensors=of_tensors)
            os._exit(0)
        os.close(in_)
        with os.fdopen(out) as lines:
            found = lines.read().split("\0")[:-1]
        _, status = os.waitpid(child, 0)
        start, more = struct.unpack("<qq", progress[:])
        sound += more
        leaks += found
        if status:
            leaks.append(f"mutant {start}: the process ended with {os.waitstatus_to_exitcode(status)}")
            start += 1
    return sound, leaks


def _read_piece(piece, progress, pipe, *, of_tensors):
    _bound()
    sound = 0
    with os.fdopen(pipe, "w") as lines:
        for number in piece:
            was_sound, leak = leak_of(number, of_tensors=of_tensors)
            sound += was_sound
            progress[:] = struct.pack("<qq", number + 1, sound)
            if leak is not None:
                print(leak, end="\0", file=lines, flush=True)


def main():
    """Run what the command line asks for; the exit status says whether there was no leak."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first mutant's number")
    parser.add_argument("--count", type=int, default=20_000, help="so many mutants")
    parser.add_argument("--show", type=int, metavar="NUMBER", help="one mutant")
    parser.add_argument("--tensors", action="store_true", help="mutants of tensors, not of tables")
    options = parser.parse_args()
    if options.show is not None:
        signal.signal(signal.SIGALRM, _on_alarm)
        done, content, is_file = (tensor_mutant if options.tensors else mutant)(options.show)
        print(done, f"{len(content):,} bytes", "a file" if is_file else "a stream", sep="; ")
        print(leak_of(options.show, of_tensors=options.tensors)[1] or "no leak")
        return 0
    started = time.perf_counter()
    sound, leaks = run(options.first, options.count, of_tensors=options.tensors)
    print(*leaks, sep="\n")
    print(
        f"mutants {options.first:,} to {options.first + options.count - 1:,} of {len(tensor_origins() if options.tensors else origins()):,} seeds: "
        f"{sound:,} read, {options.count - sound:,} refused, {len(leaks):,} leaks, {time.perf_counter() - started:.0f} s"
    )
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main())
