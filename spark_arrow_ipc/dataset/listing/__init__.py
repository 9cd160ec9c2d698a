"""Which files a path names: directories, globs, hive partitions, corrected by a pending commit."""
