"""Jobs over a memory storage, for tests of what each step asks of a storage."""

import uuid

from commit_jobs import dying
from job_plans import plan_job

from spark_arrow_ipc.dataset.commit_log.dataset_directory import StagedFile
from spark_arrow_ipc.dataset.listing.tree import list_tree
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
    outputs = []
    for text in texts:
        name = uuid.uuid4().hex
        put(storage, plan.staging.path(f"{name}.staged"), text)
        file = StagedFile(f"{name}.staged", f"part-{name}.arrow", len(text), 1, 0)
        outputs.append(TaskOutput(plan.staging.jobid, (file,)))
    return plan, outputs


def save(storage, *texts, mode=WriteMode.APPEND):
    plan = plan_job(ROOT, mode, storage=storage)
    return commit(*staged(storage, *texts, plan=plan), write_empty=None)


def look(storage):
    """Return what a reader of this package finds in the files that it lists."""
    found = []
    for file in list_tree([ROOT], storage=storage).all_files():
        source = file.open(storage)
        found.append(bytes(source.read_at(0, source.nbytes)).decode())
    return sorted(found)
