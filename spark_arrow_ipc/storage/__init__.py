"""All access to files and directories, local and remote. Knows no Arrow."""
