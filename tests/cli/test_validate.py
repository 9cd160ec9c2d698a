"""``arrowipc validate``: sound files are ok, broken ones bad with a reason, and notes say what others stumble over."""

import json
from functools import partial
from pathlib import Path

import corpus
import pytest
from statistics_cases import with_dropped, write_described

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Array, Field, RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.cli.validate import OutOfRange, examine, out_of_range
from spark_arrow_ipc.ipc.constants import EOS
from spark_arrow_ipc.ipc.messages.checksums import CHECKSUMS_KEY

DATA = Path(__file__).parents[1] / "data"


def validated(capsys, *arguments):
    status = main(["validate", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert "" == err
    return status, out


def batch_of(array, name="column"):
    return RecordBatch(Schema((Field(name, array.type),)), (array,), array.length)


@pytest.fixture
def sound(tmp_path):
    path = tmp_path / "sound.arrow"
    batch = batch_of(from_pylist.array([1, None, 3], t.int64))
    ipc.write(path, [batch, batch])
    return path


@pytest.fixture
def broken(tmp_path, sound):
    path = tmp_path / "broken.arrow"
    path.write_bytes(sound.read_bytes()[:-20])
    return path


# ---- verdicts


def test_a_sound_file_is_ok(capsys, sound):
    assert (0, f"{sound}: ok: file, 2 record batches, 6 rows\n") == validated(capsys, sound)


def test_a_broken_file_is_bad_in_one_line_that_names_it_once(capsys, broken):
    status, out = validated(capsys, broken)
    assert 1 == status
    assert out.startswith(f"{broken}: bad: expected the magic ARROW1 at the end of the file, found ")
    assert (1, 1) == (out.count(str(broken)), out.count("\n"))


def test_one_bad_file_is_enough_for_status_1_and_all_are_looked_at(capsys, sound, broken):
    status, out = validated(capsys, broken, sound)
    assert (1, ["bad", "ok"]) == (status, [line.split(": ")[1] for line in out.splitlines()])


def test_a_directory_stands_for_the_files_in_it(capsys, tmp_path, sound, broken):
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "x.arrow").touch()
    status, out = validated(capsys, tmp_path)
    assert (1, [str(broken), str(sound)]) == (status, [line.split(": ")[0] for line in out.splitlines()])


def test_a_signature_in_a_url_is_not_repeated(capsys):
    status, out = validated(capsys, "https://127.0.0.1:1/x.arrow?sig=geheim")
    assert (1, False) == (status, "geheim" in out)
    assert out.startswith("https://127.0.0.1:1/x.arrow?...: bad: the path https://... has a query")


NOWHERE = [
    (
        "a path that is not there",
        "missing.arrow",
        "missing.arrow: bad: the path does not exist; the nearest directory that does is ",
    ),
    ("a directory without files", "", ": bad: the directory is empty\n"),
]


@pytest.mark.parametrize(("name", "words"), [c[1:] for c in NOWHERE], ids=[c[0] for c in NOWHERE])
def test_what_is_not_there_is_bad(capsys, tmp_path, name, words):
    status, out = validated(capsys, tmp_path / name)
    assert 1 == status
    assert words in out


def test_programs_get_one_object_a_line(capsys, sound, broken):
    _, out = validated(capsys, "--json", sound, broken)
    first, second = map(json.loads, out.splitlines())
    assert first == {
        "path": str(sound), "ok": True, "format": "file", "record_batches": 2, "num_rows": 6, "tensors": 0, "notes": [], "error": None,
    }  # fmt: skip
    assert (str(broken), False, None) == (second["path"], second["ok"], second["format"])
    assert ("InvalidFramingError", broken.stat().st_size - 6) == (
        second["error"]["kind"],
        second["error"]["byte_offset"],
    )


def test_an_error_after_sound_batches_names_its_place(capsys, tmp_path):
    """Values are checked, and what was read before counts."""
    good = from_pylist.array(["ab", "cd"], t.utf8)
    bad = Array(t.utf8, 2, 0, (None, good.buffers[1], memoryview(b"ab\xff\xfe")))
    path = tmp_path / "text.arrows"
    ipc.write(path, [batch_of(good), batch_of(bad)], options=ipc.WriteOptions(format="stream"))
    status, out = validated(capsys, "--json", path)
    found = json.loads(out)
    assert (1, "stream", 1, 2) == (status, found["format"], found["record_batches"], found["num_rows"])
    assert ("InvalidBodyError", "record batch", 1, "column") == tuple(
        found["error"][key] for key in ("kind", "block_kind", "block_number", "field_path")
    )


def test_no_escape_sequence_of_a_file_reaches_the_terminal(capsys, tmp_path):
    path = tmp_path / "dates.arrow"
    ipc.write(path, [batch_of(_raw(t.date64, [1], 8), "\x1b[31m")])
    _, out = validated(capsys, "--values", path)
    assert "field \\x1b[31m: 1 dates with a time of day" in out


# ---- notes


def notes(capsys, path, *arguments):
    status, out = validated(capsys, *arguments, path)
    first, *rest = out.splitlines()
    assert (0, True) == (status, ": ok: " in first)
    return [line.removeprefix("  note: ") for line in rest]


def test_a_copy_of_the_schema_that_differs_is_noted(capsys, sound):
    """The footer's schema counts (its bytes come after those of the copy)."""
    sound.write_bytes(sound.read_bytes().replace(b"column", b"kolumn", 1))
    (note,) = notes(capsys, sound)
    assert "the schema at the start differs from that of the footer, which readers use" == note.split(": ")[0]
    assert note.endswith("field column: name is 'column' in the footer, 'kolumn' in the copy at the start")


def test_a_file_without_a_schema_at_the_start_is_noted(capsys, sound):
    content = bytearray(sound.read_bytes())
    content[8:16] = b"\x07" * 8
    sound.write_bytes(content)
    assert ["there is no schema message at the start: the file cannot be read as a stream"] == notes(capsys, sound)


def test_zeros_before_the_first_message_are_no_difference():
    assert () == examine(Input(str(DATA / "integers.arrow"))).notes


def copied_claims(path, changes):
    """Write a file with the footer's metadata of one with checksums and statistics, as other writers copy them."""
    batch = batch_of(from_pylist.array([1, None, 3], t.int64))
    write_described(path, [batch, batch], batch.schema)
    with ipc.open(path) as reader:
        pairs = dict(reader.custom_metadata) | changes
    other = f"{CHECKSUMS_KEY[:-1]}?"  # our writer leaves out checksums that it did not make itself
    with ipc.create(path, batch.schema, ipc.WriteOptions(checksums=False)) as writer:
        writer.write(batch)
        writer.write(batch)
        writer.custom_metadata.update({key.replace(CHECKSUMS_KEY, other): value for key, value in pairs.items()})
    path.write_bytes(path.read_bytes().replace(other.encode(), CHECKSUMS_KEY.encode()))


def nested_statistics(path):
    batch = batch_of(from_pylist.array([1, None, 3], t.int64))
    write_described(path, [batch], batch.schema, change=with_dropped("[" * 1000 + "]" * 1000))


IGNORED = [
    (
        "claims of another file",
        partial(copied_claims, changes={}),
        [
            "the checksums in the footer are ignored: they are not those",
            "the statistics of a file are not used: nothing",
        ],
    ),
    (
        "checksums that are malformed",
        partial(copied_claims, changes={CHECKSUMS_KEY: "!"}),
        [
            "the checksums in the footer are ignored: they are malformed",
            "the statistics of a file are not used: nothing",
        ],
    ),
    (
        "statistics that nest",
        nested_statistics,
        ["the statistics of a file are not used: JSON of more than 160 levels"],
    ),
]


@pytest.mark.parametrize(("make", "words"), [c[1:] for c in IGNORED], ids=[c[0] for c in IGNORED])
def test_claims_of_a_footer_that_readers_ignore_are_noted(capsys, tmp_path, make, words):
    make(tmp_path / "claims.arrow")
    found = notes(capsys, tmp_path / "claims.arrow")
    assert len(words) == len(found)
    assert all(note.startswith(start) for note, start in zip(found, words, strict=True)), found


ENDS = [
    ("a stream without its end", b"", ["the end-of-stream marker is missing"]),
    ("a stream with its end", EOS, []),
    ("bytes after a stream", EOS + b"xyz", ["3 bytes after the end-of-stream marker"]),
    ("a stream with an old end", b"\0\0\0\0", []),
]


@pytest.mark.parametrize(("end", "words"), [c[1:] for c in ENDS], ids=[c[0] for c in ENDS])
def test_the_end_of_a_stream_is_noted_where_it_is_odd(capsys, tmp_path, end, words):
    path = tmp_path / "x.arrows"
    ipc.write(path, [batch_of(from_pylist.array([1], t.int64))], options=ipc.WriteOptions(format="stream"))
    path.write_bytes(path.read_bytes().removesuffix(EOS) + end)
    assert words == [note.partition(":")[0].partition(", which")[0] for note in notes(capsys, path)]


# ---- values out of range


def _raw(type_, integers, nbytes):
    data = b"".join(number.to_bytes(nbytes, "little", signed=True) for number in integers)
    return Array(type_, len(integers), 0, (None, memoryview(data)))


def digits(count):
    return 10**count - 1


RANGES = [
    (t.Decimal(3, 0, 32), 4, [999, -999, 0], [1000, -1000]),
    (t.Decimal(9, 0, 32), 4, [digits(9), -digits(9)], [10**9, -(10**9), 2**31 - 1, -(2**31)]),
    (t.Decimal(18, 0, 64), 8, [digits(18), -digits(18)], [10**18, -(10**18), -(2**63)]),
    (t.Decimal(5, 2, 128), 16, [99999, -99999, 0], [100000, -100000, 2**64, -(2**64), 2**127 - 1, -(2**127)]),
    (t.Decimal(38, 0, 128), 16, [digits(38), -digits(38)], [10**38, -(10**38), 2**127 - 1, -(2**127)]),
    (t.Decimal(19, 0, 128), 16, [digits(19), -digits(19), 2**63], [10**19, -(10**19), 2**64]),
    (t.Decimal(76, 0, 256), 32, [digits(76), -digits(76)], [10**76, -(10**76), 2**255 - 1, -(2**255)]),
    (t.Decimal(2, 0, 256), 32, [99, -99], [100, -100, 2**64, -(2**64), 2**128, -(2**128), 2**192, -(2**192)]),
    (t.Time(t.TimeUnit.SECOND, 32), 4, [0, 86_399], [-1, 86_400]),
    (t.Time(t.TimeUnit.MILLISECOND, 32), 4, [0, 86_399_999], [-1, 86_400_000]),
    (t.Time(t.TimeUnit.MICROSECOND, 64), 8, [0, 86_399_999_999], [-1, 86_400_000_000]),
    (t.Time(t.TimeUnit.NANOSECOND, 64), 8, [0, 86_399_999_999_999], [-1, 86_400_000_000_000, 2**63 - 1]),
    (t.date64, 8, [0, 86_400_000, -86_400_000], [1, -1, 86_399_999]),
    (t.date32, 4, [0, 2**31 - 1, -(2**31)], []),
]


@pytest.mark.parametrize(("type_", "nbytes", "good", "bad"), RANGES, ids=[str(c[0]) for c in RANGES])
def test_values_at_the_edges_of_their_range(type_, nbytes, good, bad):
    def finds(number):
        return [finding.count for finding in out_of_range(_raw(type_, [number], nbytes), "x")]

    assert [[]] * len(good) == [finds(number) for number in good]
    assert [[1]] * len(bad) == [finds(number) for number in bad]


def test_nulls_are_not_looked_at():
    array = Array(t.date64, 2, 1, (memoryview(b"\x01"), memoryview((5).to_bytes(8, "little") * 2)))
    assert [OutOfRange("x", "dates with a time of day", 1, 0)] == list(out_of_range(array, "x"))
    assert [] == list(out_of_range(array.slice(1, 1), "x"))


def test_values_are_found_at_every_depth():
    dates = _raw(t.date64, [0, 7, 8], 8)
    offsets = memoryview(b"".join(n.to_bytes(4, "little") for n in (0, 3)))
    listed = Array(t.list_(t.date64), 1, 0, (None, offsets), (dates,))
    struct = Array(t.struct([Field("a", listed.type)]), 1, 0, (None,), (listed,))
    encoded = Array(t.dictionary(t.int8, struct.type), 1, 0, (None, memoryview(b"\0")), (), struct)
    assert [OutOfRange("x.a[]", "dates with a time of day", 2, 1)] == list(out_of_range(encoded, "x"))


def test_values_are_noted_when_asked_for_and_summed_up_over_batches(capsys, tmp_path):
    path = tmp_path / "dates.arrow"
    ipc.write(path, [batch_of(_raw(t.date64, days, 8)) for days in ([0], [0, 5], [6, 7])])
    assert [] == notes(capsys, path)
    expected = "field column: 3 dates with a time of day, the first in slot 1 in record batch 1"
    assert [expected] == notes(capsys, path, "--values")


def test_a_dictionary_of_many_batches_is_counted_once(capsys, tmp_path):
    dates = _raw(t.date64, [5], 8)
    array = Array(t.dictionary(t.int8, t.date64), 1, 0, (None, memoryview(b"\0")), (), dates)
    ipc.write(tmp_path / "x.arrow", [batch_of(array)] * 3)
    assert ["field column: 1 dates with a time of day, the first in slot 0 in record batch 0"] == notes(
        capsys, tmp_path / "x.arrow", "--values"
    )


# ---- the corpus

needs_corpus = pytest.mark.skipif(corpus.root() is None, reason=f"{corpus.VARIABLE} is not set")


@pytest.mark.exhaustive
@needs_corpus
def test_the_verdicts_are_those_of_the_manifest():
    """All 878 sound files are ok, all that must be refused are bad, whatever notes there are."""
    entries = [e for e in corpus.entries(corpus.root()) if e.format != "json" and e.expect != "either"]
    verdicts = {e: examine(Input(str(e.path)), values=True) for e in entries}
    assert [] == [e.name for e, verdict in verdicts.items() if (verdict.error is None) != (e.expect == "ok")]
    assert (878, 98) == tuple(sum(e.expect == expect for e in entries) for expect in ("ok", "error"))


def pyarrow_refuses(entry):
    pa = pytest.importorskip("pyarrow")
    content = entry.path.read_bytes()
    try:
        if entry.format == "file":
            reader = pa.ipc.open_file(content)
            batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        else:
            batches = list(pa.ipc.open_stream(content))
        for batch in batches:
            batch.validate(full=True)
    except pa.ArrowInvalid:
        return True
    return False


@pytest.mark.exhaustive
@needs_corpus
def test_the_goldens_that_pyarrow_refuses_are_those_with_notes():
    """ARROW-13558: values of Arrow's own files that are out of their range, which the truth in JSON holds too."""
    goldens = [e for e in corpus.entries(corpus.root()) if "/integration/" in e.name and e.format != "json"]
    refused = [e.name for e in goldens if pyarrow_refuses(e)]
    assert [] != refused
    assert refused == [e.name for e in goldens if examine(Input(str(e.path)), values=True).notes]
