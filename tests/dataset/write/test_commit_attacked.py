"""Someone may write into a dataset's directory and nowhere else: whatever lies there, nothing elsewhere is changed."""

import contextlib
import os
import shutil
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, dataset, dying, finish, interrupted, ours, planned, save

from spark_arrow_ipc.dataset.commit_log.dataset_directory import RemovedFile
from spark_arrow_ipc.dataset.commit_log.log import newest_record
from spark_arrow_ipc.dataset.commit_log.record import MAX_RECORD_NBYTES, Record
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import ArrowIpcError, CommitError
from spark_arrow_ipc.storage.failpoint import OF_COPIES, POINTS

NAMES = ("_ipc_stage", "_ipc_commits", "k=1")

LOG = "_ipc_commits/log"
"""The directory of kept records."""


def state(path):
    """Return everything below a directory: its kind, its mode and, of a file, its bytes and times."""
    found = {}
    for entry in sorted(path.rglob("*")):
        status = entry.lstat()
        found[str(entry.relative_to(path))] = (
            status.st_mode, status.st_nlink, entry.read_bytes() if entry.is_file() else b"", status.st_mtime_ns
        )  # fmt: skip
    return found


@pytest.fixture
def places(tmp_path):
    """Return a dataset, and a directory elsewhere with everything that a commit looks for under the same names."""
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    for text in ("k=1:a", "k=1:b", "k=2:c"):
        save(data, APPEND, text, commit_retention=3600)
    shutil.copytree(data, elsewhere)
    for name in ("0" * 32, "f" * 32 + ".removed"):
        (elsewhere / "_ipc_stage" / name).mkdir(parents=True)
        (elsewhere / "_ipc_stage" / name / "precious.staged").write_text("precious")
    return data, elsewhere


def mimic(data, elsewhere):
    """Make the staged files of the running jobs elsewhere, too."""
    for found in (data / "_ipc_stage").glob("*/*"):
        copy = elsewhere / "_ipc_stage" / found.parent.name / found.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text("precious")


ACTIONS = {
    "vacuum": lambda data: vacuum(data, older_than_seconds=0),
    "append": lambda data: save(data, APPEND, "k=1:x"),
    "overwrite": lambda data: save(data, OVERWRITE, "k=1:x"),
    "dynamic overwrite": lambda data: save(data, DYNAMIC, "k=1:x"),
    "read": lambda data: list_tree([str(data)]).all_files(),
}
OBSTACLES = {
    "a link": lambda path, elsewhere: path.symlink_to(elsewhere / path.name),
    "a dangling link": lambda path, elsewhere: path.symlink_to(elsewhere / "nowhere"),
    "a file": lambda path, _: path.write_text("mine"),
    "a pipe": lambda path, _: os.mkfifo(path),
}


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize("name", NAMES[:2])
def test_a_link_or_file_in_the_place_of_a_directory_of_ours_is_refused_by_name(places, name, obstacle, action):
    data, elsewhere = places
    shutil.rmtree(data / name, ignore_errors=True)
    OBSTACLES[obstacle](data / name, elsewhere)
    before = state(elsewhere)
    if (name, action) == ("_ipc_stage", "read"):  # without a pending job no reader looks there
        assert 3 == len(ACTIONS[action](data))
    else:
        with pytest.raises(CommitError, match=rf"{name}: expected a directory, found a (link|file).*remove it"):
            ACTIONS[action](data)
    assert before == state(elsewhere)


def swap(path, elsewhere):
    """Put a link into the place of a directory."""
    path.rename(path.with_name(f".{path.name}.{time.monotonic_ns()}"))
    path.symlink_to(elsewhere)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("point", [point for point in POINTS if not point.startswith("T") and point not in OF_COPIES])
