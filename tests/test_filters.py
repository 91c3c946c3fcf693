"""Metadata filters: types of fields, what matches, and what is refused."""

import json
import re
import sys
import threading
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colrank.errors import IndexDamaged, InputError
from colrank.filters import MetadataTable, Where

GIVEN = ["id", "title", "source", "language"]


def segment(*metadata: dict, ids=None, titles=None, sources=None) -> pa.Table:
    names = ids or [f"d{row}" for row in range(len(metadata))]
    return pa.table(
        {
            "id": pa.array(names, pa.string()),
            "title": pa.array(titles or ["T"] * len(names), pa.string()),
            "source": pa.array(sources or ["a.md"] * len(names), pa.string()),
            "language": pa.array(["en"] * len(names), pa.string()),
            "metadata": pa.array([json.dumps(each) for each in metadata], pa.large_string()),
            "encoded": pa.array([True] * len(names)),
        }
    )


def table(*metadata: dict, **given) -> MetadataTable:
    return MetadataTable([segment(*metadata, **given)])


def matching(rows: MetadataTable, filter: str | None = None, parameters=(), **where) -> list[int]:
    return np.flatnonzero(rows.rows(Where(filter, parameters, **where))).tolist()


def refusal(rows: MetadataTable, filter, parameters=(), **where) -> str:
    with pytest.raises(InputError) as caught:
        rows.rows(Where(filter, parameters, **where))
    said = str(caught.value)
    assert said.endswith(".")
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    ("values", "sql"),
    [
        ([True, None, False], "BOOLEAN"),
        ([1, -(2**63), 2**63 - 1], "BIGINT"),
        ([1, 2**63], "DOUBLE"),
        ([10**400, -(10**400)], "DOUBLE"),
        ([1, 2.5], "DOUBLE"),
        (["a", ""], "VARCHAR"),
        (["2024-01-31", "2024-02-01"], "VARCHAR"),
        ([None, None], "VARCHAR"),
        ([["a"], [], [None, "b"]], "VARCHAR[]"),
        ([[], [None]], "VARCHAR[]"),
        ([[True], [False]], "BOOLEAN[]"),
        ([[1], [2, 3]], "BIGINT[]"),
        ([[1], [2.5, 3]], "DOUBLE[]"),
        ([[1], [2.5]], "DOUBLE[]"),
        ([[2**70], [1]], "DOUBLE[]"),
        ([{"a": 1}, {"b": []}], "VARCHAR"),
        ([[1, "a"], {"b": 1}, [], [[1]]], "VARCHAR"),
    ],
)
def test_types(values, sql):
    rows = table({}, *({"f": value} for value in values))
    assert dict(rows.fields) == {**dict.fromkeys(GIVEN, "VARCHAR"), "f": sql}
    assert not rows.conflicts
    there = [row for row, value in enumerate(values, 1) if value is not None]
    assert matching(rows, "f IS NOT NULL") == there
    assert matching(rows, "typeof(f) = ?", [sql]) == [*range(len(values) + 1)]


def test_values_come_through():
    rows = table(
        {
            "year": 1999,
            "price": 1,
            "ok": True,
            "tags": ["a", "b"],
            "day": "2024-01-31",
            "place": {"x": {"y": "é"}},
        },
        {"year": 2024, "price": 2.5, "ok": False, "tags": [], "place": [1, "a"]},
        {"big": 2**64, "numbers": [1, 2.5, None]},
        {"big": 1, "numbers": [2**70]},
        {},
    )
    for filter, found in {
        "year > 2000": [1],
        "YEAR >= 1999 AND NOT ok": [1],
        "ok": [0],
        "NOT ok": [1],
        "price IN (1, 2.5)": [0, 1],
        "year % 2 = 0": [1],
        "list_contains(tags, 'a')": [0],
        "len(tags) = 0": [1],
        "'b' IN tags": [0],
        "[t FOR t IN tags IF t = 'b'] = ['b']": [0],
        "day BETWEEN '2024-01-01' AND '2024-12-31'": [0],
        "day::DATE > DATE '2024-01-30'": [0],
        "place ->> '$.x.y' = 'é'": [0],
        """place = '[1, "a"]'""": [1],
        "big > 1e19": [2],
        "numbers[2] = 2.5": [2],
        "numbers[3] IS NULL AND len(numbers) = 3": [2],
        "numbers[1] > 1e21": [3],
        "year IS NULL": [2, 3, 4],
        "coalesce(year, 0) < 2000": [0, 2, 3, 4],
        "CASE WHEN ok THEN year = 1999 ELSE year = 2024 END": [0, 1],
        "title = 'T' AND id <> 'd0' AND language = 'en' AND source LIKE '%.md'": [1, 2, 3, 4],
        "title COLLATE nocase = 't'": [0, 1, 2, 3, 4],
        "id = 'd0' OR '--;/*' = title": [0],
        "id = $$d1$$": [1],
        "year =\n2024\n": [1],
        "true": [0, 1, 2, 3, 4],
        "NULL::BOOLEAN": [],
    }.items():
        assert matching(rows, filter) == found, filter


