"""One boolean SQL expression: what it may be made of, and what to say of one that cannot be used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from colrank.errors import InputError, first_line
from colrank.filters.fields import lower
from colrank.types import is_utf8

_SHOWN_CHARACTERS = 200

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "lock_configuration": True,
    "temp_directory": "",
    "threads": 1,
}

_ALLOWED = {
    *("CONSTANT", "COLUMN_REF", "PARAMETER", "COMPARISON", "BETWEEN", "CONJUNCTION", "OPERATOR"),
    *("CASE", "CAST", "TYPE", "COLLATE", "FUNCTION", "LAMBDA", "LAMBDA_REF"),
}
_NOT_ALLOWED = {
    "SUBQUERY": "has a query inside; write x IN (1, 2), or list_contains(list, x)",
    "WINDOW": "has a window function, which looks at many documents; compare the fields of one",
    "STAR": "has a star; name the fields one by one",
}
# Strings with escapes, plain strings, quoted names, and strings between dollars.
_LITERALS = re.compile(
    r"""\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$((?:[A-Za-z_]\w*)?)\$.*?\$\1\$""",
    re.DOTALL,
)
_QUOTES = """texts stand in '...', and names that are no plain words in "...\""""


class Sandbox:
    """A DuckDB connection that reaches no file, network, extension or variable of Python. Not thread-safe.

    Attributes:
        connection: the connection.
    """

    def __init__(self) -> None:
        import duckdb

        self.connection = duckdb.connect(":memory:", config=_CONFIG)
        # Whether a function can be asked of one document and answers the same each time.
        self._usable: dict[str, bool] = dict(
            self.connection.execute(
                "SELECT lower(function_name), bool_or(function_type IN ('scalar', 'macro')) "
                "AND NOT bool_or(coalesce(stability, '') = 'VOLATILE') "
                "AND NOT bool_or(coalesce(macro_definition, '') SIMILAR TO '.*(unnest|sleep).*') "
                "FROM duckdb_functions() GROUP BY 1"
            ).fetchall()
        )
        self._bare = _without_places(self._parsed("SELECT true", "")["statements"][0]["node"])
        self._bare.pop("select_list")

    def names(self, filter: str) -> set[str]:
        """The names that a filter mentions, in lower case; some may be of its own making, as in a lambda.

        Raises:
            InputError: it is not one expression, or is made of more than a filter may be.
        """
        _check_text(filter)
        statements = self._parsed(f"SELECT\n{filter}\n", filter)["statements"]
        select = dict(statements[0]["node"]) if len(statements) == 1 else {}
        columns = select.pop("select_list", ())
        # All but the one expression must be as in the plainest query, whatever else this DuckDB knows.
        if _without_places(select) != self._bare or len(columns) != 1 or columns[0].get("alias"):
            raise unusable(filter, "is more than one expression; give only what would stand after WHERE")
        names: set[str] = set()
        for node in _nodes(columns):
            kind = node.get("class", "CONSTANT")
            if kind not in _ALLOWED:
                raise unusable(filter, _NOT_ALLOWED.get(kind, f"has a part of the kind {kind}; take it out"))
            if kind == "FUNCTION" and self._usable.get(name := str(node["function_name"]).lower()) is False:
                raise unusable(filter, f"calls {name}(), no function of one document's fields; take it out")
            if kind == "COLUMN_REF":
                names.update(lower(part) for part in node["column_names"])
        return names

    def parameters(self, filter: str, given: Sequence[Any] | Mapping[str, Any]) -> list[Any] | dict[str, Any]:
        """The parameters as DuckDB takes them.

        Raises:
            InputError: they are not those that the filter has, or DuckDB cannot read it.
        """
        import duckdb

        if isinstance(given, str | bytes):
            raise InputError(f"The parameters are {given!r}; give them as a list.")
        try:
            [statement] = self.connection.extract_statements(f"SELECT (\n{filter}\n)")
        except duckdb.Error as error:
            raise refusal(filter, error) from error
        wanted = sorted(statement.named_parameters)
        there = [*map(str, given)] if isinstance(given, Mapping) else [str(n + 1) for n in range(len(given))]
        if {*map(lower, wanted)} != {*map(lower, there)}:
            raise unusable(
                filter,
                f"has {_listed(wanted, 'parameter')} and was given {_listed(there, 'value')}; "
                "give one value for each",
            )
        if isinstance(given, Mapping):
            return {str(name): _plain(value) for name, value in given.items()}
        return [_plain(value) for value in given]

    def _parsed(self, sql: str, filter: str) -> dict[str, Any]:
        # To the end, as a connection with a result half read does nothing else.
        [[answer]] = self.connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
        try:
            tree: dict[str, Any] = json.loads(answer)
        except RecursionError as error:
            raise unusable(filter, "is nested too deeply; write it shorter") from error
        if tree["error"]:
            said = str(tree.get("error_message")).splitlines()[0].rstrip(".! ")
            remedy = "write it shorter" if "depth" in said else _QUOTES
            raise unusable(filter, f"is no SQL expression: {said}; {remedy}")
        return tree


