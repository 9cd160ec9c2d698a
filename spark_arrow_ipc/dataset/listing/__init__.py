"""List the files of a read: paths, globs, hive partitions, pending commits."""
