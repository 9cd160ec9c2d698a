"""The command line ``arrowipc``: inspect and repair files, without a JVM."""
