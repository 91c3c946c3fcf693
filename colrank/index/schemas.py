"""Columns of the files of an index (docs/format.md)."""

from __future__ import annotations

import pyarrow as pa

DOCUMENTS = pa.schema(
    [
        ("id", pa.string()),
        ("title", pa.string()),
        ("source", pa.string()),
        ("language", pa.string()),
        ("metadata", pa.large_string()),
        ("encoded", pa.bool_()),
        ("first_passage", pa.int64()),
        ("content", pa.uint64()),
    ]
)

DOCUMENTS_2 = DOCUMENTS.remove(DOCUMENTS.get_field_index("content"))
"""Of format versions 1 and 2."""

PASSAGES = pa.schema(
    [
        ("document", pa.int64()),
        ("ordinal", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("prefix", pa.int32()),
        ("text", pa.large_string()),
    ]
)

OFFSETS = pa.schema([("token_offset", pa.int64())])
POSTING_OFFSETS = pa.schema([("posting_offset", pa.int64())])
FREQUENCIES = pa.schema([("token_id", pa.int32()), ("passages", pa.int64())])
DELETED = pa.schema([("deleted", pa.bool_())])
POSTINGS = tuple(
    pa.schema([("passage", kind)]) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
)
IDS = tuple(pa.schema([("hash", pa.uint64()), ("row", kind)]) for kind in (pa.uint32(), pa.uint64()))
POOLING = tuple(
    pa.schema([("labels", pa.large_list(kind)), ("unpooled", pa.int64())])
    for kind in (pa.uint8(), pa.uint16(), pa.uint32())
)
