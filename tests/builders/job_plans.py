"""Plan jobs by keywords: those of the intent, and those of the plan."""

from spark_arrow_ipc.dataset.write import job_plan
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent


def plan_job(path, mode, *, storage=None, check_existing=None, choose=None, **intent):
    """Plan a job of a mode; the keywords that are not of the plan are of its intent."""
    return job_plan.plan_job(
        path, CommitIntent(mode, **intent), storage=storage, check_existing=check_existing, choose=choose
    )
