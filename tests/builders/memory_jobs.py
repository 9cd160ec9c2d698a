"""Jobs over a memory storage, for tests of what each step asks of a storage."""

from commit_jobs import dying, ours, stage
from job_plans import plan_job

from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.task import TaskOutput

__all__ = ["ROOT", "dying", "look", "put", "save", "staged"]

ROOT = "memory:/data"


def put(storage, path, text):
    storage.put(path, text.encode())


def staged(storage, *texts, plan=None):
    """Return a planned job, and the outputs of a task for each text."""
    plan = plan or plan_job(ROOT, WriteMode.APPEND, storage=storage)
    return plan, [TaskOutput(plan.staging.jobid, (stage(plan, text.encode()),)) for text in texts]


def save(storage, *texts, mode=WriteMode.APPEND):
    plan = plan_job(ROOT, mode, storage=storage)
    return commit(*staged(storage, *texts, plan=plan), write_empty=None)


def look(storage):
    """Return what a reader of this package finds in the files that it lists."""
    return ours(ROOT, storage)
