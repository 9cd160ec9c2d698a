"""Check that arrays are sound: sizes, offsets, UTF-8, views."""
