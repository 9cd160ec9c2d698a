"""Nothing that follows a link deletes or moves: every command and mode that does either, with links in every place.

The second half is a table of all calls in the package that delete or move, with the origin of their paths.
"""

import ast
import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, finish, planned, save_files, table

import spark_arrow_ipc
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.storage.local import LocalStorage
from spark_arrow_ipc.table import log, transaction
from spark_arrow_ipc.table.vacuum import vacuum

pa = pytest.importorskip("pyarrow")

PARTS = ("k=1", "k=2")


def arrow_bytes(n):
    sink = pa.BufferOutputStream()
    table = pa.table({"n": [n]})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def state(path):
    """Return everything at and below a directory: its kind, its mode and, of a file, its bytes and times."""
    found = {}
    for entry in sorted([path, *path.rglob("*")]):
        status = entry.lstat()
        content = entry.read_bytes() if entry.is_file() else b""
        found[str(entry)] = (status.st_mode, status.st_nlink, content, status.st_mtime_ns)
    return found


def dropped(data):
    """Put files into a directory as anybody does."""
    for i, part in enumerate(PARTS):
        (data / part).mkdir(parents=True)
        (data / part / "a.arrow").write_bytes(arrow_bytes(i))


def committed(data):
    """Put files into a directory as a job of this package."""
    save_files(data, [(part, arrow_bytes(i)) for i, part in enumerate(PARTS)])


# Where the link is: a function that puts it there before the work, and one that does after it is planned. Both get the
# directory that is worked on (for links to it, the name by which it is reached), and the place that nothing may change.
def above(data, elsewhere):
    (data.parent / "other").symlink_to(data.parent, target_is_directory=True)
    return data.parent / "other" / data.name


def root(data, elsewhere):
    data.rename(data.parent / "real")
    data.symlink_to(data.parent / "real")
    return data


def partition(data, elsewhere):
    (data / "k=3").symlink_to(elsewhere / "k=1")
    return data


def file(data, elsewhere):
    (data / "k=1" / "linked.arrow").symlink_to(next((elsewhere / "k=1").glob("*.arrow")))
    return data


def whole_table(data, elsewhere):
    (data / "k=3").symlink_to(elsewhere)
    return data


def unchanged(data, elsewhere):
    return data


def swap(data, elsewhere):
    """Put a link into the place of a partition, to a directory of files of the same names and times."""
    shutil.rmtree(elsewhere / "k=1")
    (data / "k=1").rename(elsewhere / "k=1")
    (data / "k=1").symlink_to(elsewhere / "k=1")


def own(*names):
    """Return a function that puts links into the places of a table's own directories, which are moved elsewhere."""

    def put(data, elsewhere):
        for name in names:
            for there in data.glob(name):
                target = elsewhere / there.relative_to(data)
                shutil.rmtree(target, ignore_errors=True)
                target.parent.mkdir(parents=True, exist_ok=True)
                there.rename(target)
                there.symlink_to(target)
        return data

    return put


LOG, STAGED, REPLACED = "_ipc_log", "_ipc_stage", "_ipc_replaced"

PLACES = {
    "above": (above, None),
    "the root": (root, None),
    "a partition": (partition, None),
    "a file": (file, None),
    "after planning": (unchanged, swap),
    "a committed table": (whole_table, None),
    "its log": (own(LOG), None),
    "its log after planning": (unchanged, own(LOG)),
    "its entries after planning": (unchanged, own(f"{LOG}/*")),
    "its staged files after planning": (unchanged, own(STAGED)),
    "the staged files of jobs after planning": (unchanged, own(f"{STAGED}/*")),
    "its replaced files": (own(REPLACED), None),
    "its replaced files after planning": (unchanged, own(REPLACED)),
    "a replaced generation after planning": (unchanged, own(f"{REPLACED}/*")),
}
OF_OTHERS = ["above", "the root", "a partition", "a file", "after planning", "a committed table"]
"""The places where directories that nobody commits to may have a link."""


def job(mode, **options):
    def run(data, planned_now):
        plan, outputs = planned(data, mode, "k=1:x", "k=3:y", **options)
        planned_now()
        finish(plan, outputs)

    return run


def aborted(data, planned_now):
    plan, _ = planned(data, APPEND, "k=1:x", "k=3:y")
    planned_now()
    abort(plan)


def vacuumed(data, planned_now):
    job(OVERWRITE, retention=3600)(data, lambda: None)
    planned(data, OVERWRITE, "k=1:x", "k=3:y")
    planned_now()
    vacuum(table(data), older_than=0)


