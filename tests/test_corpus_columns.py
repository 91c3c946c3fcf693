"""Parquet and Arrow files."""

import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from colrank.config import FieldNames
from colrank.corpus import find_files, read_file
from colrank.errors import CorpusError
from colrank.types import Document, Problems

DAMAGED = "damaged files skipped"
KINDS = ["parquet", "file", "stream"]


def write(folder: Path, table: pa.Table, kind: str = "parquet", rows: int = 1000) -> Path:
    if kind == "parquet":
        pq.write_table(table, folder / "c.parquet", row_group_size=rows)
        return folder / "c.parquet"
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with new(str(folder / "c.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return folder / "c.arrow"


def read(path: Path, problems: Problems | None = None, **options: object) -> list[Document]:
    problems = Problems() if problems is None else problems
    [file] = find_files([path], problems)
    return list(read_file(file, FieldNames(), problems, **options))


@pytest.mark.parametrize("kind", KINDS)
def test_columns_become_fields_and_metadata(tmp_path, kind):
    table = pa.table(
        {
            "n": pa.array([1, None, 3]),
            "_id": ["a", "b/ü", "007"],
            "text": ['x\n\t"q"', None, "z"],
            "title": pa.array(["T", "U", None]).dictionary_encode(),
        }
    )
    path = write(tmp_path, table, kind)
    problems = Problems()
    assert read(path, problems) == [
        Document("a", 'x\n\t"q"', "T", {"n": 1}, path.name),
        Document("b/ü", "", "U", {"n": None}, path.name),
        Document("007", "z", "", {"n": 3}, path.name),
    ]
    assert not problems


@pytest.mark.parametrize("kind", KINDS)
def test_many_batches_keep_order_and_report_bytes(tmp_path, kind):
    count = 2500
    table = pa.table({"id": range(0, 2 * count, 2), "text": [f"text {i}" for i in range(count)]})
    path = write(tmp_path, table, kind, rows=700)
    steps: list[int] = []
    found = read(path, on_bytes=steps.append)
    assert [(document.id, document.text) for document in found] == [
        (str(2 * i), f"text {i}") for i in range(count)
    ]
    assert sum(steps) == path.stat().st_size
    assert len(steps) > 2
    assert min(steps) > 0


def test_values_become_what_json_can_hold(tmp_path):
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5, 678)
    columns = {
        "text": ["x"],
        "date": [datetime.date(2020, 1, 2)],
        "time": [datetime.time(3, 4)],
        "moment": [moment],
        "nanoseconds": pa.array([1_577_934_245_000_000_001], pa.timestamp("ns", "UTC")),
        "span": [datetime.timedelta(seconds=90)],
        "distant": pa.array([3_000_000], pa.date32()),
        "bytes": [b"\xff\x00"],
        "price": [Decimal("1.10")],
        "long": [Decimal("12345678901234567890.123")],
        "nan": [float("nan")],
        "half": np.array([1.5], np.float16),
        "nested": [{"list": [1, None, float("inf")], "day": datetime.date(2021, 1, 1)}],
    }
    [document] = read(write(tmp_path, pa.table(columns)))
    assert document.metadata == {
        "date": "2020-01-02",
        "time": "03:04:00",
        "moment": moment.isoformat(),
        "nanoseconds": "2020-01-02T03:04:05+00:00",
        "span": 90.0,
        "distant": "10183-09-21",
        "bytes": "/wA=",
        "price": 1.1,
        "long": "12345678901234567890.123",
        "nan": None,
        "half": 1.5,
        "nested": {"list": [1, None, None], "day": "2021-01-01"},
    }


def test_values_that_python_cannot_hold_are_left_empty(tmp_path):
    days = pa.array([[3_000_000], [0]], pa.list_(pa.date32()))
    problems = Problems()
    found = read(write(tmp_path, pa.table({"id": [1, 2], "text": ["x", "y"], "days": days})), problems)
    assert [document.metadata for document in found] == [{"days": None}, {"days": ["1970-01-01"]}]
    kind = "columns with metadata values left empty"
    assert problems.sentences() == [f"1 {kind}: c.parquet column days"]


def test_ids_and_texts_of_other_types(tmp_path):
    table = pa.table(
        {"id": [3.0, 2.5, None], "text": [b"caf\xc3\xa9", b"y", b"z"], "title": [["a", "b"], [], None]}
    )
    problems = Problems()
    found = read(write(tmp_path, table), problems)
    assert [(document.id, document.title, document.text) for document in found] == [
        ("3", "a\nb", "café"),
        ("c.parquet:2", "", "y"),
        ("c.parquet:3", "", "z"),
    ]
    names = problems.names("records without an id, which were given one")
    assert names == ["c.parquet row 2", "c.parquet row 3"]


@pytest.mark.parametrize("kind", KINDS)
def test_row_that_is_not_utf8_is_skipped_by_row(tmp_path, kind):
    text = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"caf\xe9", b"c"], pa.binary()).buffers())
    path = write(tmp_path, pa.table({"id": ["1", "2", "3"], "text": text}), kind)
    problems = Problems()
    assert [document.text for document in read(path, problems)] == ["a", "c"]
    assert problems.sentences() == [f"1 records that are not UTF-8 skipped: {path.name} row 2"]


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_fields_the_columns_are_named(tmp_path, kind):
    path = write(tmp_path, pa.table({"id": [1], "body": ["x"]}), kind)
    problems = Problems()
    assert read(path, problems) == []
    assert problems.names("files without a text or title field skipped (name yours with --text-field)") == [
        f"{path.name} (columns: id, body)"
    ]
    with pytest.raises(CorpusError, match="has neither a text nor a title field"):
        read(path, strict=True)


@pytest.mark.parametrize("name", ["c.parquet", "c.arrow"])
@pytest.mark.parametrize(
    "content", [b"", b"no such file", b"PAR1", b"ARROW1\0\0", b"PAR1" + bytes(100) + b"PAR1"]
)
def test_damaged_file_is_counted(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    problems = Problems()
    steps: list[int] = []
    assert read(tmp_path / name, problems, on_bytes=steps.append) == []
    assert problems.sentences() == [f"1 {DAMAGED}: {name}"]
    assert sum(steps) == len(content)
    with pytest.raises(CorpusError, match="is damaged"):
        read(tmp_path / name, strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_what_came_before_the_damage_is_kept(tmp_path, kind):
    table = pa.table({"id": range(1200), "text": [f"text {i}" * 20 for i in range(1200)]})
    path = write(tmp_path, table, kind, rows=600)
    content = bytearray(path.read_bytes())
    if kind == "parquet":
        start = pq.read_metadata(path).row_group(1).column(0).file_offset
        start = start or pq.read_metadata(path).row_group(1).column(0).dictionary_page_offset
    else:
        # The first batch alone, written the same way, is as long as what comes before the second.
        (tmp_path / "first").mkdir()
        start = write(tmp_path / "first", table[:600], "stream").stat().st_size
    content[start : start + 200] = b"\xff" * 200
    path.write_bytes(content)
    problems = Problems()
    found = read(path, problems)
    assert [document.id for document in found] == [str(i) for i in range(len(found))]
    assert 512 <= len(found) <= 600
    assert problems.names(DAMAGED) == [f"c.{path.suffix[1:]} after row {len(found)}"]
