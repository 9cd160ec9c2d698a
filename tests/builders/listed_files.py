"""`list_files`: the files under paths, as a read without partition columns lists them."""

from spark_arrow_ipc.dataset.listing.tree import list_tree


def list_files(paths, *, recursive=False, file_filter=None, storage=None):
    """Return the files under paths."""
    return list_tree(paths, recursive=recursive, file_filter=file_filter, storage=storage).files(nested=recursive)
