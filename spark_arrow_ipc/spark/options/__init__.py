"""Options of reads and writes: their table, their parsers, and their values."""
