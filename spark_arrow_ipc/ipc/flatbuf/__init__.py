"""Flatbuffers as Arrow uses them: the tables' declarations, a checked reader, a builder, and the IDL.

How it works
------------
`tables` declares every enum, struct, union and table of Arrow's five schemas once, in the classes of `idl`. `reader`
(through `compiled`, which prepares the declarations) and `builder` are independent of Arrow: the declaration has all that
they need for a slot. ``tests/programs/print_fbs.py`` prints the declarations as the IDL files in ``format/``.
"""
