"""Push-down as tests see it: the setting of a session, and the scans of a plan."""

SETTING = "spark.arrowipc.pushDown"


def scans(frame):
    """Return the descriptions of a frame's scans, as `explain` shows them."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return [
        line.partition("] ")[2].partition(" RuntimeFilters")[0] for line in plan.splitlines() if "BatchScan" in line
    ]


BOTH_WAYS = """
def both_ways(frame):
    # Whether queries over a column id and a column word have the same rows with push-down, and are read by it.
    from spark_arrow_ipc import push_down
    spark = frame.sparkSession
    assert push_down(spark)
    frame.createOrReplaceTempView("both_ways")
    queries = [
        "SELECT word, count(*), sum(id), min(id) FROM both_ways WHERE id % 7 < 3 AND id > 500 GROUP BY word",
        "SELECT count(*), max(id) FROM both_ways",
        "SELECT id FROM both_ways WHERE word = 'red' ORDER BY id LIMIT 20",
        "SELECT a.id, b.word FROM both_ways a JOIN both_ways b ON a.id = b.id + 1 WHERE a.id BETWEEN 1990 AND 2010",
    ]
    rows = {}
    for setting in ["false", "true"]:
        spark.conf.set("spark.arrowipc.pushDown", setting)
        rows[setting] = [sorted(map(tuple, spark.sql(query).collect())) for query in queries]
    plan = spark.sql(queries[2])._jdf.queryExecution().executedPlan().toString()
    return all(rows["true"]) and rows["false"] == rows["true"], "ColumnarToRow" in plan and "arrowipc [id, word] where" in plan
"""
"""A function for programs of clusters."""
