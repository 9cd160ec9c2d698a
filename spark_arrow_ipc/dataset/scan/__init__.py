"""Reading files: outlines, splits, and a scan of the record batches of a split."""
