"""What the requests of S3 mean, for `fault_server.py`: which kind one is, and its answer from objects in memory."""

import hashlib
import re
import time
import urllib.parse
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from enum import Enum, auto
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

__all__ = ["BUCKET", "Answer", "Head", "Objects", "Request", "error", "is_signed_by", "kind_of", "perform", "read_head"]

BUCKET = "bucket"

SMALLEST_PART = 5 << 20
"""Bytes below which no part of a multipart upload may be, but the last one."""


class Request(Enum):
    """The kinds of requests, by S3's names for them."""

    GET = auto()
    HEAD = auto()
    PUT = auto()
    COPY = auto()
    DELETE = auto()
    DELETE_MANY = auto()
    LIST = auto()
    CREATE_UPLOAD = auto()
    PUT_PART = auto()
    COMPLETE_UPLOAD = auto()
    ABORT_UPLOAD = auto()
    OTHER = auto()


@dataclass(frozen=True)
class Head:
    method: str
    path: str
    bucket: str
    key: str
    query: dict
    headers: dict
    nbytes: int


@dataclass(frozen=True)
class Answer:
    """What is sent back; `nbytes` is the length that is announced where no body follows."""

    status: int
    body: bytes = b""
    headers: dict = field(default_factory=dict)
    nbytes: int | None = None


@dataclass(frozen=True)
class Stored:
    data: bytes
    etag: str
    mtime: float
    attributes: dict
    """The headers ``x-amz-meta-*``."""


def etag_of(data):
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


class Objects:
    """The objects of the bucket by key, and the uploads that are under way."""

    def __init__(self):
        self.by_key: dict[str, Stored] = {}
        self.uploads: dict[str, tuple[str, dict, dict[int, bytes]]] = {}
        self.max_keys = 1000
        """Keys in a page of a listing, at most."""
        self.locked: set[str] = set()
        """Keys that nobody may delete."""
        self.conditional = True
        """Whether conditions of writes are obeyed; some stores and gateways do not know them, and say nothing."""

    def put(self, key, data, headers=None):
        attributes = {name: value for name, value in (headers or {}).items() if name.startswith("x-amz-meta-")}
        stored = self.by_key[key] = Stored(bytes(data), etag_of(data), time.time(), attributes)
        return stored

    def data(self):
        return {key: stored.data for key, stored in self.by_key.items()}


