"""Arrow's integration JSON, the format for tests between implementations."""

from spark_arrow_ipc.arrow_json.reader import ArrowJson, read
from spark_arrow_ipc.arrow_json.writer import to_json

__all__ = ["ArrowJson", "read", "to_json"]
