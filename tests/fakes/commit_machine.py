"""Writers, readers, crashes and vacuum over one memory storage, one storage call at a time, driven by Hypothesis.

A process is a `Process`: the storage as one writer sees it, which may die, lose a reply or be overtaken by another
process at any of its calls. What is true is kept by the machine itself: it watches which records get into the chain,
and applies them to a mapping of file names. At the calls of a process, and after each rule, a reader must see exactly
that mapping, and the columns of all its files: jobs add some, and the clocks of their tasks are early or late.

Jobs inside of the dataset (``k=1``) and above it are refused, however they run beside its own: of all these directories
only one ever becomes a dataset. What the refused ones leave disturbs nobody.

`CopyingCommitMachine` does the same over a storage that publishes by copies. A copy whose process dies, or gets no reply,
is under way on the storage: it ends after some more calls of anybody, at the latest when the grace has passed.
"""

import io
import json
import math
from contextlib import ExitStack, suppress
from dataclasses import replace
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, precondition, rule
from job_plans import plan_job
from memory_storage import MemoryStorage

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import Field, utf8
from spark_arrow_ipc.dataset.commit_log import log, record
from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    STAGING_DIRECTORY,
    DatasetDirectory,
    RemovedFile,
    StagedFile,
    kept_path,
)
from spark_arrow_ipc.dataset.commit_log.log import newest_record
from spark_arrow_ipc.dataset.commit_log.stored_record import read_kept
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataCache, MetadataOptions
from spark_arrow_ipc.dataset.scan.schemas import read_schemas
from spark_arrow_ipc.dataset.stream.table_records import TableRecords
from spark_arrow_ipc.dataset.write import WriteMode, record_chain, roll_forward
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.conflicts import NewSchema
from spark_arrow_ipc.dataset.write.existing_files import live_files
from spark_arrow_ipc.dataset.write.publisher import TIMING
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import ArrowIpcError, CommitError, NoFilesError, NotArrowError
from spark_arrow_ipc.storage.paths import join, name_of, relative

ROOT = "memory:/top/data"
NESTED = [f"{ROOT}/k=1", f"{ROOT}/k=2/sub", "memory:/top"]
"""Directories that must not become datasets beside it."""
FOREIGN = "k=1/part-0.arrow"
"""A name that another program writes again and again."""
CALLS = (
    "status", "list", "open", "read", "put", "put_if_absent", "publish", "give_back", "delete", "delete_all",
    "delete_tree",
)  # fmt: skip

COPY_SECONDS = 30.0
"""Longest time that a copy takes."""


class Died(BaseException):
    """The end of a process: nothing catches it to clean up."""


class Clocked(MemoryStorage):
    """Gives a file the time of another clock."""

    def turn_back(self, path, steps):
        self._file(path).mtime_ns -= steps


def columns_in(tree, storage):
    """Return the columns of a plain read."""
    try:
        schemas = read_schemas(tree.all_files(), tree.heads, MetadataCache(MetadataOptions(storage=storage)))
    except (NoFilesError, NotArrowError):  # the file of another program may be alone in a partition
        return frozenset()
    return frozenset(name for _, schema in schemas for name in schema.names)