def test_segments_follow_one_another_and_share_their_types():
    rows = MetadataTable([segment({"n": 1}, {"s": "a"}), segment(), segment({"n": 2.5}, ids=["x"])])
    assert rows.fields["n"] == "DOUBLE"
    assert matching(rows, "n > 0") == [0, 2]
    assert matching(rows, "id = 'x'") == [2]


def test_strings_of_either_size_are_read():
    large = segment({"n": 1}, ids=["x"])
    large = large.cast(
        pa.schema([(f.name, pa.large_string() if f.type == pa.string() else f.type) for f in large.schema])
    )
    assert matching(MetadataTable([segment({"n": 1}), large]), "n = 1") == [0, 1]


def test_without_documents():
    rows = MetadataTable([])
    assert rows.rows(Where("title = 'a'", path_prefix="x", ids=[])).shape == (0,)
    assert list(rows.fields) == GIVEN


def test_many_rows_and_sparse_fields():
    count = 40_000
    rows = table(*({"n": row} | ({"rare": "x"} if row % 9999 == 0 else {}) for row in range(count)))
    assert matching(rows, "n >= 39998") == [39998, 39999]
    assert matching(rows, "rare = 'x'") == [0, 9999, 19998, 29997, 39996]


@pytest.mark.parametrize(
    ("values", "types", "target", "texts"),
    [
        ([2020, "about 2020"], "BIGINT in some documents and VARCHAR in", "BIGINT", ["2020", "about 2020"]),
        ([True, 1.5, "x"], "BOOLEAN, DOUBLE in some documents and VARCHAR", "BOOLEAN", ["true", "1.5", "x"]),
        (
            ["a", ["a", "b"]],
            r"VARCHAR\[\] in some documents and VARCHAR in",
            r"VARCHAR\[\]",
            ["a", '["a", "b"]'],
        ),
        (["a", []], r"VARCHAR\[\] in some documents and VARCHAR in", r"VARCHAR\[\]", ["a", "[]"]),
        ([["a"], [1]], r"BIGINT\[\] in some documents and VARCHAR\[\] in", r"BIGINT\[\]", ['["a"]', "[1]"]),
        ([{"é": 1}, "x"], "JSON in some documents and VARCHAR in", "JSON", ['{"é": 1}', "x"]),
        (
            [2**70, 1, 0.1, "x"],
            "DOUBLE in some documents and VARCHAR in",
            "DOUBLE",
            [str(2**70), "1", "0.1", "x"],
        ),
    ],
)
def test_conflicting_types_become_text_and_are_said(values, types, target, texts):
    rows = table(*({"F": value} for value in values))
    assert rows.fields["F"] == "VARCHAR"
    [said] = rows.conflicts.items()
    assert said[0] == "F"
    assert said[1].startswith('The values of "F" are ')
    for part in (types, f'try_cast("F" AS {target})'):
        assert part.replace("\\", "") in said[1]
    for row, text in enumerate(texts):
        assert matching(rows, "f = ?", [text]) == [row]


