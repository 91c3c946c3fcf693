"""An index that lives, by random updates, held against a dictionary and brute force."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from colrank import ColRank
from colrank.builder import due
from colrank.builder.compaction import SEGMENTS_OF_A_CLASS
from colrank.errors import InputError
from colrank.index import DeletionEntry, Manifest, SegmentEntry

DIM = 12
NAMES = [f"d{number}" for number in range(12)]


def unit(random: np.random.Generator, tokens: int) -> np.ndarray:
    """Unit vectors `[tokens, DIM]` that float16 holds exactly up to rounding."""
    vectors = random.standard_normal((tokens, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def brute_force(index: ColRank, held: dict[str, np.ndarray], query: np.ndarray) -> list[tuple[str, float]]:
    """All documents by MaxSim over what the index's codec makes of their vectors, ties by id."""
    codec = index.snapshot.codec
    kind = np.float32 if index.snapshot.manifest.bits == 32 else np.float16
    turned = codec.turn(query).astype(np.float64)
    found = []
    for name, vectors in held.items():
        stored = vectors.astype(kind)
        decoded = codec.decode(codec.encode(stored)).astype(np.float64)
        found.append((-np.float32((turned @ decoded.T).max(axis=1).sum()), name))
    return [(name, float(-score)) for score, name in sorted(found)]


class Life(RuleBasedStateMachine):
    """Random updates of one index; after each it must answer as a dictionary of vectors does."""

    bits: int | None = 32

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.held: dict[str, np.ndarray] = {}
        self.random = np.random.default_rng(0)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize(seed=st.integers(0, 1 << 16))
    def begin(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.index = ColRank.create(self.folder / "i", model=None, bits=self.bits)
        # Enough tokens that the codec, trained on these, is not trained again by the additions below.
        first = {f"first{number}": unit(self.random, 40) for number in range(8)}
        self.index.add_embeddings(list(first), list(first.values()))
        self.held |= first

    @rule(names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), tokens=st.integers(1, 6))
    def add(self, names: list[str], tokens: int) -> None:
        arrays = [unit(self.random, tokens) for _ in names]
        before = set(self.held)
        report = self.index.add_embeddings(names, arrays)
        self.held |= dict(zip(names, arrays, strict=True))
        assert report.replaced == len(before & set(names))
        assert report.added == len(set(names) - before)

    @precondition(lambda self: len(self.held) > 1)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        names = data.draw(st.sets(st.sampled_from(sorted(self.held)), min_size=1, max_size=3))
        assert sorted(self.index.delete(sorted(names))) == sorted(names)
        for name in names:
            del self.held[name]

    @rule()
    def delete_what_is_not_there(self) -> None:
        with pytest.raises(InputError, match="'nowhere'"):
            self.index.delete(["nowhere"])

    @rule()
    def compact(self) -> None:
        self.index.compact()
        assert len(self.index.snapshot.manifest.segments) == min(1, len(self.held))
        assert all(entry.deletions is None for entry in self.index.snapshot.manifest.segments)

    @rule()
    def reopen(self) -> None:
        self.index = ColRank.open(self.folder / "i")

    @rule(name=st.sampled_from(NAMES))
    def another_writes(self, name: str) -> None:
        vectors = unit(self.random, 3)
        ColRank.open(self.folder / "i").add_embeddings([name], [vectors])
        self.held[name] = vectors
        assert self.index.refresh()
        assert not self.index.refresh()

    @invariant()
    def answers_as_the_dictionary(self) -> None:
        if not hasattr(self, "index"):
            return
        query = unit(self.random, 3)
        wanted = brute_force(self.index, self.held, query)
        assert len(self.index) == len(self.held)
        found = [(hit.document, hit.score) for hit in self.index.search(query, 100, scan="always")]
        assert found == [(name, pytest.approx(score, abs=1e-6)) for name, score in wanted]
        assert [hit.document for hit in self.index.search(query, 3, scan="always")] == [
            name for name, _ in wanted[:3]
        ]
        counts = self.index.snapshot.contents.counts
        assert counts.tokens == sum(map(len, self.held.values()))
        assert due(self.index.snapshot.manifest) is None

    @invariant()
    def no_file_is_left_over(self) -> None:
        if not hasattr(self, "index"):
            return
        manifest = self.index.snapshot.manifest
        names = {path.name for path in (self.folder / "i").iterdir()}
        assert names == {*manifest.parts, f"manifest-{manifest.generation:08d}.json", "colrank.lock"}


class CodedLife(Life):
    """The same with residual codes and a prefilter."""

    bits = 2

    @invariant()
    def the_prefilter_gives_enough_and_the_same_scores(self) -> None:
        if not hasattr(self, "index") or not self.held:
            return
        query = unit(self.random, 2)
        full = {hit.id: hit.score for hit in self.index.search(query, 100, scan="always")}
        found = self.index.search(query, 5, scan="never", nprobe=2, shortlist=5)
        assert len(found) == min(5, len(self.held))
        assert all(full[hit.id] == hit.score for hit in found)


