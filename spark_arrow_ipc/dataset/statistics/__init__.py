"""Null counts, minima and maxima of each record batch: collect, store in the footer, read, skip blocks."""
