"""Arrow's C data interface: arrays, schemas and streams shared with other libraries of the process, without a copy.

``structs`` has the layouts of the three structures, ``callbacks`` the functions that others call, ``formats`` the format
strings. Schemas, arrays and streams have a module each. Other libraries meet all of it as the methods
``__arrow_c_schema__``, ``__arrow_c_array__`` and ``__arrow_c_stream__``. ``docs/adr/0025-arrow-c-data-interface.md`` says why it
is ctypes.
"""
