"""A table: a directory of Arrow files whose log states which of them count.

The log is not in use yet: jobs commit by `dataset.write`, until `table` has a transaction that replaces it.
"""