def test_text_of_a_conflict_can_be_cast():
    rows = table({"year": 2020}, {"year": "about 2020"}, {"year": "2021"})
    assert matching(rows, "try_cast(year AS BIGINT) >= 2020") == [0, 2]
    assert "try_cast(field AS type)" in refusal(rows, "year > 2000")
    assert "'about 2020'" in refusal(rows, "year::BIGINT > 2000")


def test_keys_named_like_columns():
    rows = table({"title": "mine", "ID": 7, "metadata": {"url": "u"}}, titles=["own"])
    assert list(rows.fields) == [*GIVEN, "metadata.title", "metadata.ID", "metadata"]
    assert not rows.conflicts
    assert matching(rows, """title = 'own' AND "metadata.title" = 'mine' AND "METADATA.id" = 7""") == [0]
    assert matching(rows, "metadata ->> 'url' = 'u'") == [0]
    assert '"a.b"' in refusal(rows, "metadata.title = 'mine'")
    assert 'perhaps "metadata.title" is meant' in refusal(table({"title": "x"}), "metadata.title = 'x'")


def test_keys_that_sql_cannot_tell_apart():
    rows = table({"Year": 1, "year": "x", "YEAR": 3, "year_2": 4, "É": 5, "é": 6})
    assert list(rows.fields)[4:] == ["Year", "year_3", "YEAR_4", "year_2", "É", "é"]
    for filter in ["Year = 1", "year_3 = 'x'", '"Year_4" = 3', "year_2 = 4", "É = 5", "é = 6"]:
        assert matching(rows, filter) == [0]
    assert list(rows.conflicts) == ["year_3", "YEAR_4"]
    assert '"year" of the metadata is reachable as "year_3"' in rows.conflicts["year_3"]


def test_keys_that_sql_does_not_take():
    rows = table({"": 1, "a\0b": 2, "a": 3, 'say "x"': 4, "order": 5, " ": 6, "a-b": 7, "documents": 8})
    names = list(rows.fields)[4:]
    assert names == ["metadata.", "a\ufffdb", "a", 'say "x"', "order", " ", "a-b", "documents"]
    for value, name in enumerate(names, 1):
        quoted = name.replace('"', '""')
        assert matching(rows, f'"{quoted}" = {value}') == [0]
    assert list(rows.conflicts) == ["a\ufffdb"]


def test_parameters():
    rows = table({"n": 1, "s": "it's", "d": "2024-01-01"}, {"n": 2, "s": "b", "d": "2025-01-01"})
    assert matching(rows, "n = ?", [2]) == [1]
    assert matching(rows, "n = ? AND s = ?", (1, "it's")) == [0]
    assert matching(rows, "$1 = n OR $1 = 7 AND $2 = 'x'", [1, "x"]) == [0]
    assert matching(rows, "n = $n", {"n": 2}) == [1]
    assert matching(rows, "n IN ?", [[1, 2]]) == [0, 1]
    assert matching(rows, "list_contains(?, s)", [["b"]]) == [1]
    assert matching(rows, "n = ?", [np.int64(1)]) == [0]
    assert matching(rows, "d::DATE > ?", [date(2024, 6, 1)]) == [1]
    assert matching(rows, "?", [True]) == [0, 1]
    assert matching(rows, "n = ?", [None]) == []
    assert matching(rows, "s = ?", ["true) OR (true -- "]) == []


@pytest.fixture(scope="module")
def few() -> MetadataTable:
    return table({"n": 1, "s": "a", "tags": ["a"]}, {"n": 2})


@pytest.mark.parametrize(
    ("filter", "parameters", "said"),
    [
        ("n = ?", [], r"has 1 parameter \(\$1\) and was given no value"),
        (
            "n = ?",
            [1, 2],
            r"1 parameter \(\$1\) and was given 2 values \(\$1, \$2\); give one value for each",
        ),
        ("n = 1", [1], "has no parameter and was given 1 value"),
        ("n = $a", {"b": 1}, r"has 1 parameter \(\$a\) and was given 1 value \(\$b\)"),
        ("n = $a", [1], r"\(\$a\) and was given 1 value \(\$1\)"),
        ("n = ? AND n = $a", [1, 2], "[Mm]ixing named and positional"),
        ("n = ?", "1", "give them as a list"),
        ("n = ?", [object()], "object"),
        ("n = ?", ["x"], "'x'"),
        ("s = ?", ["\ud800"], "UTF-8|cast"),
        (None, [1], "parameters but no filter"),
    ],
)
def test_parameters_that_do_not_fit(filter, parameters, said, few):
    with pytest.raises(InputError, match=said):
        few.rows(Where(filter, parameters))
    assert matching(few, "n = 1") == [0]