def replacing(data):
    """As `committed`, with log entries and removed files that are retained for a time that is over."""
    committed(data)
    for mode in (APPEND, OVERWRITE):
        finish(*planned(data, mode, "k=1:x", "k=2:y", retention=1))
    for entry in data.glob(f"{LOG}/*/*.json"):
        os.utime(entry, (1, 1))


def with_lost_files(data):
    """As `committed_twice`, with a file that is missing and one that was cut."""
    committed_twice(data)
    missing, cut = (next((data / part).glob("*.arrow")) for part in PARTS)
    missing.unlink()
    cut.write_bytes(b"cut")


def committed_twice(data):
    """As `committed`, with two files in each partition."""
    committed(data)
    committed(data)


def pruned(data, planned_now):
    """Write, so that outdated log entries and removed files are deleted."""
    with mock.patch.object(transaction, "_PRUNE_INTERVAL", 1), mock.patch.object(log, "LEAST_RETAINED", 1):
        for _ in range(3):
            job(APPEND)(data, planned_now)


def batches(data, planned_now):
    """Commit a batch of a stream, which removes what earlier attempts have staged."""
    from spark_arrow_ipc.spark.options.options import parse_write
    from spark_arrow_ipc.spark.write import writer

    def batch(number):
        own = writer.ArrowIpcStreamWriter.plan(
            s.StructType([s.StructField("n", s.LongType()), s.StructField("k", s.LongType())]),
            str(data), parse_write({"partitionBy": "k", "schemaCheck": "none"}), overwrite=number > 1,
        )  # fmt: skip
        properties = {"sql.streaming.queryId": "q", "streaming.sql.batchId": str(number)}
        context = SimpleNamespace(getLocalProperty=properties.get, partitionId=lambda: 0)
        with mock.patch.object(writer.TaskContext, "get", return_value=context):
            return own, own.write(iter([pa.record_batch({"n": [1], "k": [1]})]))

    s = pytest.importorskip("pyspark.sql.types")
    batch(0)
    for number in (0, 1, 2):
        own, message = batch(number)
        planned_now()
        own.commit([message], number)


def session(**options):
    """Return a stand-in for a session that runs tasks here."""
    return pytest.importorskip("rewrite_jobs").Tasks(**options)


def rewritten(**options):
    def run(data, planned_now):
        rewrite = pytest.importorskip("spark_arrow_ipc.spark.rewrite.rewrite").rewrite
        rewrite(session(before=lambda part, attempt: planned_now()), str(data), data, **options)

    return run


def compacted(data, planned_now):
    compact = pytest.importorskip("spark_arrow_ipc.spark.rewrite.compact").compact
    compact(session(before=lambda part, attempt: planned_now()), data, retention="0")


def stream(**options):
    def run(data, planned_now):
        stream_mode = pytest.importorskip("spark_arrow_ipc.spark.read.stream_reader").stream_mode
        from spark_arrow_ipc.spark.options.options import parse_stream

        own = {name: str(data.parent / value) if value.startswith("_") else value for name, value in options.items()}
        mode = stream_mode(*parse_stream({"path": str(data), **own}))
        end = mode.latest(mode.initial(), ALL_AVAILABLE)
        planned_now()
        mode.committed(end)

    return run


def command(*words):
    def run(data, planned_now):
        planned_now()
        out = data.parent / "out"
        main([str(data) if word == "IN" else str(out / word[4:]) if word.startswith("OUT") else word for word in words])

    return run


ACTIONS = {
    "append": (committed, job(APPEND)),
    "overwrite": (committed, job(OVERWRITE)),
    "overwrite of foreign files": (dropped, job(OVERWRITE)),
    "overwrite some partitions": (committed, job(DYNAMIC)),
    "overwrite and retain": (committed, job(OVERWRITE, retention=3600)),
    "abort": (committed, aborted),
    "vacuum": (committed, vacuumed),
    "entries and removed files that are due": (replacing, pruned),
    "vacuum of what is due": (replacing, vacuumed),
    "compact": (committed_twice, compacted),
    "rewrite in place": (committed, rewritten(mode="overwrite", partitionBy="k")),
    "rewrite of partitions": (
        committed,
        rewritten(mode="overwrite", partitionBy="k", partitionOverwriteMode="dynamic", where="k = 1"),
    ),
    "batches of a query": (committed, batches),
    "a stream that deletes": (dropped, stream(cleanSource="delete")),
    "a stream with a log that deletes": (dropped, stream(cleanSource="delete", sourceLog="_log")),
    "a recursive stream that deletes": (dropped, stream(cleanSource="delete", recursiveFileLookup="true")),
    "arrowipc vacuum": (committed, command("vacuum", "IN", "--older-than", "0")),
    "arrowipc split": (committed, command("split", "IN", "OUT", "--rows", "1")),
    "arrowipc repair": (committed, command("repair", "IN", "OUT")),
    "arrowipc copy": (committed, command("copy", "IN", "OUT")),
    "arrowipc fsck --forget-missing": (with_lost_files, command("fsck", "IN", "--forget-missing")),
    "arrowipc fsck --new-id": (committed, command("fsck", "IN", "--new-id")),
    "arrowipc fsck --back-to": (committed_twice, command("fsck", "IN", "--back-to", "1")),
    "arrowipc copy into it": (committed, command("copy", "OUT", "IN")),
}


