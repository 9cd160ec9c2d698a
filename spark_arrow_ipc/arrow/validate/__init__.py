"""Checks that an array is what its type says: sizes, offsets, UTF-8, views."""