def unusable(filter: str, why: str) -> InputError:
    """The error of a filter: what is wrong with it, and the remedy."""
    shown = filter if len(filter) <= _SHOWN_CHARACTERS else f"{filter[:_SHOWN_CHARACTERS]}..."
    return InputError(f"The filter {shown!r} {why}.")


def unknown_name(error: Exception) -> str | None:
    """The name that DuckDB did not find, where that is its error."""
    found = re.search(r'Referenced (?:column|table) "(.*?)" not found', first_line(error))
    return found[1] if found else None


def refusal(filter: str, error: Exception) -> InputError:
    """The error of a filter that DuckDB cannot read or evaluate."""
    said = re.sub(r"^[\w ]+ Error: ", "", first_line(error)).rstrip(".! ")
    if re.search("syntax error|unterminated", said):
        remedy = _QUOTES
    elif "Cannot extract field" in said:
        remedy = """read inside a nested value with field ->> '$.name', and quote a name with a dot: "a.b\""""
    elif "GROUP BY" in said:
        said, remedy = "it asks many documents at once", "compare the fields of one"
    elif "[]" in said:
        remedy = "ask a list with list_contains(field, value)"
    elif re.search("compare|[Cc]onver|cast", said):
        remedy = "try_cast(field AS type) gives NULL where a value does not fit"
    else:
        remedy = "correct it"
    return unusable(filter, f"cannot be used: {said}; {remedy}")


def _check_text(filter: str) -> None:
    """See that a filter is one piece of text with nothing that hides or ends a part of it."""
    if not isinstance(filter, str):
        raise InputError(f"The filter is {filter!r}; give it as a string, for example 'year > 2000'.")
    if not filter.strip():
        raise InputError("The filter is empty; give an expression such as 'year > 2000', or none at all.")
    if "\0" in filter or not is_utf8(filter):
        raise unusable(filter, "has characters that SQL cannot have; give the text as a parameter")
    bare = _LITERALS.sub(" ", filter)
    if "--" in bare or "/*" in bare:
        raise unusable(filter, "has a comment, which hides a part of it; take it out")
    if ";" in bare:
        raise unusable(filter, "has a ';' but can only be one expression; take it out, or join with AND")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def _without_places(node: Any) -> Any:
    """The tree without where its parts stand in the text."""
    if isinstance(node, dict):
        return {key: _without_places(value) for key, value in node.items() if "location" not in key}
    return [*map(_without_places, node)] if isinstance(node, list) else node


def _listed(names: Sequence[str], what: str) -> str:
    if not names:
        return f"no {what}"
    return f"{len(names)} {what}{'s' * (len(names) > 1)} ({', '.join(f'${name}' for name in names)})"


def _plain(value: Any) -> Any:
    # DuckDB takes Python's numbers, and not NumPy's.
    return value.item() if isinstance(value, np.generic) else value
