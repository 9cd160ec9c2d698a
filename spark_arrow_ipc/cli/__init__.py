"""The command line ``arrowipc``: what a person asks of files and of an environment, without a JVM."""
