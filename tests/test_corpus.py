"""Reading whole corpora, packed files, and records from memory."""

import datetime
import gzip
import json
from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest

from colrank.config import FieldNames
from colrank.corpus import CorpusFile, document_from_record, find_files, read_corpus, read_file
from colrank.errors import CorpusError, InputError
from colrank.types import Document, Problems

CUT = "files cut short"


def from_record(record, problems=None, strict=False):
    return document_from_record(
        record,
        FieldNames(),
        where="record 3",
        fallback_id="memory:3",
        source="",
        problems=Problems() if problems is None else problems,
        strict=strict,
    )


def test_a_folder_of_everything(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "a.md").write_text("# A\nalpha")
    (tmp_path / "c" / "b.jsonl").write_text('{"id": 1, "text": "one"}\n{"id": 2, "text": ""}\n')
    (tmp_path / "c" / "d.csv").write_text("id,text\n3,three\n")
    (tmp_path / "c" / "e.txt.gz").write_bytes(gzip.compress(b"epsilon"))
    (tmp_path / "c" / "f.pdf").write_bytes(b"%PDF")
    problems, steps = Problems(), []
    found = list(read_corpus([tmp_path / "c"], FieldNames(), problems, on_bytes=steps.append))
    assert [(document.id, document.text, document.source) for document in found] == [
        ("c/a.md", "alpha", "c/a.md"),
        ("1", "one", "c/b.jsonl"),
        ("3", "three", "c/d.csv"),
        ("c/e.txt.gz", "epsilon", "c/e.txt.gz"),
    ]
    assert problems.sentences() == [
        "1 files of an unknown type skipped: c/f.pdf",
        "1 empty documents skipped: 2 (c/b.jsonl line 2)",
    ]
    assert sum(steps) == sum(path.stat().st_size for path in (tmp_path / "c").glob("*.[!p]*"))


def test_paths_are_looked_for_at_once(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_corpus([tmp_path / "nowhere"], FieldNames(), Problems())


def test_strict_raises_where_the_fault_is(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "one"}\n{"id": 2}\n')
    documents = read_corpus([tmp_path / "a.jsonl"], FieldNames(), Problems(), strict=True)
    assert next(documents).id == "1"
    with pytest.raises(
        CorpusError, match=r"a\.jsonl line 2 has neither a text nor a title field; name yours"
    ):
        next(documents)


@pytest.mark.parametrize("name", ["a.txt", "a.parquet"])
def test_file_that_cannot_be_opened_is_counted(tmp_path, name):
    file = CorpusFile(tmp_path / name, name, 7)
    problems, steps = Problems(), []
    assert list(read_file(file, FieldNames(), problems, on_bytes=steps.append)) == []
    assert problems.sentences() == [f"1 files that cannot be read skipped: {name}"]
    assert steps == [7]
    with pytest.raises(CorpusError, match="cannot be read"):
        list(read_file(file, FieldNames(), Problems(), strict=True))


RECORDS = [(str(i), f"text {i} " + "y" * (i % 50)) for i in range(20_000)]
PACKED = {
    "c.jsonl.gz": "".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in RECORDS),
    "c.csv.gz": "id,text\n" + "".join(f'{id},"{text}"\n' for id, text in RECORDS),
    "c.tsv.gz": "".join(f"{id}\t{text}\n" for id, text in RECORDS),
}


def read_packed(tmp_path, name, content, **options):
    (tmp_path / name).write_bytes(content)
    problems, steps = Problems(), []
    [file] = find_files([tmp_path / name], problems)
    found = list(read_file(file, FieldNames(), problems, on_bytes=steps.append, **options))
    assert sum(steps) == len(content)
    return found, problems


@pytest.mark.parametrize("name", PACKED)
def test_gzip_is_unpacked(tmp_path, name):
    content = gzip.compress(PACKED[name].encode())
    found, problems = read_packed(tmp_path, name, content)
    assert [(document.id, document.text) for document in found] == RECORDS
    assert not problems


