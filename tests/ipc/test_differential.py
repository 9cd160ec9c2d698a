"""Our reader and pyarrow's agree about the same bytes, or `differential_reasons` says why not.

This runs a sample; `python tests/programs/differential.py --exhaustive` runs all cases.
"""

import io
import os
import subprocess
import sys
from collections import Counter

import pytest

pa = pytest.importorskip("pyarrow")

import differential  # noqa: E402
import strategies  # noqa: E402
from arrow_from_pyarrow import batch_to_pyarrow  # noqa: E402
from differential_reasons import CRASH, CRASHED, EQUAL, NOT_OURS, REASONS, REFUSED, UNEXPLAINED, classify  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from small_files import small_files  # noqa: E402

from spark_arrow_ipc.arrow import types as t  # noqa: E402
from spark_arrow_ipc.arrow.column_path import walk_fields  # noqa: E402

AGREEMENTS = (EQUAL, REFUSED, CRASHED)
UNMADE = {t.IntervalYearMonth, t.IntervalDayTime, t.Null}
"""Of the first two pyarrow has no Python arrays, of the last none that are not nullable."""


@pytest.fixture(scope="module")
def cases():
    return differential.cases_of(goldens=False)


@pytest.fixture(scope="module", params=[4_000, pytest.param(differential.SAMPLED, marks=pytest.mark.nightly)])
def found(request, cases):
    """The counts by reason, and what has none."""
    return differential.report(cases, differential.outcomes(cases, cases.sample()[: request.param]))


@pytest.mark.exhaustive
def test_every_case_has_an_outcome(request, found):
    counts, _ = found
    assert request.node.callspec.params["found"] == sum(counts.values())


@pytest.mark.slow
def test_the_readers_agree_or_there_is_a_reason(found):
    _, unexplained = found
    assert unexplained == []


@pytest.mark.slow
def test_no_reason_applies_more_often_than_its_row_says(found):
    counts, _ = found
    most = {reason.name: reason.most for reason in REASONS}
    more = {name: (count, most[name]) for name, count in counts.items() if name in most and count > most[name]}
    assert more == {}


@pytest.mark.nightly
@pytest.mark.parametrize("found", [differential.SAMPLED], indirect=True)
def test_no_reason_of_the_sample_is_obsolete(found):
    """The rarest applies to one case in ten thousand."""
    counts, _ = found
    assert [reason.name for reason in REASONS if reason.most and not counts[reason.name]] == []


@pytest.mark.slow
def test_both_agreements_happen(found):
    """A reader that refuses everything, or a comparison that never runs, would pass the other tests."""
    counts, _ = found
    assert min(counts[EQUAL], counts[REFUSED]) > sum(counts.values()) // 5


@pytest.mark.slow
def test_summary(found, capsys):
    """Prints the counts, so that a run says how much was compared."""
    counts, _ = found
    with capsys.disabled():
        print("", *(f"{count:>6,}  {reason}" for reason, count in counts.most_common()), sep="\n")


@pytest.mark.nightly
def test_every_value_of_a_byte_is_refused_or_read_alike():
    """A sample; `python tests/programs/differential.py --every-value --exhaustive` runs all 2.6 million."""
    cases = differential.cases_of_every_value()
    counts, unexplained = differential.report(cases, differential.outcomes(cases, cases.sample(1_000)))
    assert unexplained == []
    assert min(counts[EQUAL], counts[REFUSED]) > 50


def test_every_value_is_every_value():
    cases = differential.cases_of_every_value()
    origin = cases.origins[0]
    last = origin.places[-1]
    made = [
        origin.case(number)
        for number in range(len(origin) - len(origin.content) - 255, len(origin) - len(origin.content))
    ]
    assert {content[last] for _, content in made} == set(range(256)) - {origin.content[last]}
    assert {content[:last] for _, content in made} == {origin.content[:last]}
    assert origin.case(len(origin) - 1)[1] == origin.content[:-1]


