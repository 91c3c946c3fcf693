"""From the JSON of all documents to typed columns, each under a name that SQL can tell from the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colrank.errors import IndexDamaged

GIVEN = ("id", "title", "source", "language")
"""The columns that every document has; a key of the metadata with such a name becomes `metadata.name`."""

# So few at a time stay in the processor's cache.
_ROWS_AT_ONCE = 1 << 12
_VALUES_AT_ONCE = 1 << 14

# How the values of each kind are kept until the type of their column is known. Whole numbers beyond int64,
# lists of both whole and other numbers, empty lists and nested values stay text, so that nothing is lost.
_KEPT_AS: dict[str, Any] = {
    "BOOLEAN": pa.bool_(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN[]": pa.large_list(pa.bool_()),
    "BIGINT[]": pa.large_list(pa.int64()),
    "DOUBLE[]": pa.large_list(pa.float64()),
    "VARCHAR[]": pa.large_list(pa.large_string()),
    "JSON": pa.large_string(),
    "VARCHAR": pa.large_string(),
    "HUGE": pa.large_string(),
    "NUMBERS[]": pa.large_string(),
    "EMPTY[]": pa.large_string(),
}
_ORDER = [*_KEPT_AS]
_NUMBERS = frozenset(("BIGINT", "HUGE", "DOUBLE"))
_NUMBER_LISTS = frozenset(("BIGINT[]", "NUMBERS[]", "DOUBLE[]"))
_SHOWN_AS = {"HUGE": "DOUBLE", "NUMBERS[]": "DOUBLE[]"}

_ASCII_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def lower(name: str) -> str:
    """The name as DuckDB compares it: the case of ASCII's letters does not count, that of others does."""
    return name.translate(_ASCII_LOWER)


