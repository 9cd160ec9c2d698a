"""Push-down as tests see it: the jar and the setting of a session, and the scans of a plan."""

from contextlib import contextmanager

from spark_arrow_ipc.spark.jar import jar_of_session
from spark_arrow_ipc.spark.session_settings import CATALOGS, avoid_hang_of_columnar_functions

SETTING = "spark.arrowipc.pushDown"
COLUMNAR_INPUT = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"
THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"


_loaders = {}


@contextmanager
def jar_of_this_thread(session):
    """Let this thread find the source of the JVM: `register` gives it to all threads for good, and other tests go without."""
    context = session.sparkContext
    jvm = context._jvm
    if context.applicationId not in _loaders:
        jar = str(jar_of_session(context))
        context._jsc.sc().addJar(jar)
        urls = context._gateway.new_array(jvm.java.net.URL, 1)
        urls[0] = jvm.java.io.File(jar).toURI().toURL()
        parent = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
        _loaders[context.applicationId] = jvm.org.apache.spark.util.MutableURLClassLoader(urls, parent)
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(_loaders[context.applicationId])
    for setting, catalog in CATALOGS.items():
        session.conf.set(setting, catalog)
    try:
        yield
    finally:
        for setting in CATALOGS:
            session.conf.unset(setting)
        # A session keeps the catalogs that it has loaded, also without their settings.
        session._jsparkSession.sessionState().catalogManager().reset()
        thread.setContextClassLoader(before)


@contextmanager
def sql_session(session):
    """A session as `register` makes it, for this thread and for a while."""
    before, columns = session.conf.get(SETTING), session.conf.get(COLUMNAR_INPUT, None)
    with jar_of_this_thread(session):
        session.conf.set(SETTING, "true")
        avoid_hang_of_columnar_functions(session)
        try:
            yield session
        finally:
            session.conf.set(SETTING, before)
            if columns is None:
                session.conf.unset(COLUMNAR_INPUT)


@contextmanager
def failing(session, step):
    """Let a step of the source of the JVM fail in the driver."""
    gateway, jvm = session.sparkContext._gateway, session.sparkContext._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    types, values = gateway.new_array(jvm.java.lang.Class, 1), gateway.new_array(jvm.java.lang.Object, 1)
    types[0] = jvm.java.lang.Class.forName("java.lang.String")
    fail_at = loader.loadClass("sparkarrowipc.SparkInternals").getMethod("failAt", types)
    values[0] = step
    fail_at.invoke(None, values)
    try:
        yield
    finally:
        values[0] = None
        fail_at.invoke(None, values)


def scans(frame):
    """Return the descriptions of a frame's scans, as `explain` shows them, without their paths."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return [
        line.partition("] ")[2].partition(" RuntimeFilters")[0].partition(", path ")[0]
        for line in plan.splitlines()
        if "BatchScan" in line
    ]


BOTH_WAYS = """
def both_ways(load):
    # Whether queries over a column id and a column word have the same rows with push-down, and are read by it.
    from spark_arrow_ipc import push_down
    queries = [
        "SELECT word, count(*), sum(id), min(id) FROM both_ways WHERE id % 7 < 3 AND id > 500 GROUP BY word",
        "SELECT count(*), max(id) FROM both_ways",
        "SELECT id FROM both_ways WHERE word = 'red' ORDER BY id LIMIT 20",
        "SELECT a.id, b.word FROM both_ways a JOIN both_ways b ON a.id = b.id + 1 WHERE a.id BETWEEN 1990 AND 2010",
    ]
    rows = []
    for is_pushed in (False, True):
        frame = load()  # with push-down only if the session has it by then
        spark = frame.sparkSession
        frame.createOrReplaceTempView("both_ways")
        rows.append([sorted(map(tuple, spark.sql(query).collect())) for query in queries])
        assert is_pushed or push_down(spark)
    plan = spark.sql(queries[2])._jdf.queryExecution().executedPlan().toString()
    return all(rows[1]) and rows[0] == rows[1], "ColumnarToRow" in plan and "arrowipc [id, word] where" in plan
"""
"""A function for programs of clusters, which takes a function that loads a frame."""


def scan_metrics(frame):
    """Return the values of the metrics of a frame's only scan, by what the SQL tab calls them."""
    plan = frame._jdf.queryExecution().executedPlan()
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.executedPlan()
    values = {}

    def walk(node):
        if node.getClass().getSimpleName().endswith("QueryStageExec"):
            walk(node.plan())
        if node.getClass().getSimpleName() == "BatchScanExec":
            metrics = node.metrics().toSeq()
            for i in range(metrics.size()):
                metric = metrics.apply(i)._2()
                values[metric.name().get() if metric.name().isDefined() else ""] = metric.value()
        for i in range(node.children().size()):
            walk(node.children().apply(i))

    walk(plan)
    return values
