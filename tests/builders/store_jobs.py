"""Jobs on a fault server, as Spark runs them: tasks that stage a few bytes, a commit, and an abort where it raises."""

import contextlib

import commit_jobs
from fault_server import SECRET
from job_plans import plan_job

from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.snapshot import list_data_files
from spark_arrow_ipc.table.vacuum import vacuum

__all__ = ["APPEND", "LOG", "NEW", "OLD", "OVERWRITE", "Place"]

APPEND, OVERWRITE = WriteMode.APPEND, WriteMode.OVERWRITE
OLD, NEW = ["old 1", "old 2"], ["new 1", "new 2"]
LOG = "_ipc_log/"


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
                abort(plan)
            raise error from None

    def tasks(self, plan, texts):
        """Run a task for each text, and return their reports."""
        return [TaskOutput(plan.staging.jobid, (self.stage(plan, text),)) for text in texts]

    def stage(self, plan, text):
        return commit_jobs.stage(plan, text.encode())

    def ours(self):
        """The rows that a reader of this package sees."""
        return sorted(row for text in commit_jobs.ours(self.root, self.storage) for row in text.split("|"))

    def listed(self):
        """The paths that a reader finds that only lists."""
        directory = TableDirectory(self.storage, self.root)
        return [directory.path(path) for path in list_data_files(directory)]

    def plain(self):
        """The rows that a reader sees that only lists."""
        read = [self.storage.read(path, 1000).decode() for path in self.listed()]
        return sorted(row for text in read for row in text.split("|"))

    def entries(self):
        """The objects of the table's log, but for what a store is probed with."""
        objects = self.server.objects.data().items()
        return {key: data for key, data in objects if LOG in key and not key.endswith("/probe")}

    def check(self, mode, error, *, in_place=True):
        """The store is well again: readers see all of the job or nothing, and the next job or a vacuum leaves it tidy.

        `in_place` is whether a job that is told of its commit has deleted what it replaced as well; the next job does
        otherwise. Named files of a job that failed stay for readers that only list, until a vacuum.
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
        assert sorted([*seen, "next"]) == self.ours()
        assert error is not None or self.ours() == self.plain()
        vacuum(TableDirectory(self.storage, self.root), older_than=0)
        assert not [key for key in self.server.objects.data() if "_ipc_stage" in key]
        assert sorted([*seen, "next"]) == self.ours() == self.plain()
