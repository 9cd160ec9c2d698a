"""Arrays to and from lists of Python values."""
