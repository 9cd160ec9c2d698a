"""Write files: plan a job, stage and commit files, finish or withdraw jobs."""