@pytest.mark.parametrize("name", [*NAMES, LOG, "the job's staging directory"])
def test_a_link_that_is_swapped_in_at_a_step_leads_nowhere(places, name, point):
    data, elsewhere = places
    before = {}

    def attack():
        mimic(data, elsewhere)
        inner = name
        if name not in (*NAMES, LOG):
            inner = next((data / "_ipc_stage").glob("?" * 32), data / "k=1").relative_to(data)
        with suppress(FileNotFoundError):  # it is not there at this step
            swap(data / inner, elsewhere / inner)
        before.update(state(elsewhere))

    with interrupted(point, attack), suppress(ArrowIpcError, OSError):
        plan, outputs = planned(data, OVERWRITE, "k=1:x", "k=2:y")
        if point.startswith("G."):
            with dying("C4.renamed"):
                finish(plan, outputs)
            give_up(data, plan.staging.jobid)
        abort(plan.staging) if point.startswith("A.") else finish(plan, outputs)
    for action in ACTIONS.values():
        with suppress(ArrowIpcError, OSError):
            action(data)
    assert before == state(elsewhere)


@pytest.mark.slow
def test_directories_that_are_links_at_times_lead_nowhere(places):
    """A thread swaps links in and out while jobs and a vacuum that clears everything run."""
    data, elsewhere = places
    before, stop = state(elsewhere), threading.Event()

    def attack():
        while not stop.is_set():
            for name in NAMES:
                path, aside = data / name, data / f".{name}.aside"
                with suppress(OSError):
                    path.rename(aside)
                    path.symlink_to(elsewhere / name)
                    time.sleep(0.0005)
                    path.unlink()
                with suppress(OSError):
                    aside.rename(path)

    attacker = threading.Thread(target=attack)
    attacker.start()
    outcomes, end = set(), time.monotonic() + 1
    while time.monotonic() < end or (len(outcomes) <= len(ACTIONS) and time.monotonic() < end + 120):
        for name, action in ACTIONS.items():
            try:
                action(data)
            except (ArrowIpcError, OSError) as error:
                outcomes.add((name, type(error)))
            else:
                outcomes.add((name, None))
    stop.set()
    attacker.join()
    assert len(outcomes) > len(ACTIONS), "some calls met a link and some did not"
    assert before == state(elsewhere)


@pytest.mark.slow
def test_new_files_and_directories_never_replace_what_is_linked(places):
    """Not even a file that a link of a final, a staged or a temporary name leads to."""
    data, elsewhere = places
    precious = elsewhere / "precious"
    precious.write_text("precious")
    (data / "_SUCCESS").unlink()
    (data / "_SUCCESS").symlink_to(precious)
    save(data, APPEND, "k=1:x")
    assert not (data / "_SUCCESS").is_symlink()
    plan, outputs = planned(data, OVERWRITE, "k=1:x")
    with pytest.raises(FileExistsError):
        Path(plan.staging.path("link.staged")).symlink_to(precious)
        plan.staging.storage.create(plan.staging.path("link.staged"))
    finish(plan, outputs)
    assert "precious" == precious.read_text()


@pytest.mark.slow
def test_the_storage_of_a_dataset_reaches_nothing_else(places):
    data, elsewhere = places
    storage = dataset(data).storage
    for path in (
        str(elsewhere / "_SUCCESS"),
        f"{data}/../elsewhere/_SUCCESS",
        f"{data}elsewhere/x",
        f"{data}/..",
        f"{data}/../x",
    ):
        for call in (storage.status, storage.delete, storage.create, storage.sync, storage.make_directory):
            with pytest.raises(ValueError, match="is not below"):
                call(path)


def bind(path):
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:  # such a path has 108 bytes at most
        made.bind(path.name)


def sparse(path, nbytes):
    with path.open("wb") as file:
        file.truncate(nbytes)


RECORDS = [
    ("a link to a device that never ends", lambda path: path.symlink_to("/dev/zero")),
    ("a link to a record elsewhere", lambda path: path.symlink_to(path.parents[2] / "elsewhere/_ipc_commits" / NUMBER)),
    ("a dangling link", lambda path: path.symlink_to("nowhere")),
    ("a pipe", os.mkfifo),
    ("a directory", lambda path: path.mkdir()),
    ("a socket", bind),
    ("too large", lambda path: sparse(path, MAX_RECORD_NBYTES + 1)),
    ("no JSON", lambda path: path.write_text("no record")),
]
NUMBER = f"{3:020d}.json"


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("make", [case[1] for case in RECORDS], ids=[case[0] for case in RECORDS])
def test_what_is_no_record_is_refused_by_name(places, make, action):
    data, elsewhere = places
    before = state(elsewhere)
    make(data / "_ipc_commits" / f"{4:020d}.json")
    with pytest.raises(CommitError, match=r"4\.json: .*nothing is done by it"):
        ACTIONS[action](data)
    assert before == state(elsewhere)


