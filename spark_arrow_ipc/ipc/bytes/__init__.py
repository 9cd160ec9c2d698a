"""Bytes of files: sources, regions of bodies, reading ahead, and sinks; nothing here knows a message."""