@pytest.mark.parametrize(
    ("filter", "said"),
    [
        ("", "The filter is empty; give an expression"),
        (" \n", "The filter is empty"),
        (3, "The filter is 3; give it as a string"),
        ("true; SELECT 1", "has a ';' but can only be one expression"),
        ("true;", "';'"),
        ("true -- AND false", "has a comment"),
        ("true /* AND", "has a comment"),
        ("/**/ true", "has a comment"),
        ("true\0 AND false", "characters that SQL cannot have"),
        ("s = '\ud800'", "characters that SQL cannot have"),
        ("n", "gives .*, not true or false; compare it"),
        ("tags", "not true or false"),
        ("NULL", "not true or false"),
        ("CASE WHEN n = 1 THEN 1 END", "not true or false"),
        ("n >", "no SQL expression: syntax error"),
        ("n = 1 AND", "syntax error"),
        ("s = 'a", "unterminated"),
        ("order = 1", "syntax error .*names that are no plain words in"),
        ("NOT " * 2000 + "true", r"NOT \.\.\.' is no SQL expression: .*; write it shorter"),
        ("true) UNION SELECT (true", "syntax error"),
        ("true) OR (true", "syntax error"),
        ("true UNION SELECT true", "more than one expression; give only what would stand after WHERE"),
        ("true UNION ALL SELECT true", "more than one expression"),
        ("true, true", "more than one expression"),
        ("true AS x", "more than one expression"),
        ("true FROM 'f.parquet'", "more than one expression"),
        ("true FROM documents", "more than one expression"),
        ("true WHERE false", "more than one expression"),
        ("true ORDER BY 1", "more than one expression"),
        ("true LIMIT 1", "more than one expression"),
        ("true GROUP BY n", "more than one expression"),
        ("DISTINCT true", "more than one expression"),
        ("ALL true", "syntax error"),
        ("FROM 'f.parquet'", "SQL expression"),
        ("SELECT true", "syntax error"),
        ("ATTACH 'x.db'", "cannot be used|syntax error"),
        ("COPY documents TO 'x.csv'", "syntax error"),
        ("(SELECT true)", "has a query inside; write x IN"),
        ("EXISTS (FROM 'f.parquet')", "has a query inside"),
        ("EXISTS (FROM read_csv('/etc/passwd'))", "has a query inside"),
        ("EXISTS (FROM secret)", "has a query inside"),
        ("n IN (SELECT n FROM documents)", "has a query inside"),
        ("n = ANY(tags)", "has a query inside"),
        ("read_csv('/etc/passwd') = 1", r"calls read_csv\(\), no function of one document's fields"),
        ("read_text('/etc/passwd') = 'x'", r"calls read_text\(\)"),
        ("glob('*') = 'x'", r"calls glob\(\)"),
        ("sum(n) > 1", r"calls sum\(\)"),
        ("count(*) > 1", r"calls count(_star)?\(\)|has a star"),
        ("json_group_array(n) = '[1]'", "asks many documents at once; compare the fields of one"),
        ("main.sum(n) > 1", r"calls sum\(\)"),
        ("generate_subscripts(tags, 1) = 1", r"calls generate_subscripts\(\)"),
        ("regexp_split_to_table(s, 'x') = 'a'", r"calls regexp_split_to_table\(\)"),
        ("unnest(tags) = 'a'", r"calls unnest\(\)"),
        ("row_number() OVER () = 1", "has a window function"),
        ("sum(n) OVER (ORDER BY n) = 1", "has a window function"),
        ("random() < 2", r"calls random\(\)"),
        ("error('x')", r"calls error\(\)"),
        ("*", "has a star"),
        ("COLUMNS(*) = 1", "has a star"),
        ("#1", "POSITIONAL_REFERENCE"),
        ("nosuch(n)", "function with name nosuch"),
        (
            "secret = 1",
            'names "secret", which is no field; there are id, title, source, language, n, s, tags',
        ),
        ("secret.n = 1", 'names "secret", which is no field'),
        ("rowid = 1", 'names "rowid"'),
        ("s::BIGINT = 1", "Could not convert string 'a' .*; try_cast"),
        ("s > 1", "[Cc]annot compare .*; try_cast"),
        ("tags = 'a'", "; "),
    ],
)
def test_filters_that_are_refused(filter, said, few, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    secret = pa.table({"n": [1]})
    assert re.search(said, refusal(few, filter), re.IGNORECASE)
    # The next one is none the worse for it, and nothing was written.
    assert matching(few, "n = 2") == [1]
    assert not [*tmp_path.iterdir()]
    assert secret.num_rows == 1


def test_unknown_fields_name_the_nearest():
    rows = table({"Year": 1, **{f"field{number}": 1 for number in range(20)}})
    said = refusal(rows, "yaer > 2000")
    assert said.startswith(
        """The filter 'yaer > 2000' names "yaer", which is no field; perhaps "Year" is meant; """
    )
    assert "there are id, title, source, language, Year, field0" in said
    assert "field6 and 13 more" in said
    assert "texts stand in single quotes" in refusal(rows, 'title = "abc"')


def test_path_prefix():
    sources = ["docs/a", "docs/a/x.md", "docs/ab.md", "./docs/a/y.md", "", "Docs/a"]
    rows = table(*[{}] * len(sources), sources=sources)
    for prefix in ("docs/a", "docs/a/", "./docs/a", "././docs/a//"):
        assert matching(rows, path_prefix=prefix) == [0, 1, 3]
    assert matching(rows, path_prefix="docs") == [0, 1, 2, 3]
    assert matching(rows, path_prefix="docs/a/x.md") == [1]
    assert matching(rows, path_prefix="docs/a.*") == []
    assert matching(rows, path_prefix="./") == matching(rows, path_prefix=".") == [*range(6)]
    for prefix in ("", " ", "/docs", 3, "\ud800"):
        assert "give a relative one" in refusal(rows, None, path_prefix=prefix)


def test_ids():
    rows = table({}, {}, {}, ids=["a", "b", "é"])
    assert matching(rows, ids=["é", "a", "a"]) == [0, 2]
    assert matching(rows, ids={"b"}) == [1]
    assert matching(rows, ids=[]) == []
    assert "There is no document 'x' in the index; " in refusal(rows, None, ids=["a", "x"])
    assert "no document 'x' in the index, nor 2 more" in refusal(rows, None, ids=["x", "a", "y", "z"])
    assert "no document '\\ud800' in the index" in refusal(rows, None, ids=["\ud800"])
    assert "give a list" in refusal(rows, None, ids="a")
    assert "give a list" in refusal(rows, None, ids=[1])


def test_all_parts_must_hold():
    rows = table({"n": 1}, {"n": 1}, {"n": 2}, {"n": 1}, sources=["x/a", "y/a", "x/a", "x/b"])
    assert matching(rows, "n = 1", path_prefix="x", ids=["d0", "d1", "d2"]) == [0]
    assert matching(rows) == [0, 1, 2, 3]


@pytest.mark.parametrize("metadata", ["", "[]", "1", "{", '{"a": 1}, {"b": 2}', "[" * 100_000])
def test_damaged_metadata_is_named(metadata):
    good = segment({}, {})
    bad = good.set_column(4, "metadata", pa.array(["{}", metadata], pa.large_string()))
    with pytest.raises(IndexDamaged, match="metadata of the document 'd1' is not a JSON object"):
        MetadataTable([bad])


def test_metadata_is_parsed_once(monkeypatch):
    rows = table({"n": 1, "f": [1, 2.5]}, {"n": "x"})
    assert matching(rows, "n = '1' AND f[1] = 1") == [0]
    monkeypatch.setattr("colrank.filters.fields.json", None)
    assert matching(rows, "n = 'x' OR f[2] > 2") == [0, 1]


def test_threads_share_a_table():
    rows = table(*({"n": number} for number in range(100)))
    found: dict[int, list[int]] = {}

    def ask(number: int) -> None:
        for _ in range(5):
            found[number] = matching(rows, "n = ?", [number])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [number] for number in range(8)}