class Recorded(Clocked):
    """Tells the machine of every record that gets its name, and carries out copies that nobody waits for."""

    def __init__(self, machine):
        super().__init__(renames=machine.renames)
        self.machine = machine
        self.under_way = []
        """Copies that nobody waits for: path, bytes, calls until they end, and the time at which they do at the latest."""

    def begin_copy(self, staged, final, calls):
        self.under_way.append([final, self._file(staged).data, calls, self.machine.now + COPY_SECONDS])

    def called(self):
        for copy in self.under_way:
            copy[2] -= 1
        self.end_copies(lambda copy: copy[2] <= 0)

    def end_copies(self, ends=lambda _: True):
        for copy in [copy for copy in self.under_way if ends(copy)]:
            self.under_way.remove(copy)
            self.put(copy[0], copy[1])

    def touch(self):
        """Give all files of ours other times and versions, as somebody does who copies the directory."""
        for path, file in list(self._files.items()):
            if path != join(ROOT, FOREIGN):
                super().put(path, file.data)

    def has_taken(self):
        """Return whether a process has moved away what it believed to be an old file of another program."""
        name = name_of(kept_path("", FOREIGN))
        return any(name_of(path) == name and STAGING_DIRECTORY in path for path in self._files)

    def copied(self):
        """Return a copy of all files, with times and versions of its own; those of other programs keep their times."""
        copy = Clocked(renames=self.renames)
        for path, file in self._files.items():
            copy.put(path, file.data)
            if path.endswith(FOREIGN):  # a record knows them by nothing else: docs/howto/copy_and_back_up.md
                copy._files[path] = file
        return copy

    def clear(self):
        """Remove everything; copies that nobody waits for are over."""
        self.end_copies()
        self._files.clear()

    def put_if_absent(self, path, data, *, durable=False):
        made = super().put_if_absent(path, data, durable=durable)
        if made and path.endswith(".json"):
            if path.startswith(f"{ROOT}/_ipc_commits/"):
                self.machine.record_was_made(int(name_of(path)[:20]), data)
            else:
                self.machine.nested_record_was_made(data)
        return made


class Process:
    """The storage as one process sees it.

    Parameters
    ----------
    machine
        Looks at the data before some of the calls.
    fault
        (kind, call number, or the name of a call): "die before", "die after", "refuse" (an error, nothing is done) or "lose
        the reply" (an error, and it is done); the last two also "while publishing", with the number of a call of
        `publish`; or None.
    overtaken
        (call number or name of a call, action): another process does something before that call; or None.
    looks_every
        A reader looks before each so many-th call.
    """

    def __init__(self, machine, fault=None, overtaken=None, looks_every=0):
        self.inner = machine.storage
        self.machine = machine
        self.fault = fault
        self.overtaken = overtaken
        self.looks_every = looks_every
        self.calls = 0
        self.published = 0

    @property
    def traits(self):
        return self.inner.traits

    def inside(self, directory):
        return self

    def real_path(self, path):
        return path

    unique_path = real_path

    def resolve(self, path):
        return self.inner.resolve(path)

    def make_directory(self, directory):
        pass

    def delete_directory_if_empty(self, directory):
        pass

    def sync(self, directory):
        pass

    def sync_file(self, file):
        pass

    def check_takes_changes(self, path):
        pass

    def check_put_if_absent(self, directory):
        pass

    def check_writable(self, directory):
        pass

    def check_publish(self, staging, finals):
        pass

    def check_delete(self, paths):
        pass

    def kind(self, name):
        """Return the fault of this call, or None."""
        self.published += name == "publish"
        kind, number = self.fault or ("", 0)
        if kind.endswith(" while publishing"):
            return kind.removesuffix(" while publishing") if (name, self.published) == ("publish", number) else None
        return kind if number in (self.calls, name) else None

    def look(self):
        try:
            self.machine.look()
        except Exception as error:  # which the process would take for one of the storage
            raise AssertionError(f"a reader fails: {error!r}") from error

    def call(self, name, *args, **options):
        self.calls += 1
        kind = self.kind(name)
        if self.overtaken is not None and self.overtaken[0] in (self.calls, name):
            (_, act), self.overtaken = self.overtaken, None
            act()
        if self.looks_every and self.calls % self.looks_every == 0:
            self.look()
        self.inner.called()
        if kind == "die before":
            raise Died
        if kind == "refuse":
            raise OSError(5, "Input/output error")
        if name == "publish" and kind is not None and not self.inner.renames:
            self.inner.begin_copy(*args, self.calls * 37 % 400)
            raise Died if kind == "die after" else OSError(5, "Input/output error")
        result = getattr(self.inner, name)(*args, **options)
        result = iter(list(result)) if name == "list" else result
        if kind == "die after":
            raise Died
        if kind == "lose the reply":
            raise OSError(5, "Input/output error")
        return result


