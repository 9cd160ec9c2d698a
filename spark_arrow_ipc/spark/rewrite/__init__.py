"""Rewrites: read, change and write in one worker, so that no row reaches the JVM."""