def test_duckdb_is_loaded_with_the_first_filter(monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    rows = table({"n": 1})
    assert matching(rows, path_prefix="a.md", ids=["d0"]) == [0]
    with pytest.raises(ImportError):
        rows.rows(Where("n = 1"))


# Against a plain definition in Python, with NULL as None.

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
floats = st.floats(allow_nan=False, allow_infinity=False)
records = st.fixed_dictionaries(
    {},
    optional={
        "n": st.none() | st.integers(-3, 3),
        "x": st.none() | st.integers(-3, 3) | floats,
        "s": st.none() | texts,
        "b": st.none() | st.booleans(),
        "t": st.none() | st.lists(texts, max_size=3),
    },
)
OPERATORS = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
}


def compared(key, operator, value):
    def predicate(record):
        there = record.get(key)
        return None if there is None else OPERATORS[operator](there, value)

    return f"{key} {operator} ?", [value], predicate


def contained(value):
    return (
        "list_contains(t, ?)",
        [value],
        lambda record: None if record.get("t") is None else value in record["t"],
    )


def missing(key):
    return f"{key} IS NULL", [], lambda record: record.get(key) is None


def negated(part):
    sql, values, predicate = part

    def opposite(record):
        answer = predicate(record)
        return None if answer is None else not answer

    return f"NOT ({sql})", values, opposite