def _forwarded(name):
    return lambda self, *args, **options: self.call(name, *args, **options)


for _name in CALLS:
    setattr(Process, _name, _forwarded(_name))


FAULTS = (
    st.none()
    | st.tuples(
        st.sampled_from(["die before", "die after", "refuse", "lose the reply"]),
        st.integers(1, 25) | st.integers(1, 70),
    )
    | st.tuples(st.sampled_from(["die after while publishing", "lose the reply while publishing"]), st.integers(1, 4))
)
SHORT = st.integers(1, 25)
CALL_NUMBERS = SHORT | st.integers(1, 70)
MOMENTS = SHORT | st.sampled_from(["put_if_absent", "put", "delete", "delete_all", "delete_tree"])
"""The calls of a process before which others act: by number, or the first of a name."""

COLUMNS = st.sampled_from(["a", "a", "ab", "c", "ad"])
"""The columns of a job's files: one for each letter."""

CLOCKS = st.sampled_from([0, 0, -1_000_000, 1_000_000])
"""How late the clock of a job's tasks is; that of the storage makes one step with each write."""

DIRECTORIES = st.sampled_from([("k=1",), ("k=2",), ("k=1", "k=2"), ("",)])
KEPT_SECONDS = st.sampled_from([0, 0, 3600])
LOOKS = st.sampled_from([0, 0, 0, 1, 3, 7])
OVERTAKINGS = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.sampled_from(["commit", "commit", "abort", "vacuum", "give up", "three appends", "touch", "withdraw late"]),
    ),
    min_size=1,
    max_size=4,
)
"""What others do while a reader lists: after how many of its calls, and what."""

MODES = st.sampled_from([WriteMode.APPEND, WriteMode.APPEND, WriteMode.OVERWRITE, WriteMode.DYNAMIC, WriteMode.REWRITE])


LIMITS = st.sampled_from(
    [(1000, 64, 60 * 10**9, 1 << 20)] * 3 + [(1000, 64, 3, 1 << 20), (1000, 64, 60 * 10**9, 0), (3, 2, 0, 0)]
)
"""Jobs that a record remembers; records that are kept: how many, how much older than the youngest, and how large."""


def schema_of(names):
    return Schema(tuple(Field(name, utf8) for name in sorted(names)))


def bytes_of(names):
    """A stream without rows."""
    sink = io.BytesIO()
    ipc.create(sink, schema_of(names), ipc.WriteOptions(format="stream")).close()
    return sink.getvalue()


CONTENTS = {names: bytes_of(names) for names in ("a", "ab", "c", "ad")}


