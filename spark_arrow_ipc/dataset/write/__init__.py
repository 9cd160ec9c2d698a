"""Writing files: plan a job, stage files, commit them atomically, finish or withdraw interrupted jobs."""
