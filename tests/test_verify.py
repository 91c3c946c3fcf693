"""`verify` names what is broken and where; whatever is broken, nothing crashes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from crashes import vectors_of

from colrank import ColRank
from colrank.errors import ColRankError, IndexDamaged, IndexMissing
from colrank.index import verify
from colrank.index.codec_files import checksums
from colrank.index.generations import read_manifest


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of three segments with deletions, codes and pooling."""
    folder = tmp_path_factory.mktemp("whole") / "i"
    index = ColRank.create(folder, model=None, bits=2, pool=2, centroids=8)
    index.add_embeddings(
        [f"a{n}" for n in range(20)],
        [vectors_of(n) for n in range(20)],
        metadata=[{"n": n} for n in range(20)],
    )
    index.add_embeddings([f"b{n}" for n in range(12)], [vectors_of(50 + n, 5) for n in range(12)])
    index.add_embeddings(["c", "a1"], [vectors_of(90), vectors_of(91)], texts=["c", "año"])
    index.delete(["a2", "b3"])
    assert [entry.deletions is not None for entry in index.snapshot.manifest.segments] == [True, True, False]
    return folder


@pytest.fixture
def index(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "i"))


def parts(folder: Path) -> list[str]:
    manifest = read_manifest(folder)
    assert manifest.codec is not None
    return [entry.name for entry in manifest.segments] + [manifest.codec.name]


def signed_again(folder: Path) -> None:
    """Let the manifest say the sizes and checksums that the files have now."""
    manifest = read_manifest(folder)
    path = folder / f"manifest-{manifest.generation:08d}.json"
    body = json.loads(path.read_text())
    held = [*body["segments"], body["codec"], *(s["deletions"] for s in body["segments"] if s["deletions"])]
    for part in held:
        found = checksums(folder / part["name"])
        part["files"] = {name: {"bytes": size, "xxh3": hash_} for name, (size, hash_) in found.items()}
    rewritten(path, body)


def rewritten(path: Path, body: dict[str, Any]) -> None:
    import xxhash

    body.pop("checksum", None)
    body["checksum"] = xxhash.xxh3_128_hexdigest(json.dumps(body, sort_keys=True).encode())
    path.write_text(json.dumps(body))


