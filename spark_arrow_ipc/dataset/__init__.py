"""Datasets: which files, which blocks, which rows; and how files are published without losing any.

Nothing here knows Spark: the data source and the command line are both built on it.

* `filesystem`: local paths, their state, and what makes them durable;
* `listing`: the files that paths, directories and patterns name;
* `splits`: files cut and packed into the ranges of input partitions;
* `scan`: the record batches of those ranges;
* `sink`: a task's record batches as one staged file;
* `commit`: the files of all tasks published together.
"""