async def read_head(reader, writer):
    """Read a request up to its body."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").split("\r\n")
    method, target, _ = lines[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
    assert "transfer-encoding" not in headers, "this server wants a Content-Length"
    url = urllib.parse.urlsplit(target)
    query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
    bucket, _, key = urllib.parse.unquote(url.path).removeprefix("/").partition("/")
    return Head(method, url.path, bucket, key, query, headers, int(headers.get("content-length", 0)))


def is_signed_by(head, access_key_id):
    return f"Credential={access_key_id}/" in head.headers.get("authorization", "")


KINDS = {
    ("GET", "list-type"): Request.LIST, ("POST", "delete"): Request.DELETE_MANY,
    ("POST", "uploads"): Request.CREATE_UPLOAD, ("PUT", "uploadId"): Request.PUT_PART,
    ("POST", "uploadId"): Request.COMPLETE_UPLOAD, ("DELETE", "uploadId"): Request.ABORT_UPLOAD,
}  # fmt: skip
"""The kinds that a parameter of the query says."""

PLAIN_KINDS = {"GET": Request.GET, "HEAD": Request.HEAD, "PUT": Request.PUT, "DELETE": Request.DELETE}


def kind_of(head):
    for name in head.query:
        if (head.method, name) in KINDS:
            return KINDS[head.method, name]
    if "x-amz-copy-source" in head.headers:
        return Request.COPY
    return PLAIN_KINDS.get(head.method, Request.OTHER)


def error(status, code):
    return xml(f"<Error><Code>{code}</Code><Message>told to</Message></Error>", status)


def xml(text, status=200):
    body = f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()
    return Answer(status, body, {"Content-Type": "application/xml"})


def perform(objects, head, request, body):
    """Carry out a request."""
    return PERFORM[request](objects, head, body)


# Reading


def get(objects, head, body):
    stored = objects.by_key.get(head.key)
    if stored is None:
        return error(404, "NoSuchKey")
    if head.headers.get("if-match", stored.etag) not in {stored.etag, "*"}:
        return error(412, "PreconditionFailed")
    headers = stored.attributes | {
        "ETag": stored.etag, "Accept-Ranges": "bytes",
        "Last-Modified": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(stored.mtime)),
    }  # fmt: skip
    nbytes = len(stored.data)
    if (wanted := head.headers.get("range")) is None:
        return Answer(200, stored.data, headers)
    first, last = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted).groups()
    start = int(first) if first else max(0, nbytes - int(last))
    stop = min(nbytes, int(last) + 1) if first and last else nbytes
    if start >= nbytes:
        return error(416, "InvalidRange")
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{nbytes}"
    return Answer(206, stored.data[start:stop], headers)


def head_object(objects, head, body):
    answer = get(objects, head, body)
    found = answer.status == 200
    return Answer(answer.status, b"", answer.headers, nbytes=len(answer.body) if found else 0)


def list_objects(objects, head, body):
    prefix, delimiter = head.query.get("prefix", ""), head.query.get("delimiter", "")
    most = min(objects.max_keys, int(head.query.get("max-keys", 1000)))
    keys = sorted(objects.by_key)
    after = head.query.get("continuation-token") or head.query.get("start-after", "")
    position = max(bisect_left(keys, prefix), bisect_right(keys, after) if after else 0)
    rows = []
    while position < len(keys) and keys[position].startswith(prefix) and len(rows) < most:
        key = keys[position]
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            rows.append(contents(key, objects.by_key[key]))
            position += 1
        else:
            rows.append(f"<CommonPrefixes><Prefix>{escape(key[: cut + 1])}</Prefix></CommonPrefixes>")
            # On to the first key that is not below this prefix.
            position = bisect_left(keys, key[:cut] + chr(ord(delimiter) + 1))
    more = position < len(keys) and keys[position].startswith(prefix)
    token = f"<NextContinuationToken>{escape(keys[position - 1])}</NextContinuationToken>" if more else ""
    return xml(
        f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(rows)}</KeyCount>"
        f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{''.join(rows)}</ListBucketResult>"
    )


def contents(key, stored):
    modified = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(stored.mtime))
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{modified}</LastModified><ETag>{escape(stored.etag)}</ETag>"
        f"<Size>{len(stored.data)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )


# Writing


def conditions_fail(objects, head):
    """What is answered where the conditions of a write do not hold, else None."""
    if not objects.conditional:
        return None
    stored = objects.by_key.get(head.key)
    if head.headers.get("if-none-match") == "*" and stored is not None:
        return error(412, "PreconditionFailed")
    if (wanted := head.headers.get("if-match")) is not None:
        if stored is None:
            return error(404, "NoSuchKey")
        if wanted != stored.etag:
            return error(412, "PreconditionFailed")
    return None


def put(objects, head, body):
    return conditions_fail(objects, head) or Answer(200, b"", {"ETag": objects.put(head.key, body, head.headers).etag})


def source_of(objects, head):
    """Return what a request copies; None if it is not there."""
    return objects.by_key.get(urllib.parse.unquote(head.headers["x-amz-copy-source"]).lstrip("/").partition("/")[2])


def copy(objects, head, body):
    stored = source_of(objects, head)
    if stored is None:
        return error(404, "NoSuchKey")
    if head.headers.get("x-amz-copy-source-if-match", stored.etag) != stored.etag:
        return error(412, "PreconditionFailed")
    if failure := conditions_fail(objects, head):
        return failure
    return xml(
        f"<CopyObjectResult><ETag>{escape(objects.put(head.key, stored.data, stored.attributes).etag)}</ETag></CopyObjectResult>"
    )


def delete(objects, head, body):
    if head.key in objects.locked:
        return error(403, "AccessDenied")
    objects.by_key.pop(head.key, None)
    return Answer(204)


def delete_many(objects, head, body):
    keys = [element.text for element in ET.fromstring(body).iter() if element.tag.endswith("Key")]
    if len(keys) > 1000:
        return error(400, "MalformedXML")
    rows = []
    for key in keys:
        if key in objects.locked:
            rows.append(f"<Error><Key>{escape(key)}</Key><Code>AccessDenied</Code><Message>locked</Message></Error>")
        else:
            objects.by_key.pop(key, None)
            rows.append(f"<Deleted><Key>{escape(key)}</Key></Deleted>")
    return xml(f"<DeleteResult>{''.join(rows)}</DeleteResult>")


# Multipart uploads


def create_upload(objects, head, body):
    upload_id = f"upload-{len(objects.uploads)}-{time.monotonic_ns()}"
    objects.uploads[upload_id] = head.key, head.headers, {}
    return xml(
        f"<InitiateMultipartUploadResult><Bucket>{BUCKET}</Bucket><Key>{escape(head.key)}</Key>"
        f"<UploadId>{upload_id}</UploadId></InitiateMultipartUploadResult>"
    )


def parts_of(objects, head):
    key, _, parts = objects.uploads.get(head.query["uploadId"], (None, None, None))
    return parts if key == head.key else None


def put_part(objects, head, body):
    parts = parts_of(objects, head)
    if parts is None:
        return error(404, "NoSuchUpload")
    parts[int(head.query["partNumber"])] = body
    return Answer(200, b"", {"ETag": etag_of(body)})


def complete_upload(objects, head, body):
    parts = parts_of(objects, head)
    if parts is None:
        return error(404, "NoSuchUpload")
    tree = ET.fromstring(body)
    named = [
        {child.tag.rpartition("}")[2]: (child.text or "").strip() for child in part}
        for part in tree
        if part.tag.endswith("Part")
    ]
    numbers = [int(part["PartNumber"]) for part in named]
    if not numbers or numbers != sorted(set(numbers)):
        return error(400, "InvalidPartOrder")
    if any(n not in parts or etag_of(parts[n]) != part["ETag"] for n, part in zip(numbers, named, strict=True)):
        return error(400, "InvalidPart")
    if any(len(parts[n]) < SMALLEST_PART for n in numbers[:-1]):
        return error(400, "EntityTooSmall")
    if failure := conditions_fail(objects, head):
        return failure
    _, headers, _ = objects.uploads.pop(head.query["uploadId"])
    stored = objects.put(head.key, b"".join(parts[n] for n in numbers), headers)
    return xml(
        f"<CompleteMultipartUploadResult><Bucket>{BUCKET}</Bucket><Key>{escape(head.key)}</Key>"
        f"<ETag>{escape(stored.etag)}</ETag></CompleteMultipartUploadResult>"
    )


def abort_upload(objects, head, body):
    objects.uploads.pop(head.query["uploadId"], None)
    return Answer(204)


PERFORM = {
    Request.GET: get, Request.HEAD: head_object, Request.LIST: list_objects,
    Request.PUT: put, Request.COPY: copy, Request.DELETE: delete, Request.DELETE_MANY: delete_many,
    Request.CREATE_UPLOAD: create_upload, Request.PUT_PART: put_part, Request.COMPLETE_UPLOAD: complete_upload,
    Request.ABORT_UPLOAD: abort_upload, Request.OTHER: lambda objects, head, body: error(501, "NotImplemented"),
}  # fmt: skip
