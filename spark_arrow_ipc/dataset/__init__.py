"""Datasets: which files, which blocks, which rows; and how files are published without losing any.

Nothing here knows Spark: the data source and the command line are both built on it.
"""
