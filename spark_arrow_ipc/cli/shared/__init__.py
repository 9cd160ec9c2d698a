"""Shared by commands: opening, describing and comparing files, and output."""
