"""Jobs on a fault server, as Spark runs them: tasks that stage a few bytes, a commit, and an abort where it raises."""

import contextlib
import uuid

from fault_server import SECRET
from job_plans import plan_job

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, StagedFile
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.existing_files import live_files
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.storage.open import storage_of

__all__ = ["APPEND", "NEW", "OLD", "OVERWRITE", "RECORD", "Place"]

APPEND, OVERWRITE = WriteMode.APPEND, WriteMode.OVERWRITE
OLD, NEW = ["old 1", "old 2"], ["new 1", "new 2"]
RECORD = "_ipc_commits/"


class Place:
    """A dataset with two old files on a fault server; its files are those of another server where one is given."""

    def __init__(self, server, moved_from=None, max_retries="1"):
        self.server = server
        self.storage, self.root = storage_of(
            f"{server.url}/t", tuple((server.options | {"max_retries": max_retries}).items())
        )
        if moved_from is None:
            self.save(APPEND, OLD)
        else:
            server.objects.by_key.update(moved_from.server.objects.by_key)
        server.reset_counts()

    def save(self, mode, texts):
        """Run a job as Spark does: an error of the commit is followed by an abort, whose error is only logged."""
        plan = plan_job(self.root, mode, storage=self.storage)
        try:
            return commit(plan, self.tasks(plan, texts), write_empty=None)
        except (ArrowIpcError, OSError) as error:
            with contextlib.suppress(ArrowIpcError, OSError):
                abort(plan.staging)
            raise error from None

    def tasks(self, plan, texts):
        """Run a task for each text, and return their reports."""
        return [TaskOutput(plan.staging.jobid, (self.stage(plan, text),)) for text in texts]

    def stage(self, plan, text):
        name = uuid.uuid4().hex
        with self.storage.create(plan.staging.path(f"{name}.staged")) as file:
            file.write(text.encode())
        return StagedFile(f"{name}.staged", f"part-{name}.arrow", len(text), 1, 0)

    def ours(self):
        """What a reader of this package sees, in files that are where they will be or still staged."""
        found = []
        for file in list_tree([self.root], storage=self.storage).all_files():
            source = file.open(self.storage)
            found += bytes(source.read_at(0, source.nbytes)).decode().split("|")
        return sorted(found)

    def listed(self):
        """The paths that a reader finds that only lists."""
        return [f"{self.root}/{file.path}" for file in live_files(DatasetDirectory(self.storage, self.root))]

    def plain(self):
        """What a reader sees that only lists."""
        read = [self.storage.read(path, 1000).decode() for path in self.listed()]
        return sorted(row for text in read for row in text.split("|"))

    def records(self):
        """What lies in the directory of the records, but for what a store is probed with."""
        there = self.server.objects.data().items()
        return {key: data for key, data in there if RECORD in key and not key.endswith("/probe")}

    def check(self, mode, error, *, in_place=True):
        """The store is well again: readers see all of the job or nothing, and the next writer leaves it tidy.

        `in_place` is whether a job that is told of its commit has put its files in place as well.
        """
        after = sorted(OLD + NEW if mode is APPEND else NEW)
        seen = self.ours()
        if error is None:
            assert after == seen
            assert not in_place or after == self.plain()
        else:
            assert seen in (OLD, after)
            assert SECRET not in f"{error}{error!r}"
        self.save(APPEND, ["next"])
        assert sorted([*seen, "next"]) == self.ours() == self.plain()
        vacuum(self.root, storage=self.storage, older_than_seconds=0)
        assert not [key for key in self.server.objects.data() if "_ipc_stage" in key]
        assert sorted([*seen, "next"]) == self.ours() == self.plain()
