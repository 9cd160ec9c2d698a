"""All access to files and directories: local paths today. Knows no Arrow."""