@pytest.fixture
def within(monkeypatch):
    """Let every deletion and every move of a local storage fail that is not inside of a directory."""

    def guarded(name):
        own = getattr(LocalStorage, name)

        def call(self, *args, **options):
            assert self.root is not None, f"{name} of {args} in a storage of all paths"
            return own(self, *args, **options)

        monkeypatch.setattr(LocalStorage, name, call)

    for name in ("delete", "delete_all", "delete_tree", "delete_directory_if_empty", "publish", "put"):
        guarded(name)


CASES = [
    (action, place)
    for action, (prepare, _) in ACTIONS.items()
    for place in (OF_OTHERS if prepare is dropped else PLACES)
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("action", "place"), CASES)
def test_nothing_outside_is_changed(tmp_path, within, action, place):
    """Whether the action succeeds or refuses is told elsewhere."""
    prepare, run = ACTIONS[action]
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    prepare(data)
    shutil.copytree(data, elsewhere)
    if place == "a committed table" and prepare is dropped:
        shutil.rmtree(elsewhere)
        save_files(elsewhere, [("", arrow_bytes(7))])
    put, put_later = PLACES[place]
    given = put(data, elsewhere)
    before = state(elsewhere)

    def planned_now():
        nonlocal put_later
        if put_later is not None:
            put_later(data, elsewhere)
            before.clear()
            before.update(state(elsewhere))
            put_later = None

    with suppress(ArrowIpcError, OSError):
        run(given, planned_now)
    assert before == state(elsewhere)


@pytest.mark.parametrize("words", [("concat", "IN", "OUT.arrow"), ("rewrite", "IN", "OUT.arrow"), ("convert", "IN", "OUT.arrow"), ("layout", "IN", "OUT.svg")])  # fmt: skip
def test_a_file_that_is_replaced_is_the_link_and_not_what_it_leads_to(tmp_path, words):
    (tmp_path / "a.arrow").write_bytes(arrow_bytes(1))
    victim = tmp_path / "elsewhere"
    victim.write_text("keep me")
    for name in ("out.arrow", "out.svg"):
        (tmp_path / name).symlink_to(victim)
    given = {"IN": "a.arrow", "OUT.arrow": "out.arrow", "OUT.svg": "out.svg"}
    assert 0 == main([words[0], "--force", *(str(tmp_path / given[word]) for word in words[1:])])
    assert "keep me" == victim.read_text()
    assert not (tmp_path / given[words[-1]]).is_symlink()


@pytest.mark.parametrize("action", [name for name in ACTIONS if "stream" in name])
def test_what_is_not_linked_is_taken_away_all_the_same(tmp_path, within, action):
    data = tmp_path / "data"
    dropped(data)
    ACTIONS[action][1](data, lambda: None)
    assert [] == list(data.rglob("*.arrow"))


# ---- every call that deletes or moves, and why no link turns it elsewhere

PACKAGE = Path(spark_arrow_ipc.__file__).parent

INSIDE = "a storage inside the table's directory (`TableDirectory`): no link below it is followed"
ROOTS = "a storage inside the path that the user named"
OWN_LOG = "a storage inside the sourceLog that the user named; names that the log makes"
NAMED = "the file that the user named, and a new name of our own beside it: a rename replaces a link, and follows none"
DOOR = "the storage itself: below its root by descriptors, each opened without following a link"
NO_LINKS = "a storage without links"
OWN_NAME = "a name that this process made, for itself alone"
RUNTIME = "a socket's or shared memory's name, made by a server of ours in the user's own runtime directory"

