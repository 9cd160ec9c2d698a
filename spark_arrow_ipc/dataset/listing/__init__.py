"""List the files of a read: paths, globs, hive partitions, and the files that tables count."""