def test_the_small_files_have_all_types():
    found = set()
    for content in small_files().values():
        schema, batches = differential.read_ours(content, is_file=True)
        found |= {type(field.type) for _, field in walk_fields(schema.fields)}
        assert sum(batch.num_rows for batch in batches) > 1
    assert len(small_files()) == 20
    assert set(strategies.EVERY_CLASS) - found == {t.IntervalYearMonth, t.IntervalDayTime}


def test_reasons_have_a_quotation_and_a_name_of_their_own():
    assert all(reason.quotation and reason.source for reason in REASONS)
    assert Counter(reason.name for reason in REASONS).most_common(1)[0][1] == 1


VERDICTS = [
    # (what, ours, pyarrow, difference, verdict)
    ("x byte 1 from 0 to 1", None, None, None, EQUAL),
    ("x byte 1 from 0 to 1", "InvalidBodyError: any", "OSError: any", None, REFUSED),
    ("x byte 1 from 0 to 1", "InvalidBodyError: any", f"{CRASH} SIGSEGV", None, CRASHED),
    ("x byte 1 from 0 to 1", None, f"{CRASH} SIGSEGV", None, UNEXPLAINED),
    ("x byte 1 from 0 to 1", f"{NOT_OURS} IndexError: any", "OSError: any", None, UNEXPLAINED),
    ("x byte 1 from 0 to 1", "InvalidBodyError: something new", None, None, UNEXPLAINED),
    ("x byte 1 from 0 to 1", None, "ArrowInvalid: something new", None, UNEXPLAINED),
    ("x byte 1 from 0 to 1", None, None, "batch 0, a: slot 0 is 1 and 2", UNEXPLAINED),
]  # fmt: skip


@pytest.mark.parametrize(("what", "ours", "theirs", "difference", "verdict"), VERDICTS)
def test_verdict(what, ours, theirs, difference, verdict):
    assert verdict == classify(what, ours, theirs, difference)


def test_a_worker_that_dies_costs_its_case_only(cases, monkeypatch):
    """The outcome of the case says how; those after it are done by the next worker."""
    program = (
        "import json, os, sys\n"
        "for n in json.load(sys.stdin):\n"
        "    print(json.dumps([n, None]), flush=True)\n"
        "    if n == 2: os.abort()\n"
        "    print(json.dumps([n, None, None, None]), flush=True)\n"
    )
    start = subprocess.Popen
    monkeypatch.setattr(
        differential.subprocess, "Popen", lambda _, **options: start([sys.executable, "-c", program], **options)
    )
    monkeypatch.setattr(differential, "WORKERS", 1)
    first, second, third = differential.outcomes(cases, [1, 2, 3])
    assert [first.theirs, third.theirs] == [None, None]
    assert second.theirs.startswith(f"{CRASH} SIGABRT")


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("form", ["file", "stream"])
@given(
    made=strategies.batches(strategies.types(only=set(strategies.EVERY_CLASS) - UNMADE)),
    cuts=st.lists(strategies.lengths),
)
def test_what_pyarrow_writes_both_read_alike(form, codec, made, cuts):
    """Slices among them, whose offsets the writer has to get rid of; a file's dictionaries are unified."""
    batches = [batch_to_pyarrow(batch) for batch in strategies.portions(made[0], cuts)]
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=codec, unify_dictionaries=form == "file")
    new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    with new(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content = sink.getvalue()
    is_file = form == "file"
    theirs = differential.read_theirs(content, is_file=is_file)
    assert theirs is not None
    assert differential.difference(differential.read_ours(content, is_file=is_file), theirs) is None


@pytest.mark.slow
def test_the_command_shows_a_case():
    command = [sys.executable, differential.__file__, "--show", "0"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ.copy(), check=True)
    assert "from " in shown.stdout
    assert "Outcome(number=0" in shown.stdout
