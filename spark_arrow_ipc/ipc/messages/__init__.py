"""Messages and what holds them: the tables of the format as frozen values, framing, footers, checksums."""
