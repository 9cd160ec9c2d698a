"""Rewrites: read, change and write in one worker, so that no row crosses to the JVM."""
