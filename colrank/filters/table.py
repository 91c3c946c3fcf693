"""The documents of an index as a table, and which of its rows a search is limited to."""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colrank.errors import InputError
from colrank.filters.expression import Sandbox, refusal, unknown_name, unusable
from colrank.filters.fields import GIVEN, Field, lower, quoted, reachable, read_fields, remark
from colrank.types import is_utf8

_SHOWN_FIELDS = 12


@dataclass(frozen=True)
class Where:
    """What a search may be limited to; all parts that are given must hold.

    Attributes:
        filter: one SQL expression that is true or false, over `MetadataTable.fields`.
        parameters: values for `?` or `$1` in the filter, in order, or for `$name`, by name.
        path_prefix: the documents whose source is this path or lies below it.
        ids: the documents with one of these ids.
    """

    filter: str | None = None
    parameters: Sequence[Any] | Mapping[str, Any] = ()
    path_prefix: str | None = None
    ids: Collection[str] | None = None


class MetadataTable:
    """Typed columns of the documents of an index, made once and kept. Threads may share it.

    The columns are id, title, source, language, and one for each key of the metadata. true and false are
    BOOLEAN, whole numbers BIGINT, other numbers DOUBLE (also where a field has both, or whole ones beyond 64
    bits), strings VARCHAR, lists of one of these a list of it. Nested values are VARCHAR that holds JSON.
    Where the types of a field's values conflict, each is kept as text. null and missing are NULL.

    Args:
        documents: one table a segment with the columns id, title, source and language (strings) and
            metadata (strings, a JSON object a row). The rows of all follow one another.

    Raises:
        IndexDamaged: the metadata of a document is not a JSON object.
    """

    def __init__(self, documents: Sequence[pa.Table]) -> None:
        names = [*GIVEN, "metadata"]
        empty = pa.table({name: pa.array([], pa.large_string()) for name in names})
        # One type for all, as Arrow joins no strings of 32 bits to those of 64.
        table = pa.concat_tables([empty, *(part.select(names).cast(empty.schema) for part in documents)])
        self._rows: int = table.num_rows
        self._given = {name: table[name] for name in GIVEN}
        self._fields = {name: Field(values=values) for name, values in self._given.items()}
        self._conflicts: dict[str, str] = {}
        fields = read_fields(table["metadata"], table["id"])
        for key, name in reachable(fields).items():
            self._fields[name] = fields[key]
            if said := remark(key, name, fields[key].conflict):
                self._conflicts[name] = said
        self._by_lower = {lower(name): name for name in self._fields}
        self._lock = threading.Lock()

    @property
    def fields(self) -> Mapping[str, str]:
        """The SQL type of each field that a filter may name."""
        return MappingProxyType({name: field.sql for name, field in self._fields.items()})

    @property
    def conflicts(self) -> Mapping[str, str]:
        """By field, what to know before using it: its types conflict, or it has another name than its key."""
        return MappingProxyType(self._conflicts)

    def rows(self, where: Where) -> NDArray[np.bool_]:
        """Which documents match.

        Returns:
            Bool `[documents]`. A document for which the filter gives NULL does not match.

        Raises:
            InputError: the filter, its parameters, the path or an id cannot be used.
        """
        keep = np.ones(self._rows, dtype=bool)
        if where.filter is not None:
            keep &= self._filtered(where.filter, where.parameters)
        elif len(where.parameters):
            raise InputError("There are parameters but no filter; give a filter that uses them, or neither.")
        if where.path_prefix is not None:
            keep &= self._below(where.path_prefix)
        if where.ids is not None:
            keep &= self._named(where.ids)
        return keep

    def _filtered(self, filter: str, parameters: Sequence[Any] | Mapping[str, Any]) -> NDArray[np.bool_]:
        with self._lock:
            used = {self._by_lower[name] for name in self._sandbox.names(filter) if name in self._by_lower}
            values = self._sandbox.parameters(filter, parameters)
            # Only columns that are used are laid out; the id gives the number of rows.
            columns = {name: self._fields[name].column(self._rows) for name in sorted({"id", *used})}
            self._sandbox.connection.register("documents", pa.table(columns))
            try:
                sql, matches = self._evaluated(filter, values)
            finally:
                self._sandbox.connection.unregister("documents")
        if len(matches) != self._rows:
            raise unusable(
                filter, "gives more than one value for a document; ask a list with list_contains()"
            )
        if matches.dtype != np.bool_:
            raise unusable(filter, f"gives {sql}, not true or false; compare it, as in year > 2000")
        filled: NDArray[np.bool_] = np.ma.filled(matches, False)
        return filled

    def _evaluated(self, filter: str, values: list[Any] | dict[str, Any]) -> tuple[str, Any]:
        """The type of what the filter gives, and its value for each document."""
        import duckdb

        try:
            # Brackets on lines of their own, so that nothing in the filter can swallow them. Beside a column
            # of each row DuckDB refuses aggregates, those that hide in its macros too.
            answer = self._sandbox.connection.execute(
                f'SELECT (\n{filter}\n) AS "the filter", documents.id IS NULL FROM documents', values
            )
            sql = str(answer.description[0][1]) if answer.description else "nothing"
            return sql.strip('"'), answer.fetchnumpy()["the filter"]
        except (duckdb.Error, RuntimeError, TypeError, ValueError, OverflowError) as error:
            name = unknown_name(error)
            raise (refusal(filter, error) if name is None else self._unknown(filter, name)) from error

    @cached_property
    def _sandbox(self) -> Sandbox:
        return Sandbox()

    def _unknown(self, filter: str, name: str) -> InputError:
        dotted = map(lower, re.findall(rf"\b{re.escape(name)}\.\w+", filter, re.IGNORECASE))
        near = [each for each in dotted if each in self._by_lower]
        near = near or difflib.get_close_matches(lower(name), self._by_lower, n=3)
        meant = " or ".join(quoted(self._by_lower[each]) for each in near)
        shown = [*self._fields][:_SHOWN_FIELDS]
        more = len(self._fields) - len(shown)
        return unusable(
            filter,
            f"names {quoted(name)}, which is no field; {f'perhaps {meant} is meant; ' if meant else ''}there "
            f"are {', '.join(shown)}{f' and {more} more' if more else ''} (texts stand in single quotes)",
        )

    def _below(self, prefix: str) -> NDArray[np.bool_]:
        if not isinstance(prefix, str) or not prefix.strip() or prefix.startswith("/") or not is_utf8(prefix):
            raise InputError(
                f"The path {prefix!r} can be none of an index; give a relative one, as hits have in `source`."
            )
        path = re.sub(r"^(\./+)+", "", prefix).rstrip("/")
        if path in ("", "."):
            return np.ones(self._rows, dtype=bool)
        return _bools(pc.or_(pc.equal(self._sources, path), pc.starts_with(self._sources, f"{path}/")))

    @cached_property
    def _sources(self) -> Any:
        return pc.replace_substring_regex(self._given["source"], r"^(\./+)+", "")

    def _named(self, ids: Collection[str]) -> NDArray[np.bool_]:
        if isinstance(ids, str) or not all(isinstance(id, str) for id in ids):
            raise InputError(f"The ids are {ids!r}; give a list of strings.")
        wanted = pa.array([id for id in dict.fromkeys(ids) if is_utf8(id)], pa.large_string())
        keep = _bools(pc.is_in(self._given["id"], value_set=wanted))
        there = {*self._given["id"].filter(pa.array(keep)).to_pylist()}
        unknown = [id for id in dict.fromkeys(ids) if id not in there]
        if unknown:
            more = f", nor {len(unknown) - 1} more of those given" if len(unknown) > 1 else ""
            raise InputError(f"There is no document {unknown[0]!r} in the index{more}; check the ids.")
        return keep


def _bools(column: Any) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = np.asarray(pc.fill_null(column, False).to_numpy(), dtype=bool)
    return flags
