"""A stand-in for a session that runs the tasks of a rewrite in this process: twice, in any order, and failing as told.

Spark gives a rewrite one result of each task, whichever attempt it is from. `Tasks` does the same, so that tests and the
kill loop see what attempts leave, at a thousandth of the time of a session. Whether Spark does so is for the tests with Spark.
"""

import random
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle

from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.predicate import SETTINGS


class Tasks:
    """The parts of a session and its context that a rewrite uses.

    Parameters
    ----------
    attempts
        How often each task runs; the result of one attempt counts.
    luck
        Decides which, and in what order they run.
    before
        Called before each attempt with the number of the part and of the attempt; may raise or append files.
    zone
        The session's time zone.
    """

    def __init__(self, attempts=1, luck=None, before=lambda part, attempt: None, zone="America/New_York"):
        self.attempts, self.luck, self.before, self.zone = attempts, luck or random.Random(1), before, zone
        self.sparkContext = self.conf = self
        self.properties = {}
        self.ran = 0

    def get(self, name):
        return self.zone if name == "spark.sql.session.timeZone" else SETTINGS[name].default

    def getLocalProperty(self, name):
        return self.properties.get(name)

    def setLocalProperty(self, name, value):
        self.properties[name] = value

    def parallelize(self, parts, slices):
        assert len(parts) == slices
        self.parts = parts
        return self

    def mapPartitions(self, run):
        self.run = cloudpickle.dumps(run)
        return self

    def collect(self):
        assert self.properties["spark.sql.session.timeZone"] == self.zone
        results = {}
        order = [(part, attempt) for part in self.parts for attempt in range(self.attempts)]
        self.luck.shuffle(order)
        for part, attempt in order:
            self.before(part.number, attempt)
            (report,) = cloudpickle.loads(self.run)([part])
            results.setdefault(part.number, []).append(report)
            self.ran += 1
        return [self.luck.choice(reports) for reports in results.values()]


def files_of(root):
    """Return the paths of the files that a reader of this package sees, by their relative paths."""
    return {str(Path(file.path).relative_to(root)): file.path for file in list_tree([str(root)]).all_files()}


def tables(root):
    """Return the files of a dataset, read by pyarrow."""
    return {name: read(place) for name, place in files_of(root).items()}


def read(place):
    with pa.memory_map(str(place)) as source:
        try:
            return pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).read_all()


def values(root, column="id"):
    """Return the values of a column of all files, sorted, by directory."""
    found = {}
    for name, table in tables(root).items():
        directory = str(Path(name).parent)
        found.setdefault("" if directory == "." else directory, []).extend(table[column].to_pylist())
    return {directory: sorted(each) for directory, each in found.items()}


def leftovers(root):
    """Return the files of a table beside its data, its log, and what it retains."""
    data = files_of(root)
    names = (str(path.relative_to(root)) for path in Path(root).rglob("*") if path.is_file())
    return [
        name
        for name in names
        if name not in data and name != "_SUCCESS" and not name.startswith(("_ipc_log/", "_ipc_replaced/"))
    ]
