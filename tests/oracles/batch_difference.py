"""`batch_difference`: compare record batches by value, for tests."""

from spark_arrow_ipc.arrow.equality import difference


def batch_difference(a, b, *, types=True):
    """Describe the first difference between two batches, or return None if there is none.

    Compares names and rows, but neither custom metadata nor the nullability of top-level fields.
    """
    if a.schema.names != b.schema.names:
        return f"the columns are {', '.join(a.schema.names)} and {', '.join(b.schema.names)}"
    if a.num_rows != b.num_rows:
        return f"there are {a.num_rows} and {b.num_rows} rows"
    for name, ours, theirs in zip(a.schema.names, a.columns, b.columns, strict=True):
        sentence = difference(ours, theirs, name, types=types)
        if sentence is not None:
            return sentence
    return None