def quoted(name: str) -> str:
    """The name in double quotes, as SQL takes any name."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(slots=True)
class Field:
    """One column.

    Attributes:
        sql: its type.
        kinds: the values by kind, in the order of first appearance; empty once they were laid out.
        conflict: the types of the values where they conflict, and each is therefore kept as text.
        values: the values laid out, one a document.
    """

    sql: str = "VARCHAR"
    kinds: dict[str, _Values] = field(default_factory=dict)
    conflict: tuple[str, ...] = ()
    values: Any = None

    def column(self, documents: int) -> Any:
        """The values, NULL where a document has none; laid out the first time that they are asked for."""
        if self.values is None:
            convert = _as_text if self.conflict else _CONVERT.get(self.sql)
            rows, parts = [np.empty(0, np.int64)], [pa.array([], _KEPT_AS[self.sql])]
            for kind, values in self.kinds.items():
                for at, kept in values.done:
                    rows.append(at)
                    parts.append(convert(kind, kept) if convert else kept)
            places = np.full(documents, -1, np.int64)
            places[np.concatenate(rows)] = np.arange(sum(map(len, rows)))
            self.values = pa.concat_arrays(parts).take(pa.array(places, mask=places < 0))
            self.kinds = {}
        return self.values


@dataclass(slots=True)
class _Values:
    """The values of one kind of one key, and the rows that have them, ascending."""

    rows: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    done: list[tuple[NDArray[np.int64], Any]] = field(default_factory=list)

    def flush(self, kind: str) -> None:
        """Turn what came since the last time into Arrow, which takes far less memory."""
        if self.rows:
            self.done.append((np.array(self.rows, np.int64), pa.array(self.values, _KEPT_AS[kind])))
            self.rows.clear()
            self.values.clear()


def read_fields(metadata: Any, ids: Any) -> dict[str, Field]:
    """The fields of all documents' metadata by key, in the order of first appearance.

    Args:
        metadata: strings, a JSON object each (a chunked Arrow array).
        ids: the documents' ids, for errors.

    Raises:
        IndexDamaged: the metadata of a document is not a JSON object.
    """
    keys: dict[str, dict[str, _Values]] = {}
    start = 0
    for chunk in _slices(metadata):
        for row, record in enumerate(_objects(chunk.to_pylist(), ids, start), start):
            for key, value in record.items():
                kinds = keys.get(key)
                if kinds is None:
                    kinds = keys[key] = {}
                if value is None:
                    continue
                kind = _PLAIN.get(type(value))
                if kind is None:
                    kind, value = _kind(value)
                part = kinds.get(kind)
                if part is None:
                    part = kinds[kind] = _Values()
                part.rows.append(row)
                part.values.append(value)
        start += len(chunk)
        for kinds in keys.values():
            for kind, part in kinds.items():
                if len(part.values) > _VALUES_AT_ONCE:
                    part.flush(kind)
    for kinds in keys.values():
        for kind, part in kinds.items():
            part.flush(kind)
    return {key: _field(kinds) for key, kinds in keys.items()}


def reachable(keys: Collection[str]) -> dict[str, str]:
    """By key of the metadata, the name of its field: the key itself, unless SQL would take it for another."""
    taken = set(GIVEN)
    names = {}
    # Keys that can keep their name go first, so that none loses it to a made-up one.
    for key in keys:
        if _stem(key) == key and lower(key) not in taken:
            names[key] = key
            taken.add(lower(key))
    for key in keys:
        if key not in names:
            stem = _stem(key)
            candidates = chain([stem], (f"{stem}_{number}" for number in count(2)))
            names[key] = next(name for name in candidates if lower(name) not in taken)
            taken.add(lower(names[key]))
    return {key: names[key] for key in keys}


def remark(key: str, name: str, types: Sequence[str]) -> str:
    """What to know of a field before using it, "" for nothing: its name is another, its types conflict."""
    said = []
    if name not in (key, f"metadata.{key}"):
        said.append(
            f"The field {quoted(key)} of the metadata is reachable as {quoted(name)}, because SQL takes "
            f"{quoted(key)} for another field or does not take it at all."
        )
    if types:
        said.append(
            f"The values of {quoted(name)} are {', '.join(types[:-1])} in some documents and {types[-1]} in "
            f"others, so that each is kept as text; compare them with try_cast({quoted(name)} AS {types[0]})."
        )
    return " ".join(said)


def _stem(key: str) -> str:
    # DuckDB would end a name at NUL, and has no empty ones.
    name = key.replace("\0", "\ufffd")
    return name if name and lower(name) not in GIVEN else f"metadata.{name}"


def _slices(column: Any) -> Iterator[Any]:
    for chunk in column.chunks:
        for start in range(0, len(chunk), _ROWS_AT_ONCE):
            yield chunk.slice(start, _ROWS_AT_ONCE)


def _objects(texts: list[str], ids: Any, start: int) -> list[dict[str, Any]]:
    """The objects that the texts hold."""
    # All at once is faster; where that fails, one after the other names the bad one.
    try:
        objects: list[Any] = json.loads(f"[{','.join(texts)}]")
        if len(objects) == len(texts) and set(map(type, objects)) <= {dict}:
            return objects
    except (ValueError, TypeError, RecursionError):
        pass
    objects = []
    for row, text in enumerate(texts, start):
        try:
            objects.append(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            objects.append(None)
        if not isinstance(objects[-1], dict):
            raise IndexDamaged(
                f"The metadata of the document {ids[row].as_py()!r} is not a JSON object; "
                "build the index again."
            )
    return objects


_PLAIN = {str: "VARCHAR", bool: "BOOLEAN", float: "DOUBLE"}


def _kind(value: Any) -> tuple[str, Any]:
    """The kind of a value of JSON, and the value as that kind is kept."""
    if type(value) in _PLAIN:
        return _PLAIN[type(value)], value
    if isinstance(value, int):
        return ("BIGINT", value) if -(2**63) <= value < 2**63 else ("HUGE", str(value))
    if isinstance(value, list):
        types = set(map(type, value)) - {type(None)}
        if not types:
            return "EMPTY[]", _json(value)
        inner = {_PLAIN[each] for each in types if each in _PLAIN}
        if len(inner) < len(types):
            inner = {_kind(element)[0] for element in value if element is not None}
        if len(inner) == 1 and (kind := f"{next(iter(inner))}[]") in _KEPT_AS:
            return kind, value
        if inner <= _NUMBERS:
            return "NUMBERS[]", _json(value)
    return "JSON", _json(value)


def _field(kinds: dict[str, _Values]) -> Field:
    """The field for values of these kinds."""
    typed = kinds.keys() - {"EMPTY[]"}
    empty_lists = "EMPTY[]" in kinds
    if not typed:
        return Field("VARCHAR[]" if empty_lists else "VARCHAR", kinds)
    if typed <= _NUMBERS and not empty_lists:
        return Field("BIGINT" if typed == {"BIGINT"} else "DOUBLE", kinds)
    if typed <= _NUMBER_LISTS:
        return Field("BIGINT[]" if typed == {"BIGINT[]"} else "DOUBLE[]", kinds)
    if typed == {"JSON"}:
        return Field("VARCHAR", kinds)
    only = next(iter(typed))
    if len(typed) == 1 and (only.endswith("[]") or not empty_lists):
        return Field(only, kinds)
    shown = {_SHOWN_AS.get(kind, kind) for kind in typed}
    if empty_lists and not any(kind.endswith("[]") for kind in shown):
        shown.add("VARCHAR[]")
    for whole, number in (("BIGINT", "DOUBLE"), ("BIGINT[]", "DOUBLE[]")):
        if number in shown:
            shown.discard(whole)
    return Field("VARCHAR", kinds, tuple(sorted(shown, key=_ORDER.index)))


# Each takes the values of a kind, as they are kept, to the type of their column.


def _as_text(kind: str, kept: Any) -> Any:
    """Strings as they are, all else as JSON writes it."""
    if _KEPT_AS[kind] == pa.large_string():
        return kept
    return pa.array(map(_json, kept.to_pylist()), pa.large_string())


def _as_doubles(kind: str, kept: Any) -> Any:
    if kind == "HUGE":
        return pa.array([float(digits) for digits in kept.to_pylist()], pa.float64())
    return pc.cast(kept, pa.float64(), safe=False)


def _as_lists(sql: str) -> Callable[[str, Any], Any]:
    def convert(kind: str, kept: Any) -> Any:
        if kind == sql:
            return kept
        lists = kept.to_pylist()
        if kind in ("EMPTY[]", "NUMBERS[]"):
            lists = [json.loads(text) for text in lists]
        if sql == "DOUBLE[]":
            # Through text: a whole number beyond all floats is then infinite, and no error.
            lists = [[None if n is None else float(str(n)) for n in numbers] for numbers in lists]
        return pa.array(lists, _KEPT_AS[sql])

    return convert


_CONVERT: dict[str, Callable[[str, Any], Any]] = {
    "DOUBLE": _as_doubles,
    **{sql: _as_lists(sql) for sql in ("BOOLEAN[]", "BIGINT[]", "DOUBLE[]", "VARCHAR[]")},
}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