def joined(left, word, right):
    decisive = word == "OR"

    def predicate(record):
        answers = left[2](record), right[2](record)
        if decisive in answers:
            return decisive
        return None if None in answers else not decisive

    return f"({left[0]}) {word} ({right[0]})", left[1] + right[1], predicate


leaves = st.one_of(
    st.builds(compared, st.just("n"), st.sampled_from([*OPERATORS]), st.integers(-3, 3)),
    st.builds(compared, st.just("x"), st.sampled_from([*OPERATORS]), floats),
    st.builds(compared, st.just("s"), st.sampled_from([*OPERATORS]), texts),
    st.builds(compared, st.just("b"), st.sampled_from(["=", "<>"]), st.booleans()),
    st.builds(contained, texts),
    st.builds(missing, st.sampled_from("nxsbt")),
)
predicates = st.recursive(
    leaves,
    lambda inner: st.builds(negated, inner) | st.builds(joined, inner, st.sampled_from(["AND", "OR"]), inner),
    max_leaves=5,
)
EVERY = {"n": 1, "x": 0.5, "s": "a", "b": True, "t": ["a"]}


@settings(deadline=None, max_examples=60)
@given(st.lists(records, max_size=6), predicates)
def test_filters_match_as_python_does(metadata, part):
    sql, values, predicate = part
    metadata = [EVERY, *metadata]
    expected = [row for row, record in enumerate(metadata) if predicate(record)]
    assert matching(table(*metadata), sql, values) == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.dictionaries(texts | st.sampled_from(["a", "A", "Title", "id"]), json_values, max_size=4),
        max_size=5,
    )
)
def test_any_metadata_gives_a_field_for_each_key(metadata):
    rows = table(*metadata)
    keys = list(dict.fromkeys(key for record in metadata for key in record))
    names = [*rows.fields][len(GIVEN) :]
    assert len(names) == len(keys)
    for key, name in zip(keys, names, strict=True):
        quoted = '"' + name.replace('"', '""') + '"'
        there = [row for row, record in enumerate(metadata) if record.get(key) is not None]
        assert matching(rows, f"{quoted} IS NOT NULL") == there
        if name in rows.conflicts and "try_cast" in rows.conflicts[name]:
            for row in there:
                value = metadata[row][key]
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                assert row in matching(rows, f"{quoted} = ?", [text])
