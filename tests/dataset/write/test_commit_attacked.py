"""Someone may write into a table's directory and nowhere else: whatever is there, nothing elsewhere is changed."""

import contextlib
import os
import shutil
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, dying, finish, interrupted, ours, planned, save, table

from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.errors import ArrowIpcError, CommitError
from spark_arrow_ipc.storage.failpoint import TABLE_POINTS
from spark_arrow_ipc.table.checkpoint import encode_checkpoint
from spark_arrow_ipc.table.entry import MAX_ENTRY_NBYTES
from spark_arrow_ipc.table.log import read_state, read_table_id
from spark_arrow_ipc.table.names import MAX_NUMBER
from spark_arrow_ipc.table.vacuum import vacuum

NAMES = ("_ipc_stage", "_ipc_log", "k=1")

ENTRIES = "the directory of the entries"


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
    """Return a table, and a directory elsewhere with everything that a commit looks for under the same names."""
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    for text in ("k=1:a", "k=1:b", "k=2:c"):
        save(data, APPEND, text, retention=3600)
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
    "vacuum": lambda data: vacuum(table(data), older_than=0),
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
@pytest.mark.parametrize("point", TABLE_POINTS)
@pytest.mark.parametrize("name", [*NAMES, "_ipc_replaced", ENTRIES, "the job's staging directory"])
def test_a_link_that_is_swapped_in_at_a_step_leads_nowhere(places, name, point):
    data, elsewhere = places
    before = {}

    def attack():
        mimic(data, elsewhere)
        inner = {
            ENTRIES: next((data / "_ipc_log").glob("?" * 8), None),
            "the job's staging directory": next((data / "_ipc_stage").glob("?" * 32), None),
        }.get(name, data / name)
        inner = (inner or data / "k=1").relative_to(data)
        with suppress(FileNotFoundError):  # it is not there at this step
            swap(data / inner, elsewhere / inner)
        before.update(state(elsewhere))

    with interrupted(point, attack), suppress(ArrowIpcError, OSError):
        plan, outputs = planned(data, OVERWRITE, "k=1:x", "k=2:y")
        abort(plan) if point.startswith("aborted") else finish(plan, outputs)
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
        Path(plan.staging.file("link.staged")).symlink_to(precious)
        plan.staging.storage.create(plan.staging.file("link.staged"))
    finish(plan, outputs)
    assert "precious" == precious.read_text()


@pytest.mark.slow
def test_the_storage_of_a_dataset_reaches_nothing_else(places):
    data, elsewhere = places
    storage = table(data).storage
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


ENTRY = f"{3:020d}.json"
UNSOUND = [
    ("a link to a device that never ends", lambda path: path.symlink_to("/dev/zero")),
    (
        "a link to an entry elsewhere",
        lambda path: path.symlink_to(path.parents[3] / "elsewhere/_ipc_log" / path.parent.name / ENTRY),
    ),
    ("a dangling link", lambda path: path.symlink_to("nowhere")),
    ("a pipe", os.mkfifo),
    ("a directory", lambda path: path.mkdir()),
    ("a socket", bind),
    ("too large", lambda path: sparse(path, MAX_ENTRY_NBYTES + 1)),
    ("no JSON", lambda path: path.write_text("no entry")),
]


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("make", [case[1] for case in UNSOUND], ids=[case[0] for case in UNSOUND])
def test_what_is_not_an_entry_is_refused_by_name(places, make, action):
    data, elsewhere = places
    before = state(elsewhere)
    make(Path(table(data).entry(read_table_id(table(data)), 4)))
    with pytest.raises(ArrowIpcError, match=r"4\.json: "):
        ACTIONS[action](data)
    assert before == state(elsewhere)
    assert 3 == len(list(data.glob("k=*/part-*")))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["json", "checkpoint"])
def test_a_number_of_twenty_digits_is_a_foreign_name(places, suffix):
    data, _ = places
    foreign = Path(table(data).entries(read_table_id(table(data)))) / f"{'9' * 20}.{suffix}"
    foreign.touch()
    for action in ACTIONS.values():
        action(data)
    assert foreign.exists()


@pytest.mark.slow
def test_a_log_that_is_full_is_an_error_and_no_endless_loop(places):
    """A forged checkpoint may have the largest number."""
    data, _ = places
    directory = table(data)
    last = replace(read_state(directory), number=MAX_NUMBER)
    Path(directory.checkpoint(last.table, MAX_NUMBER)).write_bytes(encode_checkpoint(last))
    with pytest.raises(CommitError, match=f"no entry can follow number {MAX_NUMBER}; nothing is published"):
        save(data, APPEND, "x")
    assert 3 == len(ours(data))


# Files of other programs under the names of removed ones


@pytest.mark.slow
@pytest.mark.parametrize("point", ["committed.put", "collected.removed"])
@pytest.mark.parametrize("recovery", ["append", "vacuum"])
def test_a_file_that_another_tool_writes_under_an_old_name_stays(places, point, recovery):
    data, _ = places
    old = data / "k=1" / "part-0.arrow"
    old.write_text("old")
    with dying(point):
        save(data, OVERWRITE, "k=1:x")
    assert ["k=1:x"] == ours(data)
    old.unlink(missing_ok=True)
    old.write_text("another tool's")
    assert ["k=1:another tool's", "k=1:x"] == ours(data)
    ACTIONS[recovery](data)
    assert {"k=1:another tool's", "k=1:x"} <= set(ours(data))
    assert 2 + (recovery == "append") == len(ours(data))
