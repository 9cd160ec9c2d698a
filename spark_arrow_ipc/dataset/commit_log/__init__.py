"""The numbered chain of commit records that says which files belong to a dataset."""
