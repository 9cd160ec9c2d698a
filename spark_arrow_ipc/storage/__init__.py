"""The only door to files and directories: local paths today. Knows no Arrow."""
