"""The mark of a copy that is not whole yet: jobs keep away from where its records are, and its files are not.

A copy carries over records of its source before one record publishes its files (`copy`). Until then they speak of jobs,
tokens and batches whose rows are not there. The mark lies beside them and names their chain; the record of the copy begins
another one, with which the mark means nothing. It is made before any record, and removed where that of the copy is applied.
"""

from __future__ import annotations

import json
from contextlib import suppress
from shlex import quote

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, NameKind, parse_name
from spark_arrow_ipc.dataset.commit_log.log import Head, newest_record
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.dataset.commit_log.stored_record import is_there, read_record
from spark_arrow_ipc.dataset.write.copied_files import noted_source
from spark_arrow_ipc.dataset.write.vacuum import staged_job_ids
from spark_arrow_ipc.errors import CommitError, LimitError, UnsupportedError
from spark_arrow_ipc.storage.paths import name_of

_MAX_NBYTES = 1 << 16


def mark_copy(dataset: DatasetDirectory, source: str, record: Record) -> None:
    """Mark a directory as one into which a record of a source is carried over."""
    dataset.storage.make_directory(dataset.commits)
    data = json.dumps({"source": source, "chain": record.chain}).encode()
    dataset.storage.put(dataset.copy_mark, data, durable=True)


def begun_copy(dataset: DatasetDirectory, head: Head) -> str | None:
    """Return the source of the copy that is not whole yet; None if there is none. Two reads where there is a mark."""
    if not head.copies:
        return None
    try:
        mark = parse_json(dataset.storage.read(dataset.copy_mark, _MAX_NBYTES))
        source, chain = str(mark["source"]), str(mark["chain"])
    except FileNotFoundError:
        return None
    except (LimitError, UnsupportedError, ValueError, TypeError, KeyError) as error:
        words = "this is not a mark that 'arrowipc copy' made; if the copy here is whole, remove the mark"
        raise CommitError(words, path=dataset.copy_mark) from error
    newest = newest_record(dataset)[1]
    return source if newest is None or not newest.jobs or newest.chain == chain else None


def begun_sources(dataset: DatasetDirectory, head: Head, record: Record | None) -> list[str]:
    """Return the sources of copies that were begun here and have not ended, by a mark or by what is staged."""
    ended = set[str]() if record is None else {*record.jobs, *record.withdrawn}
    jobs = (jobid for jobid in staged_job_ids(dataset) if jobid not in ended)
    sources = [noted_source(dataset.storage, dataset.staging(jobid)) for jobid in jobs]
    return [source for source in dict.fromkeys((*sources, begun_copy(dataset, head))) if source is not None]


def check_no_copy(dataset: DatasetDirectory, head: Head) -> None:
    """Raise a `CommitError` if a copy is not whole yet: its records remember jobs whose rows are not there."""
    source = begun_copy(dataset, head)
    if source is not None:
        raise CommitError(
            f"a copy of {source} was begun here, and is not whole yet; nothing is published. End it by 'arrowipc copy "
            f"{quote(source)} {quote(dataset.root)}', or remove this directory, and write again",
            path=dataset.root,
        )


def check_carried(dataset: DatasetDirectory, record: Record) -> None:
    """Take a record that was carried over away again if a job was committed beside it meanwhile.

    A job makes its record and then looks for a newer one; this looks for older ones after the carried record is made: at
    least one of the two sees the other.
    """
    storage = dataset.storage
    parsed = (parse_name(name_of(status.path)) for status in storage.list(dataset.commits))
    for seq in [each[0] for each in parsed if each is not None and each[1] is NameKind.RECORD and each[0] < record.seq]:
        with suppress(FileNotFoundError):
            other = read_record(dataset, seq)
            if other.is_of_job and other.chain != record.chain:
                if is_there(dataset, record):  # before its mark: it would be a pending job without it
                    storage.delete(dataset.record(record.seq))
                    storage.delete(dataset.done_mark(record.seq))
                storage.delete(dataset.copy_mark)
                raise CommitError(
                    f"the job {other.jobid} was committed in the target while its files were copied, and a copy replaces "
                    "nothing; give a directory that is not there yet",
                    path=dataset.root,
                )
