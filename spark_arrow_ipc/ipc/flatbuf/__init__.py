"""Flatbuffers as Arrow uses them: the tables' declarations, a checked reader, a builder, and the IDL.

Strategy
--------
`tables` declares every enum, struct, union and table of Arrow's five schemas once, in the words of `idl`. `reader`
(through `compiled`, which prepares the declarations) and `builder` know Flatbuffers and nothing of Arrow: what a slot
means to them is in its declaration. ``tests/programs/print_fbs.py`` prints the declarations as the IDL files in ``format/``.
"""
