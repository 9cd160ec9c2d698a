"""Splits of real files, planned as a read plans them."""

from spark_arrow_ipc.dataset.listing.tree import list_files
from spark_arrow_ipc.dataset.scan.outline import OutlineOptions
from spark_arrow_ipc.dataset.scan.outlines import Outlines
from spark_arrow_ipc.dataset.scan.splits import SplitOptions, larger_than_split, plan_splits


def split_files(paths, max_partition_bytes, open_cost_bytes=10, **faults):
    files, options = list_files([str(path) for path in paths]), SplitOptions(max_partition_bytes, open_cost_bytes)
    outlines = Outlines(OutlineOptions())
    large, most = larger_than_split(files, options)
    outlines.read_all(large, cut_above=most)
    return plan_splits(files, options, outlines=outlines.by_path, **faults)
