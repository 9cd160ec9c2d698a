"""Reading files: cut them into splits, read the record batches of a split, tolerate faults."""
