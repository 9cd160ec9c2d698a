"""Arrow's integration JSON, the format for tests between implementations: read, written, and the commands of its harness."""

from integration_json.reader import ArrowJson, read
from integration_json.writer import to_json

__all__ = ["ArrowJson", "read", "to_json"]
