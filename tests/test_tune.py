"""Tuning of the prefilter, and what the index keeps of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from test_codec import clustered

from colrank import ColRank
from colrank.cli.main import main
from colrank.config import SearchConfig, StorageConfig
from colrank.errors import InputError
from colrank.index import Knobs
from colrank.prefilter import default_plan
from colrank.tune import PRUNES, drawn_texts, drawn_vectors
from colrank.types import Hits


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> ColRank:
    rng = np.random.default_rng(0)
    vectors = clustered(rng, 6000, 16)
    made = ColRank.create(tmp_path_factory.mktemp("tune") / "i", model=None, bits=2)
    made.add_embeddings([f"d{at}" for at in range(300)], np.split(vectors, 300))
    return made


def queries(count: int = 12) -> list[np.ndarray]:
    return np.split(clustered(np.random.default_rng(1), 6 * count, 16), count)


def test_the_best_setting_is_the_fastest_that_reaches_the_recall(index: ColRank):
    found = index.tune(0.95, 10, queries=queries())
    assert found.best is not None
    assert found.queries == 12
    assert not found.drawn
    reached = [trial for trial in found.trials if trial.recall >= 0.95]
    assert found.best.milliseconds == min(trial.milliseconds for trial in reached)
    # The recall it reports is the one a search with these settings has.
    full = index.search(queries(), 10, scan="always")
    best = index.search(
        queries(),
        10,
        scan="never",
        nprobe=found.best.nprobe,
        shortlist=found.best.shortlist,
        prune=found.best.prune,
    )
    shares = [len({h.id for h in a} & {h.id for h in b}) / 10 for a, b in zip(full, best, strict=True)]
    assert found.best.recall == pytest.approx(np.mean(shares), abs=1e-12)
    assert found.table.column_names == ["nprobe", "shortlist", "prune", "recall", "milliseconds"]


def test_stored_settings_are_kept_and_used(tmp_path: Path):
    vectors = np.split(clustered(np.random.default_rng(2), 2000, 16), 100)
    made = ColRank.create(tmp_path / "i", model=None, bits=2)
    made.add_embeddings([f"d{at}" for at in range(100)], vectors)
    before = made.snapshot.manifest
    found = made.tune(0.5, 5, queries=queries(4), store=True)
    opened = ColRank.open(tmp_path / "i")
    assert found.best is not None
    kept = Knobs(found.best.nprobe, found.best.shortlist, found.best.prune, 5)
    assert opened.snapshot.manifest.knobs == kept
    assert opened.snapshot.manifest.generation == before.generation + 1
    assert opened.snapshot.manifest.segments == before.segments
    assert opened.stats()["search"]["nprobe"] == found.best.nprobe
    # They outlive a later add, and an explicit setting goes before them.
    opened.add_embeddings(["new"], [vectors[0]])
    assert ColRank.open(tmp_path / "i").snapshot.manifest.knobs == kept
    assert len(opened.search(queries(1)[0], 5, scan="never", nprobe=1000, shortlist=1000)) == 5


def test_drawn_queries_are_pieces_of_passages(index: ColRank, tmp_path: Path):
    drawn = drawn_vectors(index.snapshot, 20)
    assert len(drawn) == 20
    held = index.snapshot.codec.turn_back(index.snapshot.contents.vectors.read(0, 6000))
    for query in drawn:
        assert (query @ held.T).max(axis=1) == pytest.approx(np.linalg.norm(query, axis=1) ** 2, abs=0.03)
    assert index.tune(0.9, 3, drawn=8).drawn
    made = ColRank.create(tmp_path / "i", model=None)
    made.add_embeddings(["a", "b"], [np.eye(4), np.eye(4)], texts=["one two three four", "two words"])
    assert drawn_texts(made.snapshot, 9) == ["one two three four"]


RUNES = "\u16a0\u16a1\u16a2"
"""No token of it is known to the embedded model."""


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> ColRank:
    """Every third document is of unknown tokens only; every fourth begins with them."""
    made = ColRank.create(tmp_path_factory.mktemp("tune") / "texts", bits=2, device="cpu")
    documents = []
    for row in range(24):
        known = f"The {row} bicycles are stored in the loft of number {row + 100} until spring"
        held = " ".join([RUNES] * 5) if row % 3 == 0 else f"{RUNES} {known}" if row % 4 == 0 else known
        documents.append({"id": f"d{row}", "text": held})
    made.add(documents)
    return made


def test_passages_that_the_model_cannot_read_are_not_drawn(texts: ColRank, monkeypatch):
    every = drawn_texts(texts.snapshot, 99)
    assert len(every) == 24
    readable = [text for text in every if set(text.split()) != {RUNES}]
    assert len(readable) == 16
    encoder = texts.encoder
    assert drawn_texts(texts.snapshot, 99, lambda: encoder) == readable
    assert drawn_texts(texts.snapshot, 5, lambda: encoder) == readable[:5]
    found = texts.tune(0.5, 3, drawn=10)
    assert (found.queries, found.drawn) == (10, True)
    # The words of a prompt, which the model does know, make no passage readable.
    monkeypatch.setattr(encoder, "_document_prompt", "a text to search: ")
    assert drawn_texts(texts.snapshot, 99, lambda: encoder) == readable


def test_where_no_passage_can_be_read_vectors_are_drawn(texts: ColRank, tmp_path: Path):
    made = ColRank.create(tmp_path / "i", bits=2, device="cpu")
    made._encoder = texts.encoder  # loading it once more would only take time
    made.add([{"id": f"d{row}", "text": " ".join([RUNES] * (3 + row))} for row in range(12)])
    assert len(drawn_texts(made.snapshot, 99)) == 12
    assert drawn_texts(made.snapshot, 99, lambda: made.encoder) == []
    found = made.tune(0.5, 3, drawn=6)
    assert (found.queries, found.drawn) == (6, True)


def test_texts_are_drawn_without_a_model_where_there_are_none(index: ColRank):
    def absent() -> None:
        raise AssertionError("the model was asked for")

    assert drawn_texts(index.snapshot, 9, absent) == []  # type: ignore[arg-type]


def test_a_recall_that_only_rounding_would_reach_is_not_reached(index: ColRank, monkeypatch):
    """25,000 wanted passages of which one is missed: .99996, which four decimals make 1."""
    from colrank import tune

    class Hit(NamedTuple):
        id: str

    rows = [[f"d{at}" for at in range(1000)] for _ in range(25)]
    missed = [[*rows[0][:-1], "none"], *rows[1:]]

    def search(snapshot, queries, *, k, config):
        given = rows if config.scan == "always" else missed
        return [Hits([Hit(name) for name in held], timings={"scan": 0.001}) for held in given]

    monkeypatch.setattr(tune, "search", search)
    monkeypatch.setattr(tune, "NPROBES", (2, 4))
    found = tune.tune(index.snapshot, [None] * 25, k=1000, recall=1.0)
    assert found.best is None
    assert {trial.recall for trial in found.trials} == {0.99996}
    # 300 passages leave one length of the shortlist; none reached the recall, so that nothing was pruned.
    assert len(found.trials) == 2
    found = tune.tune(index.snapshot, [None] * 25, k=1000, recall=0.99996)
    assert found.best is not None
    assert len(found.trials) == 2 * (1 + len(PRUNES))


def test_impossible_wishes_are_one_sentence(index: ColRank, tmp_path: Path):
    for recall in (0, -1, 1.01, float("nan"), "0.9", True, None, 10**400):
        with pytest.raises(InputError, match="recall is"):
            index.tune(recall, queries=queries(1))
    with pytest.raises(InputError, match="no query"):
        index.tune(0.9, queries=[])
    with pytest.raises(InputError, match="drawn is 0"):
        index.tune(0.9, drawn=0)
    small = ColRank.create(tmp_path / "i", model=None)
    small.add_embeddings(["a"], [np.eye(4)])
    with pytest.raises(InputError, match="without centroids"):
        small.tune(0.9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nprobe": 0}, "nprobe is 0"),
        ({"shortlist": -1}, "shortlist is -1"),
        ({"prune": 1.5}, "prune is 1.5"),
        ({"prune": -2}, "prune is -2"),
        ({"scan": "sometimes"}, "scan is 'sometimes'"),
        ({"nprobe": 2.0}, "nprobe is 2.0"),
        ({"nprobe": "2"}, "nprobe is '2'"),
        ({"shortlist": True}, "shortlist is True"),
        ({"shortlist": np.float64(8)}, "shortlist is .*8"),
        ({"prune": "0.5"}, "prune is '0.5'; it is a similarity"),
        ({"prune": float("nan")}, "prune is nan"),
        ({"prune": True}, "prune is True"),
        ({"prune": [0.5]}, r"prune is \[0.5\]"),
    ],
)
def test_search_settings_out_of_range_are_named(index: ColRank, options: dict, said: str):
    with pytest.raises(InputError, match=said):
        index.search(queries(1)[0], 3, **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bits": 3}, "bits is 3"),
        ({"bits": 0}, "bits is 0"),
        ({"bits": True}, "bits is True"),
        ({"pool": 0}, "pool is 0"),
        ({"pool": 17}, "pool is 17"),
        ({"pool": 1.5}, "pool is 1.5"),
        ({"kind": "pq"}, "kind is 'pq'"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1.0}, "seed is 1.0"),
        ({"seed": None}, "seed is None"),
        ({"seed": np.int64(2**31)}, "seed is .*2147483648"),
        ({"bits": 2.0}, "bits is 2.0"),
        ({"bits": np.float32(4)}, "bits is .*4"),
        ({"bits": "4"}, "bits is '4'; choose one of 1, 2"),
        ({"bits": np.int64(3)}, "bits is .*3"),
        ({"pool": "2"}, "pool is '2'"),
        ({"pool": True}, "pool is True"),
    ],
)
def test_storage_settings_out_of_range_are_named(tmp_path: Path, options: dict, said: str):
    with pytest.raises(InputError, match=said):
        ColRank.create(tmp_path / "i", model=None, **options)
    assert not (tmp_path / "i").exists()


def test_settings_of_numpy_are_held_as_plain_numbers():
    storage = StorageConfig(bits=np.int64(4), pool=np.uint8(2), seed=np.int32(7))  # type: ignore[arg-type]
    assert (storage.bits, storage.pool, storage.seed) == (4, 2, 7)
    assert {type(value) for value in (storage.bits, storage.pool, storage.seed)} == {int}
    chosen = SearchConfig("never", np.int64(3), np.uint16(9), np.float64(0.5))  # type: ignore[arg-type]
    assert chosen == SearchConfig("never", 3, 9, 0.5)
    assert [type(value) for value in (chosen.nprobe, chosen.shortlist, chosen.prune)] == [int, int, float]
    assert type(SearchConfig(prune=-1).prune) is float
    assert SearchConfig() == SearchConfig("auto", None, None, None)
    assert StorageConfig().bits is None


def test_more_hits_take_a_wider_look():
    assert default_plan(1).shortlist >= 1
    widths = [default_plan(k) for k in (1, 10, 100, 1000)]
    assert [plan.shortlist for plan in widths] == sorted(plan.shortlist for plan in widths)
    assert all(plan.shortlist >= k for plan, k in zip(widths, (1, 10, 100, 1000), strict=True))


def test_the_command_prints_trials_and_stores(index: ColRank):
    run = CliRunner().invoke(
        main, ["tune", "--index", str(index.path), "--recall", "0.9", "-k", "3", "--drawn", "6", "--json"]
    )
    assert run.exit_code == 0, run.output
    records = [json.loads(line) for line in run.output.splitlines()]
    assert sum(record["best"] for record in records) == 1
    run = CliRunner().invoke(
        main, ["tune", "--index", str(index.path), "--recall", "0.9", "-k", "3", "--drawn", "6", "--store"]
    )
    assert run.exit_code == 0, run.output
    assert "Stored in the index" in run.output
    assert "drawn from the passages" in " ".join(run.output.split())
