"""Push-down as tests see it: the setting of a session, and the scans of a plan."""

SETTING = "spark.arrowipc.pushDown"


def scans(frame):
    """Return the descriptions of a frame's scans, as `explain` shows them."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return [
        line.partition("] ")[2].partition(" RuntimeFilters")[0] for line in plan.splitlines() if "BatchScan" in line
    ]
