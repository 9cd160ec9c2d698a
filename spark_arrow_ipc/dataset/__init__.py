"""Tables: select files, blocks and rows to read, and publish files without losing any.

No module in this package imports Spark: the data source and the command line are both built on it.
"""
