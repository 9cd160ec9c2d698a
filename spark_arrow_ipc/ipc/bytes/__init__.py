"""Bytes of files: sources, regions of bodies, reading ahead, and sinks; all independent of messages."""