ORIGINS = {
    "cli/rewrite.py": {
        "_Parts.__exit__": "a storage inside the directory that the user named; names that this process made"
    },
    "dataset/stream/clean.py": {"Cleaner._take_out": ROOTS},
    "dataset/stream/source_log.py": {"SourceLog.prune": OWN_LOG},
    "dataset/write/job_plan.py": {"_begin": INSIDE},
    "dataset/write/staged_file.py": {"remove_staged": INSIDE},
    "ipc/dissociated/server.py": {"Server.close": RUNTIME, "serve": RUNTIME, "_listen_unix": RUNTIME},
    "ipc/dissociated/shared_memory.py": {"Region.close": RUNTIME, "remove_abandoned": RUNTIME},
    "ipc/bytes/sinks.py": {
        "PathSink.finish": NAMED,
        "PathSink.discard": OWN_NAME,
        "StoredSink.finish": NO_LINKS,
        "StoredSink.discard": NO_LINKS,
    },
    "spark/jar.py": {"_publish": OWN_NAME},
    "storage/base.py": {"LearnsByDoing.delete_all": NO_LINKS},
    "storage/beneath.py": {"delete_tree": DOOR},
    "storage/local.py": {
        "LocalStorage.scratch_file": OWN_NAME,
        "LocalStorage.put": DOOR,
        "LocalStorage.put_if_absent": OWN_NAME,
        "LocalStorage.check_put_if_absent": OWN_NAME,
        "LocalStorage.publish": DOOR,
        "LocalStorage.give_back": DOOR,
        "LocalStorage.delete": DOOR,
        "LocalStorage.delete_all": DOOR,
        "LocalStorage.delete_tree": DOOR,
        "LocalStorage.delete_directory_if_empty": DOOR,
        "LocalStorage._delete_on_error": OWN_NAME,
    },
    "storage/object_store.py": {
        "ObjectStorage.check_put_if_absent": NO_LINKS,
        "ObjectStorage.delete.delete": NO_LINKS,
        "ObjectStorage.delete_tree": NO_LINKS,
        "ObjectStorage._delete_batch.delete": NO_LINKS,
        "ObjectStorage._delete_batch": NO_LINKS,
    },
    "table/collect.py": {
        "_delete_until_gone": INSIDE,
        "_remove": INSIDE,
        "_sync_directories": INSIDE,
        "collect": INSIDE,
        "delete_old": INSIDE,
        "sweep": INSIDE,
    },
    "table/copy.py": {"_Stage._copy": INSIDE},
    "table/documents.py": {"publish_documents": INSIDE},
    "table/log.py": {"prune": INSIDE},
    "table/repair.py": {"renew_id": INSIDE},
    "table/transaction.py": {"Transaction._move": INSIDE, "Transaction.abort": INSIDE},
    "table/vacuum.py": {"vacuum": INSIDE, "_find_garbage.delete_trees": INSIDE, "_read_clock": INSIDE},
}
"""For each module and function that deletes or moves, the origin of the paths. A new one needs its row here."""

CHANGES = {
    "delete",
    "delete_all",
    "delete_tree",
    "delete_directory_if_empty",
    "publish",
    "give_back",
    "unlink",
    "rename",
    "renames",
}
CHANGES |= {"rmdir", "removedirs", "rmtree", "move", "truncate"}
NOT_OF_FILES = {"np", "_EXPORTER"}


def is_change(call):
    """Return whether a call deletes or moves files; `replace` with one argument is a path's, others are a string's."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    name, of = call.func.attr, call.func.value
    owner = of.id if isinstance(of, ast.Name) else ""
    is_replace = name == "replace" and (owner == "os" or (len(call.args) == 1 and not call.keywords))
    return owner not in NOT_OF_FILES and (name in CHANGES or is_replace or (name == "remove" and owner == "os"))


def changing(node, above=()):
    """Yield the function or method of each call that deletes or moves."""
    for child in ast.iter_child_nodes(node):
        if is_change(child):
            yield ".".join(above)
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        yield from changing(child, (*above, child.name) if named else above)


@pytest.mark.slow
def test_every_call_that_deletes_or_moves_has_a_reason():
    found = {
        path.relative_to(PACKAGE).as_posix(): set(places)
        for path in PACKAGE.rglob("*.py")
        if (places := list(changing(ast.parse(path.read_text()))))
    }
    assert {module: set(rows) for module, rows in ORIGINS.items()} == found


def test_no_storage_of_all_paths_is_made_from_one_inside_to_delete_or_move():
    """`inside(None)` undoes the protection: it serves to make the table's own directory, and to list."""
    modules = [
        path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if "inside(None)" in path.read_text()
    ]
    allowed = ["stream/table.py", "write/existing_files.py", "write/job_plan.py", "write/nested.py"]
    assert [*(f"dataset/{name}" for name in allowed), "table/copy.py"] == sorted(modules)
