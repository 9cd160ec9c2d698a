"""Dissociated IPC: metadata and bodies of a stream on two channels, or bodies in shared memory.

``docs/dissociated.md`` says how to use it, ``docs/adr/0020-dissociated-ipc.md`` what the document leaves open and how it
is decided here.
"""