def test_gzip_of_several_members(tmp_path):
    lines = PACKED["c.tsv.gz"].encode()
    found, problems = read_packed(
        tmp_path, "c.tsv.gz", gzip.compress(lines[:1000]) + gzip.compress(lines[1000:])
    )
    assert len(found) == len(RECORDS)
    assert not problems


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("keep", [0.001, 0.5, 0.999])
def test_gzip_cut_short_gives_the_whole_records_before_the_cut(tmp_path, name, keep):
    content = gzip.compress(PACKED[name].encode())
    found, problems = read_packed(tmp_path, name, content[: max(20, int(len(content) * keep))])
    assert [(document.id, document.text) for document in found] == RECORDS[: len(found)]
    assert len(found) > len(RECORDS) * (keep - 0.1)
    assert len(found) < len(RECORDS)
    assert problems.names(CUT) == [name]
    assert set(problems.kinds()) <= {CUT, "rows with a broken quote skipped"}


def test_small_gzip_cut_short_still_counts_its_faults(tmp_path):
    lines = b'{"id": 1, "text": "a"}\nbroken\n{"id": 2, "text": "b"}\n{"id": 3, "te'
    found, problems = read_packed(tmp_path, "c.jsonl.gz", gzip.compress(lines)[:-6])
    assert [document.id for document in found] == ["1", "2"]
    assert problems.sentences() == [
        f"1 {CUT}: c.jsonl.gz",
        "1 records that are not JSON objects skipped: c.jsonl.gz line 2",
    ]


def test_quote_open_where_a_gzip_is_cut_swallows_no_garbage(tmp_path):
    lines = b'id,text\n1,a\n2,"one\nx,y\nx,y\nx,'
    found, problems = read_packed(tmp_path, "c.csv.gz", gzip.compress(lines)[:-6])
    assert [document.id for document in found] == ["1"]
    assert problems.names("rows with a broken quote skipped") == ["c.csv.gz line 3"]


@pytest.mark.parametrize("name", ["c.txt.gz", "c.md.gz", "c.html.gz"])
def test_text_cut_short_is_kept_up_to_the_cut(tmp_path, name):
    content = gzip.compress("é".encode() * 5 + b"\xc3")[:-8]
    found, problems = read_packed(tmp_path, name, content)
    assert [document.text for document in found] == ["é" * 5]
    assert problems.kinds() == [CUT]
    with pytest.raises(CorpusError, match=r"gz ends in the middle or is corrupt"):
        read_packed(tmp_path, name, content, strict=True)


@pytest.mark.parametrize("content", [b"not gzip", b"\x1f\x8b"])
def test_what_is_not_gzip_is_counted(tmp_path, content):
    found, problems = read_packed(tmp_path, "c.txt.gz", content)
    assert found == []
    assert problems.sentences() == [f"1 {CUT}: c.txt.gz"]


def test_text_is_streamed(tmp_path):
    (tmp_path / "c.jsonl").write_text(PACKED["c.jsonl.gz"])
    steps: list[int] = []
    documents = read_corpus([tmp_path / "c.jsonl"], FieldNames(), Problems(), on_bytes=steps.append)
    next(documents)
    assert sum(steps) < (tmp_path / "c.jsonl").stat().st_size / 2


def test_record_from_memory():
    record = {"id": np.int64(4), "text": "x", "title": None, "score": np.float32(0.5), "tags": ("a", {"b"})}
    assert from_record(record) == Document("4", "x", "", {"score": 0.5, "tags": ["a", ["b"]]}, "")


def test_record_from_memory_without_an_id():
    problems = Problems()
    assert from_record({"text": "x"}, problems) == Document("memory:3", "x")
    assert problems.names("records without an id, which were given one") == ["record 3"]
    with pytest.raises(CorpusError, match="record 3 has no id"):
        from_record({"text": "x"}, strict=True)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.datetime64("2020-01-02"), "2020-01-02"),
        (np.datetime64("NaT"), None),
        (np.bool_(True), True),
        (datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC), "2020-01-02T00:00:00+00:00"),
        (Decimal("NaN"), None),
        ({1: bytearray(b"a")}, {"1": "YQ=="}),
    ],
)
def test_metadata_from_memory_is_plain(value, plain):
    document = from_record({"id": "a", "text": "x", "m": value})
    assert document.metadata == {"m": plain}
    json.dumps(document.metadata, allow_nan=False)


def test_metadata_that_holds_itself_is_counted():
    record: dict[str, object] = {"id": "a", "text": "x"}
    record["self"] = record
    problems = Problems()
    assert from_record(record, problems) is None
    assert problems.names("records nested too deeply skipped") == ["record 3"]
