"""``DictionaryBatch`` of Message.fbs: the values of a dictionary, or more of them."""

from __future__ import annotations

from dataclasses import dataclass

from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import InvalidMetadataError
from spark_arrow_ipc.ipc.flatbuf import reader
from spark_arrow_ipc.ipc.messages.record_batch import RecordBatchHeader, decode_record_batch


@dataclass(frozen=True, slots=True, eq=False)
class DictionaryBatchHeader:
    """``DictionaryBatch`` of Message.fbs: a record batch of one column that belongs to an id."""

    id: int
    data: RecordBatchHeader
    is_delta: bool
    custom_metadata: CustomMetadata = ()
    """That of the message."""


def decode_dictionary_batch(view: reader.TableView, custom_metadata: CustomMetadata) -> DictionaryBatchHeader:
    """Return the header in a ``DictionaryBatch`` table; `custom_metadata` is that of its message."""
    data = view.table("data")
    if data is None:
        raise InvalidMetadataError(expected="data in the dictionary batch", found="none", spec="Message.fbs")
    header = decode_record_batch(data, custom_metadata)
    return DictionaryBatchHeader(int(view.scalar("id")), header, bool(view.scalar("isDelta")), custom_metadata)