_FEW = settings(
    max_examples=8,
    stateful_step_count=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestLife = Life.TestCase
TestLife.settings = _FEW
TestCodedLife = CodedLife.TestCase
TestCodedLife.settings = _FEW


def test_many_small_updates_leave_few_segments_and_no_rubbish(tmp_path: Path):
    random = np.random.default_rng(1)
    index = ColRank.create(tmp_path / "i", model=None)
    held: dict[str, np.ndarray] = {}
    for number in range(60):
        held[f"n{number}"] = unit(random, 2)
        index.add_embeddings([f"n{number}"], [held[f"n{number}"]])
        assert len(index.snapshot.manifest.segments) < 2 * SEGMENTS_OF_A_CLASS
    for number in range(0, 60, 2):
        index.delete([f"n{number}"])
        del held[f"n{number}"]
    query = unit(random, 2)
    assert [hit.document for hit in index.search(query, 100)] == [
        name for name, _ in brute_force(index, held, query)
    ]
    manifest = index.snapshot.manifest
    # What was deleted takes no more than its share until its segment is written again.
    assert sum(entry.documents for entry in manifest.segments) <= 1.25 * len(held) + 1
    assert {path.name for path in (tmp_path / "i").iterdir()} == {
        *manifest.parts,
        f"manifest-{manifest.generation:08d}.json",
        "colrank.lock",
    }


def test_the_policy_merges_eight_of_a_class_and_what_is_mostly_deleted():
    def segment(number: int, tokens: int, gone: int = 0) -> SegmentEntry:
        deletions = DeletionEntry(f"deleted-{number}", gone, gone, gone, gone, {}, {}) if gone else None
        return SegmentEntry(
            f"segment-{number:08d}", tokens, tokens, tokens, (), {}, {}, tokens, None, deletions
        )

    def chosen(*entries: SegmentEntry) -> list[int] | None:
        plan = due(Manifest(1, 8, segments=entries))
        return None if plan is None else [int(name[-8:]) for name in plan.segments]

    small = [segment(number, 100 * number) for number in range(1, 9)]
    assert chosen(*small) == list(range(1, 9))
    assert chosen(*small[:7], segment(9, 16_384 * 4)) is None
    assert chosen(*small, segment(9, 16_384 * 4)) == list(range(1, 9))
    assert chosen(segment(1, 1000, 200)) is None
    assert chosen(segment(1, 1000, 201), segment(2, 1000)) == [1]
    assert chosen() is None


def test_an_index_grows_from_whole_vectors_to_codes_and_trains_again(tmp_path: Path):
    random = np.random.default_rng(2)
    index = ColRank.create(tmp_path / "i", model=None, bits=2)
    index.add_embeddings(["a"], [unit(random, 100)])
    first = index.snapshot.manifest.codec
    assert first is not None
    index.add_embeddings(["b"], [unit(random, 250)])
    assert index.snapshot.manifest.codec == first
    assert len(index.snapshot.manifest.segments) == 2
    index.delete(["b"])
    # 100 + 299 are less than four times 100; one more is four times as many.
    index.add_embeddings(["c"], [unit(random, 299)])
    assert index.snapshot.manifest.codec == first
    index.add_embeddings(["d"], [unit(random, 1)])
    manifest = index.snapshot.manifest
    assert manifest.codec is not None
    assert manifest.codec != first
    assert manifest.codec.training.tokens == 400
    assert [entry.documents for entry in manifest.segments] == [3]


def test_a_segment_of_other_text_is_said_to_have_drifted(tmp_path: Path):
    random = np.random.default_rng(3)
    centre = np.eye(1, DIM, dtype=np.float32)

    def near(tokens: int) -> np.ndarray:
        vectors = centre + 0.05 * random.standard_normal((tokens, DIM)).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    index = ColRank.create(tmp_path / "i", model=None, bits=1)
    index.add_embeddings([f"a{n}" for n in range(40)], [near(10) for _ in range(40)])
    index.add_embeddings(["b"], [unit(random, 60)])
    first, second = index.stats()["segments"]
    assert not first["drifted"]
    assert second["drifted"]
    assert second["squared_error"] > 1.5 * index.stats()["codec"]["squared_error"]


def test_threads_may_share_a_reader_while_it_moves_on(tmp_path: Path):
    index = ColRank.create(tmp_path / "i", model=None)
    index.add_embeddings(["a", "b"], [np.eye(1, DIM), np.eye(2, DIM)[1:]])
    faults: list[str] = []

    def search() -> None:
        for _ in range(200):
            found = sorted(hit.document for hit in index.search(np.eye(1, DIM), 10))
            if found not in (["a", "b"], ["a", "b", "c"]):
                faults.append(str(found))

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    other = ColRank.open(tmp_path / "i")
    for _ in range(5):
        other.add_embeddings(["c"], [np.eye(1, DIM)])
        index.refresh()
        other.delete(["c"])
        index.refresh()
    for thread in threads:
        thread.join()
    assert faults == []


def test_no_file_of_an_index_names_a_device_or_a_place(tmp_path: Path):
    """So an index that was built on a GPU opens where there is none, wherever it was moved to."""
    index = ColRank.create(tmp_path / "i", device="cpu")
    index.add([{"id": "a", "text": "The guarantee lasts six months."}])
    index.add([{"id": "b", "text": "Otro texto."}])
    index.delete(["a"])
    for path in (tmp_path / "i").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"cuda" not in content
            assert str(tmp_path).encode() not in content
