"""Values of one record as a Document holds them: ids, texts, and metadata that JSON can hold."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any
from uuid import UUID

import numpy as np

from colrank.corpus.faults import NOT_TEXT, NOT_UTF8_RECORD, TOO_DEEP, Fault

_SURROGATES = re.compile("[\ud800-\udfff]")
_MAX_DEPTH = 64


class UnusableRecord(Exception):
    """A record that has to be skipped, and the fault under which it is counted."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault


class Values:
    """Converts the values of one record; `repaired` tells whether any had broken characters."""

    def __init__(self) -> None:
        self.repaired = False

    def string(self, value: str) -> str:
        """The string, with lone surrogates replaced because UTF-8 cannot hold them."""
        if value.isascii():
            return value
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            self.repaired = True
            return _SURROGATES.sub("\ufffd", value)
        # A plain string: subclasses, such as those of NumPy, stay out of documents.
        return str(value)

    def id(self, value: Any) -> str | None:
        """The id as a string; None when the value cannot be one."""
        if isinstance(value, str | bytes):
            return self._decoded(value) or None
        if isinstance(value, UUID):
            return str(value)
        if not _is_number(value) or not _is_finite(value) or value != int(value):
            return None
        return str(int(value))

    def text(self, value: Any) -> str:
        """A text or title as a string; "" for nothing.

        Raises:
            UnusableRecord: the value is neither text nor a number nor a list of texts.
        """
        if value is None:
            return ""
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if isinstance(value, str | bytes):
            return self._decoded(value)
        if isinstance(value, list | tuple):
            if not all(isinstance(part, str | bytes) for part in value):
                raise UnusableRecord(NOT_TEXT)
            return "\n".join(map(self._decoded, value))
        if not _is_number(value):
            raise UnusableRecord(NOT_TEXT)
        # NaN is how tables say that there is nothing.
        return str(value) if _is_finite(value) else ""

    def plain(self, value: Any, depth: int = 0) -> Any:
        """The value as JSON can hold it: nothing that is not finite, dates as ISO strings, bytes as base64.

        Raises:
            UnusableRecord: the value is nested too deeply, or holds itself.
        """
        if depth > _MAX_DEPTH:
            raise UnusableRecord(TOO_DEEP)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.string(value)
        if isinstance(value, np.datetime64 | np.timedelta64):
            return None if np.isnat(value) else str(value)
        if isinstance(value, np.generic | np.ndarray):
            # NumPy's integers and floats of other widths become Python's.
            return self.plain(value.tolist(), depth + 1)
        if isinstance(value, Mapping):
            return {self.string(str(key)): self.plain(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(inner, depth + 1) for inner in value]
        if isinstance(value, set | frozenset):
            return sorted((self.plain(inner, depth + 1) for inner in value), key=repr)
        return self._scalar(value)

    def _scalar(self, value: Any) -> Any:
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Decimal):
            return _shortest(value)
        if isinstance(value, Real):
            return float(value) if _is_finite(value) else None
        if isinstance(value, datetime | date | time):
            # Only pandas' NaT, which is a datetime, differs from itself.
            return value.isoformat() if value == value else None
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, bytes | bytearray | memoryview):
            return base64.b64encode(value).decode("ascii")
        return self.string(str(value))

    def _decoded(self, value: str | bytes) -> str:
        if isinstance(value, str):
            return self.string(value)
        # Older writers of Parquet store text in binary columns.
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UnusableRecord(NOT_UTF8_RECORD) from error


def _is_number(value: Any) -> bool:
    return isinstance(value, Integral | Real | Decimal) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    # Whole numbers are not asked: beyond the floats, math.isfinite raises.
    return isinstance(value, Integral) or math.isfinite(value)


def _shortest(value: Decimal) -> int | float | str | None:
    """A float when it prints the same number, else the digits: prices must not become 0.1000000000000001."""
    if not value.is_finite():
        return None
    near = float(value)
    return near if math.isfinite(near) and Decimal(repr(near)) == value else str(value)