def changed(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write an Arrow file again, changed."""
    table = change(pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all())
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def column(name: str, at: int, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        values = table.column(name).to_pylist()
        values[at] = value(values[at]) if callable(value) else value
        place = table.schema.get_field_index(name)
        return table.set_column(
            place, table.schema.field(name), pa.array(values, table.schema.field(name).type)
        )

    return change


def test_a_whole_index_has_no_fault(index: Path):
    found = verify(index)
    assert (found.faults, found.strays) == ((), ())
    assert (found.segments, found.documents, found.passages) == (3, 31, 31)
    assert found.tokens == read_manifest(index).live_tokens
    held = [path for path in index.rglob("*") if path.is_file() and path.name != "colrank.lock"]
    assert found.files == len(held)
    assert found.bytes == sum(path.stat().st_size for path in held)
    assert ColRank.open(index, check_reads=True).verify() == found


def test_a_folder_without_an_index_is_an_error(tmp_path: Path):
    with pytest.raises(IndexMissing):
        verify(tmp_path)


def test_strays_are_named_and_no_fault(index: Path):
    (index / "note.txt").write_text("mine")
    (index / parts(index)[0] / "old.arrow").write_text("")
    found = verify(index)
    assert found.faults == ()
    assert found.strays == ("note.txt", f"{parts(index)[0]}/old.arrow")


@pytest.mark.parametrize("file", ["documents.arrow", "codes-00000.arrow", "postings.arrow", "ids.arrow"])
def test_a_flipped_bit_is_found_by_the_checksum(index: Path, file: str):
    path = index / parts(index)[1] / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    faults = [str(fault) for fault in verify(index).faults]
    assert f"{parts(index)[1]}/{file}: has another checksum than the manifest says" in faults
    with pytest.raises(IndexDamaged, match=f"{file} has another checksum"):
        ColRank.open(index, check_reads=True)


def test_faults_of_one_segment_hide_none_of_another(index: Path):
    first, second, _, codec = parts(index)
    (index / first / "ids.arrow").unlink()
    (index / second / "passages.arrow").write_bytes(b"short")
    (index / codec / "levels.arrow").write_bytes(b"")
    files = {fault.file for fault in verify(index).faults}
    assert files >= {f"{first}/ids.arrow", f"{second}/passages.arrow", f"{codec}/levels.arrow"}


@pytest.mark.parametrize(
    ("part", "file", "change", "sentence"),
    [
        (0, "ids.arrow", column("row", 3, lambda row: (row + 1) % 20), "does not lead from"),
        (0, "ids.arrow", column("hash", 0, 7), "does not lead from"),
        (0, "documents.arrow", column("id", 4, "b1"), "holds too"),
        (0, "documents.arrow", column("id", 4, ""), "has no id"),
        (0, "documents.arrow", column("metadata", 5, "[1]"), "no JSON object"),
        (0, "documents.arrow", column("language", 5, "xx"), "languages"),
        (0, "frequencies.arrow", lambda t: t.replace_schema_metadata({"passages": "9"}), "counts 9 passages"),
        (1, "postings.arrow", column("passage", 0, lambda row: row + 1), "postings.arrow"),
        (1, "codes-00000.arrow", column("centroid", 0, 200), "names centroid 200"),
        (1, "codes-00000.arrow", column("centroid", 0, lambda c: (c + 1) % 8), "postings.arrow"),
        (0, "pooling.arrow", column("labels", 0, lambda labels: [9, *labels[1:]]), "does not fit the tokens"),
        (0, "pooling.arrow", column("unpooled", 0, 2), "pooling.arrow"),
        (0, "passages.arrow", column("document", 0, 5), "do not fit each other"),
        (0, "offsets.arrow", column("token_offset", 3, 10_000), "do not fit"),
    ],
)
def test_tables_that_do_not_fit_are_found_though_their_checksums_do(
    index: Path, part: int, file: str, change: Callable[[pa.Table], pa.Table], sentence: str
):
    changed(index / parts(index)[part] / file, change)
    signed_again(index)
    faults = [str(fault) for fault in verify(index).faults]
    assert any(sentence in fault for fault in faults), faults
    used(index)


def test_deletions_that_do_not_fit_are_found(index: Path):
    manifest = read_manifest(index)
    deletions = manifest.segments[0].deletions
    assert deletions is not None
    for at, other in ((2, 3), (1, 4)):
        changed(index / deletions.name / "deleted.arrow", column("deleted", at, False))
        changed(index / deletions.name / "deleted.arrow", column("deleted", other, True))
    signed_again(index)
    # a1 lives in the third segment too.
    assert any("'a1', which" in str(fault) for fault in verify(index).faults)
    path = index / f"manifest-{manifest.generation:08d}.json"
    body = json.loads(path.read_text())
    body["segments"][0]["deletions"]["tokens"] -= 1
    rewritten(path, body)
    assert any("other passages than the manifest says" in str(fault) for fault in verify(index).faults)


def test_a_damaged_manifest_is_a_fault(index: Path):
    path = index / f"manifest-{read_manifest(index).generation:08d}.json"
    path.write_text(path.read_text().replace('"dim": 16', '"dim": 17'))
    (fault,) = verify(index).faults
    assert fault.file == path.name
    assert "checksum does not fit" in fault.sentence


def used(folder: Path) -> None:
    """Open, search, explain and count; only errors of colrank may come of it."""
    with suppress(ColRankError):
        opened = ColRank.open(folder)
        opened.stats()
        for scan in ("always", "never"):
            with suppress(ColRankError):
                hits = opened.search(vectors_of(1), 5, scan=scan)
                for hit in hits:
                    opened.explain(vectors_of(2), hit)
        with suppress(ColRankError):
            opened.search(vectors_of(3), ids=["a5"], filter="n > 2")
    verify(folder)


def test_random_damage_is_found_and_never_crashes(whole: Path, tmp_path: Path):
    random = np.random.default_rng(0)
    manifest = read_manifest(whole)
    files = [whole / part / name for part, held in manifest.parts.items() for name in held]
    for turn in range(40):
        folder = tmp_path / "hurt"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        hurt = folder / files[int(random.integers(len(files)))].relative_to(whole)
        content = bytearray(hurt.read_bytes())
        kind = turn % 4
        if kind == 0:
            content[int(random.integers(len(content)))] ^= 1 << int(random.integers(8))
            hurt.write_bytes(content)
        elif kind == 1:
            hurt.write_bytes(content[: int(random.integers(len(content)))])
        elif kind == 2:
            content[int(random.integers(len(content)))] ^= 1 << int(random.integers(8))
            hurt.write_bytes(content)
            with suppress(ColRankError):
                signed_again(folder)
        else:
            hurt.unlink()
        used(folder)
        # With checksums made again, what no table contradicts is a valid index.
        assert verify(folder).faults or kind == 2, hurt


def test_the_command_line_says_what_is_broken(index: Path):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "colrank", "verify", "--index", str(index), *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )

    done = run()
    assert done.returncode == 0
    assert done.stdout.endswith("All of it is whole.\n")
    (index / parts(index)[0] / "postings.arrow").write_bytes(b"")
    done = run()
    assert done.returncode == 2
    assert f"Broken: {parts(index)[0]}/postings.arrow: has 0 bytes and the manifest says" in done.stdout
    told = json.loads(run("--json").stdout)
    assert told["faults"][0]["file"] == f"{parts(index)[0]}/postings.arrow"
