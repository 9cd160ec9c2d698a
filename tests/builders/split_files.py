"""Splits of real files, planned as a read plans them."""

from listed_files import list_files

from spark_arrow_ipc.dataset.scan import splits
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataCache, MetadataOptions


def split_files(paths, max_partition_bytes, open_cost_bytes=10, **faults):
    files = list_files([str(path) for path in paths])
    options = splits.SplitOptions(max_partition_bytes, open_cost_bytes)
    return splits.split_files(files, options, MetadataCache(MetadataOptions()), **faults)
