"""A stream of a dataset, and writers, over a memory storage; all of them die anywhere. Nothing is lost or read twice.

Writers append to partitions, abort, and die right after their record, so that it is pending. The stream is driven as
Spark drives it: an offset is written down before its batch is run, a batch is written down as done after the sink has
it, and a process that dies at any of these moments is followed by one that knows the offsets alone. Each batch that is
run again must have the files that it had.
"""

import json
import random
import sys
import uuid
from contextlib import nullcontext, suppress
from unittest import mock

from commit_jobs import Died, dying
from job_plans import plan_job
from memory_storage import MemoryStorage

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, StagedFile
from spark_arrow_ipc.dataset.commit_log.log import newest_record
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Limit
from spark_arrow_ipc.dataset.stream.table import TableMode, TableOptions
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.publisher import TIMING
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.storage.paths import join, relative

ROOT = "memory:/data"
LATEST = TableOptions(from_latest=True)
STEPS = 160
WRITTEN_FOR = 60
"""Steps in which writers write; the stream reads the rest."""


class Trial:
    """One dataset and one query."""

    def __init__(self, seed, publishing):
        self.luck = random.Random(seed)
        self.storage = MemoryStorage(renames=publishing == "renames")
        self.dataset = DatasetDirectory(self.storage, ROOT)
        self.written = []
        self.rows = {}
        """By file that a rewrite made: the written files whose rows it has."""
        self.directories = self.luck.choice([[""], ["k=1", "k=2"]])
        self.options = self.luck.choice([TableOptions(), TableOptions(), LATEST, TableOptions(first_record=1)])
        self.offsets, self.done, self.sink = [], 0, {}
        self.largest = 0

    def chance(self, share):
        return self.luck.random() < share

    # Writers

    def write(self):
        plan = plan_job(ROOT, WriteMode.APPEND, storage=self.storage, durable=False, commit_retention=3600)
        files = [self.staged(plan) for _ in range(self.luck.randrange(1, 4))]
        if self.chance(0.15):
            abort(plan.staging)
            return
        outputs = [TaskOutput(plan.staging.jobid, (file,)) for file in files]
        if self.chance(0.3):
            with (
                suppress(Died),
                dying(self.luck.choice(["C3.synced", "C4.renamed", "C6.success", "C6.kept", "C6.done"])),
            ):
                commit(plan, outputs, write_empty=None)
        else:
            commit(plan, outputs, write_empty=None)
        # It may have died while it finished another one's record.
        if plan.staging.jobid in newest_record(self.dataset)[1].jobs:
            self.written += [file.final for file in files]

    def rewrite(self):
        """Move the rows of some files into another one; a stream sees nothing of it."""
        plan = plan_job(
            ROOT, WriteMode.REWRITE, storage=self.storage, durable=False, keep_replaced=1 << 30,
            choose=lambda files: [file for file in files if self.chance(0.4)],
        )  # fmt: skip
        if plan.skip:
            return
        made = self.staged(plan)
        self.rows[made.final] = [row for file in plan.intent.snapshot for row in self.rows.get(file.path, [file.path])]
        outputs = [TaskOutput(plan.staging.jobid, (made,))]
        point = self.luck.choice(["C3.synced", "C5.unlinked", "C6.kept", "C6.done", None])
        with suppress(Died), nullcontext() if point is None else dying(point):
            commit(plan, outputs, write_empty=None)

    def staged(self, plan):
        name = f"{self.luck.getrandbits(128):032x}"
        self.storage.put(plan.staging.path(f"{name}.staged"), b"rows")
        final = join(
            self.luck.choice(self.directories), f"part-00000-{uuid.UUID(int=self.luck.getrandbits(128)).hex}.arrow"
        )
        return StagedFile(f"{name}.staged", final.lstrip("/"), 4, 4, 0)

    # The stream

    def mode(self):
        return TableMode(self.dataset, self.options)

    def dies(self):
        if self.chance(0.08):
            raise Died

    def limit(self):
        return ALL_AVAILABLE if self.chance(0.05) else Limit(max_files=self.luck.randrange(1, 6))

    def run_batch(self, mode, writes):
        if self.done == len(self.offsets):
            start = self.offsets[-1] if self.offsets else mode.initial()
            end = mode.latest(start, self.limit())
            if end is start:
                return
            self.dies()
            text = json.dumps(end)
            self.largest = max(self.largest, len(text))
            self.offsets.append(json.loads(text))
        # Spark does not write down where the first batch began.
        start = self.offsets[self.done - 1] if self.done else mode.initial()
        self.dies()
        files = [relative(file.path, ROOT) for file in mode.batch(start, self.offsets[self.done]).files]
        if writes and self.chance(0.2):
            self.write()
        assert self.sink.setdefault(self.done, files) == files, "a batch that is run again has other files"
        self.dies()
        self.done += 1
        if self.done > 1 and self.chance(0.5):
            mode.committed(self.offsets[self.done - 2])

    def run(self):
        for _ in range(self.luck.randrange(0, 6)):
            self.write()
        mode, pinned = self.mode(), None
        for step in range(STEPS):
            if step < WRITTEN_FOR and self.chance(0.35):
                self.write()
            if step < WRITTEN_FOR and self.chance(0.1):
                self.rewrite()
            try:
                self.run_batch(mode, step < WRITTEN_FOR)
            except Died:
                mode = self.mode()
            if pinned is None and self.offsets:
                # What was there before is left out by a query that begins with the latest.
                pinned = self.offsets[0]
        read = [row for files in self.sink.values() for path in files for row in self.rows.get(path, [path])]
        assert len(read) == len(set(read)), "the rows of a file are in two batches"
        expected = set(self.written)
        if self.options is LATEST:
            expected = self.added_after(pinned["seq"] if pinned else 0)
        assert expected == set(read), f"{len(expected - set(read))} of {len(expected)} files are lost"
        return len(read), self.largest

    def added_after(self, seq):
        records = self.mode()._records
        head = records.head()
        added = (record for record in records.between(seq, head.seq, head.seq) if not record.is_rewrite)
        return {add.final for record in added for add in record.adds}


@mock.patch.multiple(TIMING, patience_seconds=0.0, grace_seconds=0.0)  # the dead do not go on
def run(trials, seed=1, publishing="renames"):
    files = largest = 0
    for number in range(seed, seed + trials):
        try:
            read, size = Trial(number, publishing).run()
        except BaseException:
            print(f"seed {number}", file=sys.stderr)
            raise
        files, largest = files + read, max(largest, size)
    return {"trials": trials, "files": files, "lost": 0, "doubled": 0, "largest offset": largest}
