"""Convert arrays to and from lists of Python values."""