class CommitMachine(RuleBasedStateMachine):
    """See the module."""

    jobs = Bundle("jobs")
    renames = True
    grace_seconds = COPY_SECONDS

    def __init__(self):
        super().__init__()
        self.now = 0.0
        # Less patience than grace: what a dead process began is still under way when it is helped.
        TIMING.patience_seconds, TIMING.grace_seconds, TIMING.poll_seconds = 1.0, self.grace_seconds, 0.5
        TIMING.clock, TIMING.sleep = (lambda: self.now), self.sleep
        self.storage = Recorded(self)
        self.head = 0
        self.truth = set()
        """Relative names of the files that are committed."""
        self.columns = frozenset()
        """The columns that a read has: of the last job that replaced all files, and of all that came after it."""
        self.truths = [(set(), self.columns)]
        """All states of `truth` and `columns`, oldest first."""
        self.newest, self.before, self.columns_before = None, set(), frozenset()
        """The job of the newest record, and what was committed before it."""
        self.columns_of = {}
        """The columns of each job's files."""
        self.chain = None
        self.committed = []
        """The jobs of the chain that are committed, oldest first."""
        self.ever_committed = set()
        self.withdrawn = set()
        self.remembered = 1000
        self.patches = ExitStack()
        self.number = 0
        self.records = {}
        self.keeps = False
        self.nested = False
        """Whether a job is committed in another directory."""

    def sleep(self, seconds):
        self.now += seconds
        self.storage.end_copies(lambda copy: copy[3] <= self.now)

    # What is true

    def record_was_made(self, seq, data):
        record = json.loads(data)
        if seq <= self.head or (seq > 1 and record["chain"] != self.chain):
            return  # it fills a hole in the past, or is of a chain that was removed, and counts for nothing
        assert seq == self.head + 1, "a record leaves no gap"
        self.head, self.chain = seq, record["chain"]
        self.records[seq] = record
        if record["mode"] == "withdrawn":
            self.newest = None
            assert not self.known & set(record["withdraws"]), "a committed job is withdrawn"
            self.withdrawn |= set(record["withdraws"])
            return
        if record["mode"] == "taken back":
            assert record["withdraws"] == [self.newest], "another job than the newest is taken back"
            self.truth, self.columns = self.before, self.columns_before
            self.truths.append((self.truth, self.columns))
            self.committed.remove(self.newest)
            self.withdrawn.add(self.newest)
            return
        assert not self.nested, "a job commits beside another dataset"
        assert record["jobid"] not in self.withdrawn, "a withdrawn job commits"
        assert record["jobid"] not in self.committed, "a job commits twice"
        self.committed.append(record["jobid"])
        self.ever_committed.add(record["jobid"])
        removes = [RemovedFile(*removal) for removal in record["removes"]]
        assert {file.path for file in removes} <= self.truth, "an overwrite removes what is not there"
        removed = {file.path for file in removes if file.is_same(self.storage.status(join(ROOT, file.path)))}
        self.newest, self.before, self.columns_before = record["jobid"], self.truth, self.columns
        self.truth = (self.truth - removed) | {add[1] for add in record["adds"]}
        kept = frozenset() if record["mode"] == "overwrite" else self.columns
        self.columns = kept.union(self.columns_of[record["jobid"]])
        self.truths.append((self.truth, self.columns))

    def nested_record_was_made(self, data):
        if json.loads(data)["mode"] != "withdrawn":
            assert not self.committed, "a job commits inside of the dataset, or above it"
            self.nested = True

    @property
    def known(self):
        """The committed jobs that the newest record remembers."""
        return set(self.committed[-self.remembered :])

    def look(self):
        moved = {FOREIGN} if self.storage.has_taken() else set()
        seen, columns = self.seen(self.storage)
        assert self.truth - moved == seen - moved, f"hidden {self.truth - seen}, not committed {seen - self.truth}"
        part = {name for name in self.truth if name.startswith("k=1/")}
        assert part - moved == self.seen(self.storage, f"{ROOT}/k=1")[0] - moved
        assert self.columns == columns, f"columns {sorted(self.columns)}, and a read has {sorted(columns)}"
        if self.keeps:
            self.look_at_kept()

    def look_at_kept(self):
        """Every record that is done is kept, and a stream reads each as it is in the chain, or is told why not."""
        dataset = DatasetDirectory(self.storage, ROOT)
        head = newest_record(dataset)[0]  # which knows whose mark it is
        for seq, made_record in self.records.items():
            is_taken_back = self.records.get(seq + 1, {"mode": ""})["mode"] == "taken back"
            if read_kept(dataset, seq) is None:
                assert is_taken_back or (seq == head.seq and not head.done), "a gap in the kept records"
            record = None
            try:
                record = TableRecords(dataset).between(max(seq - 2, 0), seq, head.seq)[-1]
            except CommitError as error:
                if "does not follow record" not in str(error):
                    raise
            made = (made_record["jobid"], {add[1] for add in made_record["adds"]})
            assert record is None or is_taken_back or made == (record.jobid, {add.final for add in record.adds})

    @staticmethod
    def seen(storage, directory=ROOT):
        try:
            tree = list_tree([directory], storage=storage)
        except NoFilesError:  # nothing was ever written
            return set(), frozenset()
        files = tree.all_files()
        for file in files:
            places = [file.path] if file.staged is None else [file.path, file.staged]
            assert any(storage.status(place) is not None for place in places), "a listed file is not there"
        return {relative(file.path, ROOT) for file in files}, columns_in(tree, storage)

    # What happens

    @initialize(keeps=st.booleans(), limits=LIMITS)
    def begin(self, keeps, limits):
        self.keeps = keeps
        self.remembered, kept_records, kept_ns, kept_nbytes = limits
        for module in (record, record_chain, roll_forward):
            self.patches.enter_context(mock.patch.object(module, "REMEMBERED", self.remembered))
        limits = {"KEPT_RECORDS": kept_records, "_KEPT_NS": kept_ns, "_KEPT_NBYTES": kept_nbytes}
        self.patches.enter_context(mock.patch.multiple(log, **limits))
        self.make()

    def make(self):
        plan = plan_job(ROOT, WriteMode.APPEND, storage=self.storage, commit_retention=60 if self.keeps else None)
        self.finished("first", self.staged(plan, "k=1"))

    def staged(self, plan, *directories, storage=None, columns="a", clock=0):
        """Stage two files a directory, as two tasks would."""
        storage = storage or self.storage
        self.columns_of[plan.staging.jobid] = columns
        outputs, data = [], CONTENTS[columns]
        for directory in directories:
            files = []
            for part in range(2):
                self.number += 1
                name = f"{self.number:032x}"
                storage.put(plan.staging.path(f"{name}.staged"), data)
                storage.turn_back(plan.staging.path(f"{name}.staged"), clock)
                final = join(directory, f"part-{part:05d}-{name}.arrow")
                files.append(StagedFile(f"{name}.staged", final, len(data), 4, 0))
            outputs.append(TaskOutput(plan.staging.jobid, tuple(files)))
        return plan, outputs

    def new_job(self, mode, directories, keep_replaced=0):
        """Plan a job by what is there now, and stage its files; a rewrite replaces all."""
        choose = (lambda files: files) if mode is WriteMode.REWRITE else None
        options = {"storage": self.storage, "durable": False}
        plan = plan_job(ROOT, mode, keep_replaced=keep_replaced, choose=choose, **options)
        plan = plan_job(ROOT, WriteMode.APPEND, **options) if plan.skip else plan
        return self.staged(plan, *directories, columns=list(CONTENTS)[self.number // 2 % len(CONTENTS)])

    def finished(self, _, job):
        self.commit(*job)

    def commit(self, plan, outputs):
        """Commit a job whose record gets the columns of its files, and of those that stay."""
        own = self.columns_of[plan.staging.jobid]
        schema = NewSchema(schema_of(own), schema_of(own), lambda there, _: schema_of({*there.names, *own}))
        return commit(plan, outputs, write_empty=None, schema=schema)

    @rule(
        target=jobs,
        mode=MODES,
        directories=DIRECTORIES,
        keep_replaced=KEPT_SECONDS,
        every=st.integers(1, 3),
        fault=FAULTS,
        columns=COLUMNS,
        clock=CLOCKS,
    )
    def plan(self, mode, directories, keep_replaced, every, fault, columns, clock):
        """Plan a job; a rewrite replaces every so many-th file."""
        process = Process(self, fault)
        choose = (lambda files: files[::every]) if mode is WriteMode.REWRITE else None
        try:
            plan = plan_job(ROOT, mode, keep_replaced=keep_replaced, storage=process, durable=False, choose=choose)
        except (Died, OSError, CommitError):
            plan = None
        if plan is None or plan.skip:
            plan = plan_job(ROOT, WriteMode.APPEND, storage=self.storage, durable=False)
        return self.staged(plan, *directories, columns=columns, clock=clock)

    def committing(self, job, fault=None, overtaken=None, looks_every=0):
        plan, outputs = job
        staging = replace(plan.staging, dataset=DatasetDirectory(Process(self, fault, overtaken, looks_every), ROOT))
        jobid = staging.jobid
        before = jobid in self.committed
        try:
            summary = self.commit(replace(plan, staging=staging), outputs)
        except Died:
            return
        except (CommitError, OSError) as error:
            is_published = not before and jobid in self.committed
            self.check(not is_published or "nothing is published" not in str(error), str(error))
            return
        assert jobid in self.ever_committed, "a job that is reported as published is not committed"
        assert summary.published or before

    @staticmethod
    def check(holds, what):
        assert holds, what

    def aborting(self, job, fault=None, overtaken=None, looks_every=0):
        plan, _ = job
        staging = replace(plan.staging, dataset=DatasetDirectory(Process(self, fault, overtaken, looks_every), ROOT))
        chain = self.chain
        try:
            gave_up = abort(staging)
        except Died:
            return
        if fault is None and chain == self.chain and staging.jobid not in {*self.committed} - self.known:
            assert gave_up == (staging.jobid not in self.committed)
            assert gave_up == (staging.jobid in self.withdrawn)

    def vacuuming(self, job=None, fault=None, overtaken=None, looks_every=0):
        try:
            vacuum(ROOT, older_than_seconds=0, storage=Process(self, fault, overtaken, looks_every))
        except (Died, CommitError, OSError):
            return

    def giving_up(self, job=None, fault=None, overtaken=None, looks_every=0):
        """Give up whatever waits; nobody may know that the processes which began to remove old files are gone."""
        process = Process(self, fault, overtaken, looks_every)
        try:
            give_up(ROOT, self.newest or "f" * 32, older_than_seconds=math.inf, storage=process)
        except (Died, CommitError, OSError):
            return

    def acting(self, what):
        return {
            "give up": self.giving_up,
            "commit": self.committing,
            "abort": self.aborting,
            "vacuum": self.vacuuming,
            "three appends": self.appending,
            "withdraw late": self.withdrawing_late,
            "touch": lambda *_: self.storage.touch(),
            "copy": self.copying,
            "make anew": self.making_anew,
            "write foreign": self.writing_foreign,
            "job elsewhere": lambda _=None, fault=None: self.committing_elsewhere(NESTED[self.number % 3], fault=fault),
        }[what]

    def appending(self, *_):
        for _ in range(3):  # after which the number that a slow job means to take has been pruned
            self.commit(*self.new_job(WriteMode.APPEND, ["k=4"]))

    def withdrawing_late(self, job, *_):
        """A job is withdrawn by a process that stands still before its record is made, and dies after."""
        self.aborting(job, ("die after", "put_if_absent"), ("put_if_absent", self.appending))

    def copying(self, *_):
        """Whoever goes on with a copy, which was made in one moment, finds what is committed."""
        copy, truth = self.storage.copied(), self.truth
        assert (truth, self.columns) == self.seen(copy)
        vacuum(ROOT, older_than_seconds=0, storage=copy)
        assert (truth, self.columns) == self.seen(copy)
        assert truth == {file.path for file in live_files(DatasetDirectory(copy, ROOT))}
        plan = plan_job(ROOT, WriteMode.APPEND, storage=copy, durable=False)
        self.commit(*self.staged(plan, "k=5", storage=copy, columns="c"))
        seen, columns = self.seen(copy)
        assert truth < seen
        assert self.columns | {"c"} == columns

    def writing_foreign(self, *_):
        """Another program writes a file, or writes it again."""
        if not self.renames:
            return  # between a look and a request something remains: docs/adr/0022-commit-without-rename.md
        self.number += 1
        self.storage.put(join(ROOT, FOREIGN), b"%d" % self.number)
        self.truth, self.before = self.truth | {FOREIGN}, self.before | {FOREIGN}
        self.truths.append((self.truth, self.columns))

    def making_anew(self, _=None, fault=None):
        """Everything is removed, and as many jobs as before write the dataset anew; the last one may die."""
        jobs = self.head
        self.clearing()
        self.make()
        for left in range(jobs - 1, 0, -1):
            self.committing(self.new_job(WriteMode.APPEND, ["k=1"]), fault if left == 1 else None)

    def clearing(self):
        self.storage.clear()
        self.head, self.chain, self.truth, self.nested = 0, None, set(), False
        self.columns = self.columns_before = frozenset()
        self.truths.append((self.truth, self.columns))
        self.newest, self.before, self.committed, self.records = None, set(), [], {}

    def committing_elsewhere(self, root, mode=WriteMode.OVERWRITE, fault=None):
        """Plan, commit and abort a job in a directory of the dataset, or above it."""
        if self.head and not self.committed:
            return  # a dataset in which nothing is committed is none
        plan, process = None, Process(self, fault)
        try:
            plan = plan_job(root, mode, storage=process, durable=False, choose=list)
            if not plan.skip:
                self.commit(*self.staged(plan, ""))
        except Died:
            return
        except (CommitError, OSError):
            if plan is not None:
                with suppress(Died):
                    abort(plan.staging)

    @rule(
        job=jobs,
        other=jobs,
        what=st.sampled_from(["commit", "commit", "commit", "abort", "vacuum", "give up"]),
        then=st.none()
        | st.sampled_from(
            ["commit", "commit", "abort", "vacuum", "give up", "touch", "copy", "write foreign", "job elsewhere"]
        ),
        at=CALL_NUMBERS,
        fault=FAULTS,
        other_fault=FAULTS,
        looks_every=LOOKS,
    )
    def act(self, job, other, what, then, at, fault, other_fault, looks_every):
        """A process commits, aborts or clears; another may do so in the middle of it, and both may die."""
        # Spark commits a job in one process alone, whatever else happens to it at the same time.
        twice = job is other and what == then == "commit"
        overtaken = None if then is None or twice else (at, lambda: self.acting(then)(other, other_fault))
        self.acting(what)(job, fault, overtaken, looks_every)
        self.look()

    @rule(
        mode=MODES,
        directories=DIRECTORIES,
        keep_replaced=KEPT_SECONDS,
        what=st.sampled_from(["commit", "commit", "abort"]),
        then=st.sampled_from(["commit", "abort", "abort", "vacuum", "give up", "three appends", "touch", "make anew"]),
        at=MOMENTS,
        other_fault=FAULTS,
        looks_every=LOOKS,
    )
    def duel(self, mode, directories, keep_replaced, what, then, at, other_fault, looks_every):
        """While a new job is committed or aborted, it is aborted or committed elsewhere, or others do something."""
        if what != then:
            job = self.new_job(mode, directories, keep_replaced)
            if then == "make anew":
                looks_every = 0  # a record that is made late is in the way of readers until its process removes it
            self.acting(what)(job, None, (at, lambda: self.acting(then)(job, other_fault)), looks_every)
        self.look()

    @rule(
        mode=MODES,
        what=st.sampled_from(["commit", "commit", "abort", "vacuum"]),
        at=SHORT | st.integers(8, 32),
        fault=st.just(("die after", "put_if_absent")) | FAULTS,
    )
    def stand_still(self, mode, what, at, fault):
        """A process stands still while the directory is removed and made anew: it changes nothing there."""
        job = self.new_job(mode, ["k=1"])
        self.acting(what)(job, None, (at, lambda: self.making_anew(job, fault)))
        self.look()

    @rule(
        mode=st.sampled_from([WriteMode.APPEND, WriteMode.DYNAMIC]),
        foreign=st.booleans(),
        order=st.permutations(["empty", "rows", "plan"]),
    )
    def partition(self, mode, foreign, order):
        """In a dataset of its own a placeholder, flat rows and a partitioned job meet: it is refused beside rows."""
        storage, jobs = Clocked(renames=self.renames), {}

        def planned(mode, directory, rows):
            by = (Field("k", utf8),) if directory else ()
            plan = plan_job(ROOT, mode, storage=storage, durable=False, partition_by=by)
            _, outputs = self.staged(plan, directory, storage=storage)
            files = tuple(replace(file, rows=rows) for file in outputs[0].files[:1])
            return plan, [TaskOutput(plan.staging.jobid, files)]

        if not foreign:
            jobs["rows"] = planned(WriteMode.APPEND, "", 4)
        jobs["empty"] = planned(WriteMode.APPEND, "", 0)
        try:
            for what in [*order, "partitioned"]:
                if what == "plan":
                    jobs["partitioned"] = planned(mode, "k=1", 4)
                elif what in jobs:
                    commit(*jobs[what], write_empty=None)
                else:
                    storage.put(join(ROOT, "part-0.arrow"), b"rows")
        except ArrowIpcError:  # refused
            return
        assert len(self.seen(storage)[0]) == 1, "rows lie beside partitions, where no reader sees them"

    @rule(root=st.sampled_from(NESTED), mode=MODES, other_mode=MODES, at=CALL_NUMBERS, fault=FAULTS, other_fault=FAULTS)
    def begin_beside(self, root, mode, other_mode, at, fault, other_fault):
        """In the middle of the dataset's first job another one begins a dataset inside of it, or above it."""
        self.clearing()
        elsewhere = lambda: self.committing_elsewhere(root, other_mode, other_fault)  # noqa: E731
        process, keeps = Process(self, fault, (at, elsewhere)), 60 if self.keeps else None
        try:
            plan = plan_job(ROOT, mode, storage=process, durable=False, commit_retention=keeps)
            if not plan.skip:
                self.commit(*self.staged(plan, "k=1"))
        except (Died, CommitError, OSError):
            pass
        if not self.committed:
            self.making_anew()
        self.look()

    @rule(what=st.sampled_from(["touch", "copy", "write foreign", "job elsewhere"]))
    def change(self, what):
        """All files get other times; or are copied; or another program writes."""
        self.acting(what)()
        self.look()

    @rule(mode=MODES, directories=DIRECTORIES, overtakings=OVERTAKINGS, fault=FAULTS)
    def read(self, mode, directories, overtakings, fault):
        """A reader is overtaken by new jobs while it lists: it sees what was true at some time meanwhile."""
        since, left = len(self.truths) - 1, list(overtakings)
        process = Process(self)

        def next_one():
            if left:
                calls, then = left.pop()
                process.overtaken = (process.calls + calls, lambda: (act(then), next_one()))

        def act(then):
            self.acting(then)(self.new_job(mode, directories), fault)

        next_one()
        tree = list_tree([ROOT], storage=process)
        seen = {relative(file.path, ROOT) for file in tree.all_files()}, columns_in(tree, self.storage)
        assert seen in self.truths[since:], "a reader sees what never was"

    @precondition(lambda self: self.number > 4)
    @rule()
    def next_writer(self):
        """A writer without faults finds a directory in which it can work."""
        assert self.commit(*self.new_job(WriteMode.APPEND, ["k=3"])).published
        self.look()

    def teardown(self):
        """Whatever happened, vacuum leaves the committed files and nothing else, and a second one has nothing to do."""
        with self.patches:
            self.end()

    def end(self):
        self.look()
        self.storage.end_copies()
        vacuum(ROOT, older_than_seconds=0, storage=self.storage)
        self.look()
        dataset = DatasetDirectory(self.storage, ROOT)
        assert self.truth == {file.path for file in live_files(dataset)}
        assert [] == list(self.storage.list(dataset.all_staging))
        again = vacuum(ROOT, older_than_seconds=0, storage=self.storage)
        assert (None, (), (), 0) == (again.finished, again.withdrawn, again.files, again.nbytes)


class CopyingCommitMachine(CommitMachine):
    """Over a storage that publishes by copies."""

    renames = False

    @rule()
    def time_passes(self):
        """All copies end that were under way: the files of finished jobs do not come back."""
        self.sleep(COPY_SECONDS)
        self.look()


MACHINES = {"renames": CommitMachine, "copies": CopyingCommitMachine}
