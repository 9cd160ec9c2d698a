"""Select the files, blocks and rows of a read, and write files; `table` has the log by which jobs commit.

No module in this package imports Spark: the data source and the command line are both built on it.
"""
