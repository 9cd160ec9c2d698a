"""Writing: executors stage files, the driver commits them."""
