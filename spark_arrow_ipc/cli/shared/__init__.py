"""What several commands use: opening files, rendering text, outlines and differences of files."""