def forged(data, **changes):
    """Make the next record, sound and never written by a job."""
    last = newest_record(dataset(data))[1]
    record = Record(last.seq + 1, "a" * 32, "overwrite", **changes).after(last)
    Path(dataset(data).record(record.seq)).write_bytes(record.to_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("action", ["vacuum", "append"])
def test_a_record_that_removes_a_directory_stops_nobody(places, action, caplog):
    data, _ = places
    forged(data, removes=(RemovedFile("k=1"), RemovedFile("k=2/nothing")))
    ACTIONS[action](data)
    assert "k=1 was replaced since the commit that removes it, and stays" in caplog.text
    assert 3 + (action == "append") == len(list(data.glob("k=*/part-*")))


MARKS = [
    ("the next record's", 4),
    ("a later one's", 9),
    ("the largest number's", 2**63 - 1),
    ("of twenty digits", 10**20 - 1),
]


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("number", [case[1] for case in MARKS], ids=[case[0] for case in MARKS])
@pytest.mark.parametrize("suffix", ["done", "claim"])
def test_a_mark_without_its_record_counts_for_nothing(places, number, suffix, action, caplog):
    data, _ = places
    mark = data / "_ipc_commits" / f"{number:020d}.{suffix}"
    mark.touch()
    ACTIONS[action](data)
    if suffix == "done" and number < 2**63:
        assert "marks a record that is not there, and counts for nothing" in caplog.text
    if action == "vacuum":
        assert mark.exists() == (number == 10**20 - 1)
    with dying("C3.synced"):  # a record is not taken as applied because of a mark that was there before it
        save(data, APPEND, "k=3:pending")
    save(data, APPEND, "k=4:next")
    assert {"k=3:pending", "k=4:next"} <= set(ours(data))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["json", "done"])
def test_a_record_number_of_twenty_digits_is_a_foreign_name(places, suffix):
    data, _ = places
    (data / "_ipc_commits" / f"{'9' * 20}.{suffix}").touch()
    for action in ACTIONS.values():
        action(data)
    assert (data / "_ipc_commits" / f"{'9' * 20}.{suffix}").exists()


@pytest.mark.slow
def test_a_chain_that_is_full_is_an_error_and_no_endless_loop(places):
    data, _ = places
    record = newest_record(dataset(data))[1]
    last = Record(2**63 - 1, "a" * 32, "append").after(record)
    Path(dataset(data).record(last.seq)).write_bytes(last.to_bytes())
    Path(dataset(data).done_mark(last.seq)).touch()
    with pytest.raises(CommitError, match=f"no record can follow number {2**63 - 1}; nothing is published"):
        save(data, APPEND, "x")
    assert 3 == len(ours(data))


# Files of others under the names of old ones


@pytest.mark.slow
@pytest.mark.parametrize("point", ["C3.linked", "C4.renamed", "C4.synced"])
@pytest.mark.parametrize("recovery", ["append", "vacuum"])
def test_a_file_that_another_tool_writes_under_an_old_name_stays(places, point, recovery, caplog):
    data, _ = places
    old = data / "k=1" / "part-0.arrow"
    old.write_text("old")
    with dying(point):
        save(data, OVERWRITE, "k=1:x")
    assert ["k=1:x"] == ours(data)
    old.unlink()
    old.write_text("another tool's")
    assert ["k=1:another tool's", "k=1:x"] == ours(data)
    ACTIONS[recovery](data)
    assert {"k=1:another tool's", "k=1:x"} <= set(ours(data))
    assert 2 + (recovery == "append") == len(ours(data))
    assert "part-0.arrow was replaced since the commit that removes it, and stays" in caplog.text
