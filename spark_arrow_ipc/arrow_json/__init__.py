"""Arrow's integration JSON: how the implementations of Arrow tell each other what a file holds."""

from spark_arrow_ipc.arrow_json.reader import ArrowJson, read
from spark_arrow_ipc.arrow_json.writer import to_json

__all__ = ["ArrowJson", "read", "to_json"]
