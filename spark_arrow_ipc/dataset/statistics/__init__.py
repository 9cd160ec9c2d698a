"""Minima, maxima and null counts of each record batch: collect, store in the footer, read, skip blocks."""
