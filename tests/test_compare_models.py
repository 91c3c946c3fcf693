"""Several models in one comparison: what is measured against what, and which sets are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from checkpoints import VOCABULARY, native
from click.testing import CliRunner

from colrank import ColRank
from colrank.cli.main import main
from colrank.compare import Comparison
from colrank.compare.models import model_labels
from colrank.compare.variants import read_grid
from colrank.errors import IndexExists, InputError
from colrank.evaluate.intervals import holm, paired

WORDS = [word for word in VOCABULARY if word.isalpha() and len(word) > 2]
OPTIONS: dict[str, Any] = {"grid": {"bits": [2]}, "device": "cpu", "max_loss": 1.0}


class SharedWords:
    """A reranker: the share of the query's words that are in the text."""

    def score(self, query: str, texts: list[str]) -> list[float]:
        words = set(query.split())
        return [len(words & set(text.split())) / len(words) for text in texts]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two models of 16 and 32 dimensions."""
    folder = tmp_path_factory.mktemp("models")
    return [str(native(folder / "narrow")), str(native(folder / "wide", projection=False, seed=1))]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A corpus of random words, queries of a few words each of some documents, and their judgements."""
    folder = tmp_path_factory.mktemp("corpus")
    random = np.random.default_rng(0)
    documents = [" ".join(random.choice(WORDS, 12)) for _ in range(60)]
    lines = [json.dumps({"_id": f"d{at}", "text": text}) for at, text in enumerate(documents)]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    queries = {f"q{at}": " ".join(documents[at].split()[:3]) for at in range(12)}
    lines = [json.dumps({"_id": name, "text": text}) for name, text in queries.items()]
    (folder / "queries.jsonl").write_text("\n".join(lines))
    (folder / "qrels.tsv").write_text("\n".join(f"q{at}\td{at}\t1" for at in range(12)))
    return folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels.tsv"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The cache, and the index that the comparison builds."""
    return tmp_path_factory.mktemp("cache"), tmp_path_factory.mktemp("made") / "index"


@pytest.fixture(scope="module")
def compared(models: list[str], corpus: tuple[Path, Path, Path], places: tuple[Path, Path]) -> Comparison:
    return ColRank.compare(*corpus, model=models, cache=places[0], apply=places[1], **OPTIONS)


def best_documents(index: ColRank, queries: dict[str, str], cut: int) -> list[set[str]]:
    found = index.search(list(queries.values()), cut, by="document", scan="always")
    return [{hit.document for hit in hits} for hits in found]


def test_rows_are_those_of_each_model_by_itself(
    compared: Comparison, models: list[str], corpus: tuple[Path, Path, Path], tmp_path: Path
):
    names = [f"{label}: {variant}" for label in ("narrow", "wide") for variant in ("float32", "2 bits")]
    assert [row.name for row in compared.rows] == names
    assert [row.model for row in compared.rows] == ["narrow", "narrow", "wide", "wide"]
    texts = {record["_id"]: record["text"] for record in map(json.loads, corpus[1].read_text().splitlines())}
    quality, best = {}, {}
    for label, model in zip(("narrow", "wide"), models, strict=True):
        for variant, bits in (("float32", 32), ("2 bits", 2)):
            name = f"{label}: {variant}"
            index = ColRank.create(tmp_path / name, model=model, bits=bits, device="cpu")
            index.add_files(corpus[0])
            assert compared.row(name).bytes == pytest.approx(index.stats()["bytes"]["total"], abs=200)
            judged = index.evaluate(*corpus[1:], scan="always").per_query
            quality[name] = np.array([judged[query]["nDCG@10"] for query in texts])
            best[name] = best_documents(index, texts, 10)
    for row in compared.rows:
        assert row.judged is not None
        assert row.judged["nDCG@10"].mean == pytest.approx(quality[row.name].mean(), abs=1e-9)
        own = best[f"{row.model}: float32"]
        shared = [len(ours & theirs) / 10 for ours, theirs in zip(best[row.name], own, strict=True)]
        assert row.agreement["recall@10"].mean == pytest.approx(np.mean(shared), abs=1e-9)
    exact = ["narrow: float32", "wide: float32"]
    reference = max(exact, key=lambda name: quality[name].mean())
    assert compared.reference == reference
    others = [name for name in names if name != reference]
    expected = {name: paired(quality[reference], quality[name]) for name in names}
    corrected = dict(zip(others, holm([expected[name].p for name in others]), strict=True))
    for row in compared.rows:
        lost = expected[row.name]
        assert (row.loss.mean, row.loss.low, row.loss.high) == pytest.approx(
            (lost.difference, lost.low, lost.high), abs=1e-9
        )
        assert row.p == pytest.approx(corrected.get(row.name, 1.0))
    for name in exact:  # each model's float32 agrees with itself, whichever is the reference
        assert compared.row(name).agreement["recall@100"].mean == 1.0
        assert compared.row(name).rank_correlation == pytest.approx(1.0)


def test_the_corpus_is_told_for_each_model(compared: Comparison):
    assert [(each.label, each.name, each.dim) for each in compared.models] == [
        ("narrow", "narrow", 16),
        ("wide", "wide", 32),
    ]
    assert [each.documents for each in compared.models] == [60, 60]
    assert all(each.encoded for each in compared.models)
    assert compared.row("wide: float32").times_single == pytest.approx(
        compared.row("wide: float32").vector_bytes / (4 * 32 * compared.model("wide").passages)
    )


def test_the_choice_is_over_all_rows_and_built_with_its_model(
    compared: Comparison, places: tuple[Path, Path]
):
    smallest = min(compared.rows, key=lambda row: row.bytes)
    assert compared.recommended == smallest.name == "narrow: 2 bits"
    made = ColRank.open(places[1], device="cpu")
    model = made.snapshot.manifest.model
    assert model is not None
    assert (model.name, model.dim, made.stats()["bits"]) == ("narrow", 16, 2)
    assert len(made.search("the water is cold", k=3)) == 3


def test_other_systems_stand_beside_once_a_model(compared: Comparison):
    assert [(each.name, each.model) for each in compared.baselines] == [
        ("narrow: single vector", "narrow"),
        ("wide: single vector", "wide"),
        ("BM25", "narrow"),
        ("late interaction (narrow: 2 bits)", "narrow"),
    ]
    assert [each.bytes_per_passage for each in compared.baselines[:2]] == [4 * 16, 4 * 32]
    late = compared.baselines[3]
    assert late.quality.mean == pytest.approx(compared.row(late.variant).quality("nDCG@10").mean)


def test_a_comparison_comes_back_from_json(compared: Comparison):
    again = Comparison.from_json(json.loads(json.dumps(compared.to_json())))
    assert again == compared
    assert again.table.column("model").to_pylist() == ["narrow", "narrow", "wide", "wide"]
    assert again.table.column("name").to_pylist() == [row.name for row in compared.rows]


def test_pages_and_pictures_tell_models_apart(compared: Comparison, tmp_path: Path):
    from colrank.compare.plot import picture

    page = compared.to_markdown()
    compared.to_html(tmp_path / "report.html")
    for text in (page, (tmp_path / "report.html").read_text(encoding="utf-8")):
        assert all(row.name in text for row in compared.rows)
        assert "Model wide: 60 passages" in text
        assert "BM25 searches the passages of narrow" in text
        assert f"Losses are against {compared.reference}" in text
        assert "do not compare" not in text
    figure = picture(compared)
    left = figure.subfigs[0].axes[0]
    assert left.get_xlabel().startswith("bytes a passage")
    legend = figure.subfigs[1].texts
    colors = {text.get_text().split("  ")[1].split(":")[0]: text.get_color() for text in legend[:4]}
    assert len(colors) == len(set(colors.values())) == 2
    assert "\u25cf narrow   \u25a0 wide" in legend[-1].get_text()


def test_models_that_split_differently_are_shown_by_document(compared: Comparison):
    from colrank.compare.plot import picture

    narrow, wide = compared.models
    found = replace(compared, models=[narrow, replace(wide, passages=2 * wide.passages)])
    left = picture(found).subfigs[0].axes[0]
    assert left.get_xlabel().startswith("bytes a document")
    assert "bytes a passage do not compare" in found.to_markdown()


def test_all_rows_are_timed_in_turns(
    models: list[str],
    corpus: tuple[Path, Path, Path],
    places: tuple[Path, Path],
    compared: Comparison,
    monkeypatch: pytest.MonkeyPatch,
):
    from colrank.compare import measure

    timed: list[Path] = []

    def searching(snapshot, *arguments, **options):
        timed.append(snapshot.folder)
        return search(snapshot, *arguments, **options)

    search = measure.search
    monkeypatch.setattr(measure, "search", searching)
    monkeypatch.setattr("colrank.encoder.Encoder.encode_passages", None)  # all is in the cache
    found = ColRank.compare(*corpus, model=models, cache=places[0], baselines=False, **OPTIONS)
    assert not any(each.encoded for each in found.models)
    assert [row.loss for row in found.rows] == [row.loss for row in compared.rows]
    turns = [timed[at : at + 4] for at in range(0, len(timed), 4)]
    assert len(turns) == 4 * 12  # a round that does not count and three that do, of twelve queries
    assert all(len(set(turn)) == 4 for turn in turns)


def test_a_reranker_stands_on_top_of_every_system(compared: Comparison, models, corpus, places):
    found = ColRank.compare(*corpus, model=models, cache=places[0], rerank=SharedWords(), **OPTIONS)
    plain = [each.name for each in compared.baselines]
    assert [each.name for each in found.baselines if not each.reranker] == plain
    assert [each.name.partition(" + ")[0] for each in found.baselines if each.reranker] == plain


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": ["NARROW", "NARROW"]}, "is named twice; name each model once"),
        ({"model": ["NARROW", "NARROW/../narrow"]}, "is named twice; name each model once"),
        ({"model": []}, "There is no model to compare"),
        ({"queries": None, "qrels": None}, "give queries and qrels"),
        ({"grid": {"dim": [24]}}, "dim is 24, and the vectors of narrow have 16"),
        ({"grid": {"bit": [2]}}, "The grid has no axis 'bit'"),
        ({"queries": {f"q{at}": np.eye(16)[:2] for at in range(12)}}, "Several models need queries as text"),
    ],
)
def test_impossible_sets_of_models_are_named(
    given: dict[str, Any], message: str, models: list[str], corpus, places, compared: Comparison
):
    if "model" in given:
        given = {**given, "model": [name.replace("NARROW", models[0]) for name in given["model"]]}
    settings = {"queries": corpus[1], "qrels": corpus[2], "model": models, **OPTIONS, **given}
    with pytest.raises(InputError, match=message):
        ColRank.compare(corpus[0], cache=places[0], **settings)


def test_copies_of_one_model_are_one_model(models: list[str], corpus, tmp_path: Path):
    copy = native(tmp_path / "copy")
    with pytest.raises(InputError, match="encode alike"):
        ColRank.compare(*corpus, model=[models[0], str(copy)], cache=tmp_path / "cache", **OPTIONS)


def test_an_index_has_one_model(models: list[str], corpus, places, compared: Comparison):
    with pytest.raises(InputError, match="An index holds the vectors of one model"):
        ColRank.compare(places[1], *corpus[1:], model=models, cache=places[0], **OPTIONS)


def test_labels_are_as_short_as_they_can_be():
    assert model_labels(["a/x", "b/y"], ["a/x", "b/y"]) == ["x", "y"]
    assert model_labels(["a/x", "b/x"], ["a/x", "b/x"]) == ["a/x", "b/x"]
    assert model_labels(["/a/x", "/b/x"], ["x", "x"]) == ["/a/x", "/b/x"]


def test_float32_alone_is_something_to_compare_between_models():
    assert [variant.name for variant in read_grid({"bits": [32]}, 16, "narrow")] == ["float32"]


def test_the_command_takes_several_models(models: list[str], corpus, places, compared: Comparison):
    given = ["compare", corpus[0], "--queries", corpus[1], "--qrels", corpus[2], "--device", "cpu"]
    options = ["--bits", "2", "--max-loss", "1", "--no-baselines", "--cache", places[0]]
    both = [part for model in models for part in ("--model", model)]
    done = CliRunner().invoke(main, list(map(str, [*given, *options, *both])))
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    for label in ("narrow", "wide"):
        titles = [at for at, line in enumerate(lines) if line.strip() == label]
        assert len(titles) == 2
        for at in titles:
            assert lines[at + 2].startswith("float32")
            assert lines[at + 3].startswith("2 bits")
    assert "of 32 dimensions" in done.output
    done = CliRunner().invoke(main, list(map(str, [*given[:2], *options, *both])))
    assert isinstance(done.exception, InputError)


def test_a_target_that_cannot_be_written_is_refused_before_anything_is_encoded(
    models: list[str], corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("colrank.encoder.Encoder.encode_passages", None)
    full = tmp_path / "full"
    full.mkdir()
    (full / "letter.txt").write_text("mine")
    for target, message in ((full, "is not an index and holds"), (full / "letter.txt", "is a file")):
        with pytest.raises(InputError, match=message):
            ColRank.compare(*corpus, model=models[0], cache=tmp_path / "cache", apply=target, **OPTIONS)
    assert [path.name for path in full.iterdir()] == ["letter.txt"]
    made = ColRank.create(tmp_path / "index", model=None)
    made.add_embeddings(["a"], [np.eye(4, dtype=np.float32)])
    with pytest.raises(IndexExists, match="overwrite"):
        ColRank.compare(*corpus, model=models[0], apply=tmp_path / "index", **OPTIONS)


def test_the_choice_replaces_an_index_of_any_generation(models: list[str], corpus, places, tmp_path: Path):
    made = ColRank.create(tmp_path / "index", model=None)
    for name in "abc":
        made.add_embeddings([name], [np.eye(4, dtype=np.float32)])
    generation = made.snapshot.manifest.generation
    ColRank.compare(
        *corpus, model=models[0], cache=places[0], apply=tmp_path / "index", overwrite=True, **OPTIONS
    )
    found = ColRank.open(tmp_path / "index", device="cpu")
    assert len(found) == 60
    assert found.snapshot.manifest.generation == generation + 1
    assert len(found.search("the river", k=2)) == 2


def test_what_was_built_is_kept_when_no_variant_meets_the_budget(
    models: list[str], corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    options = {**OPTIONS, "model": models[0], "cache": tmp_path}
    with pytest.raises(InputError, match="What was encoded and built is kept"):
        ColRank.compare(*corpus, max_bytes_per_passage=1, **options)
    monkeypatch.setattr("colrank.compare.contestants.build_variant", None)
    monkeypatch.setattr("colrank.encoder.Encoder.encode_passages", None)
    assert ColRank.compare(*corpus, **options).recommended == "2 bits"


def test_an_index_of_another_model_is_built_with_that_model(models: list[str], corpus, tmp_path: Path):
    index = ColRank.create(tmp_path / "index", model=models[1], bits=2, device="cpu")
    index.add_files(corpus[0])
    ColRank.compare(
        tmp_path / "index", *corpus[1:], cache=tmp_path / "cache", apply=tmp_path / "made", **OPTIONS
    )
    made = ColRank.open(tmp_path / "made", device="cpu")
    assert made.snapshot.manifest.model == index.snapshot.manifest.model
    assert len(made.search("the river", k=2)) == 2


def test_an_index_is_compared_without_what_was_deleted(models: list[str], corpus, tmp_path: Path):
    index = ColRank.create(tmp_path / "index", model=models[0], bits=2, device="cpu")
    index.add_files(corpus[0])
    index.add([{"id": "more", "text": "the winter is cold and the battery lasts six months"}])
    index.delete([f"d{at}" for at in range(30, 60)])
    found = ColRank.compare(tmp_path / "index", *corpus[1:], cache=tmp_path / "cache", **OPTIONS)
    assert found.models[0].documents == 31


def test_words_are_stemmed_in_the_language_of_most_known_text(monkeypatch: pytest.MonkeyPatch):
    import bm25s

    from colrank.compare.baselines import bm25

    asked = []

    def tokenize(texts, stopwords, **options):
        asked.append(stopwords)
        return real(texts, stopwords=stopwords, **options)

    real = bm25s.tokenize
    monkeypatch.setattr(bm25s, "tokenize", tokenize)
    passages = [SimpleNamespace(text="la garantía dura seis meses"), SimpleNamespace(text="el agua del mar")]
    contents = SimpleNamespace(
        counts=SimpleNamespace(language_tokens={"und": 90, "es": 9, "en": 1}),
        passage_rows=2,
        live_documents=lambda: [SimpleNamespace(row=0, title="")],
        passages_of=lambda row: range(2),
        passages=lambda rows: passages,
    )
    part: Any = SimpleNamespace(base=SimpleNamespace(contents=contents), queries={}, label="", model="m")
    assert bm25(part).name == "BM25"
    assert asked == ["es"]


def test_the_page_of_tradeoffs_is_made_from_json_alone(models: list[str], corpus, places, compared):
    from tradeoffs import page

    found = ColRank.compare(*corpus, model=models[0], cache=places[0], **OPTIONS).to_json()
    machine = {"processor": "abacus", "capability": "beads", "threads": 2, "torch": "2"}
    shared = {"machine": machine, "seconds": 3.2, "encoded": False, "language": "English"}

    def kept(name: str, front: tuple[bool, bool]) -> dict[str, Any]:
        rows = [{**row, "on_front": on} for row, on in zip(found["rows"], front, strict=True)]
        comparison = {**found, "rows": rows}
        return json.loads(json.dumps({**shared, "collection": name, "comparison": comparison}))

    text = page([kept("one", (True, True)), kept("two", (False, True))])
    assert "- English, on the front of all 2 collections: 2 bits.\n" in text
    assert "Spanish, on the front" not in text
    assert "abacus (beads), 2 threads" in text
    assert "python bench/tradeoffs.py --english one two --spanish\n" in text
    assert text.count("\n| **2 bits** |") == 2
    exact = next(line for line in text.splitlines() if line.startswith("| **float32** |"))
    quality = found["rows"][0]["judged"]["nDCG@10"]
    cells = [cell.strip() for cell in exact.strip("|").split("|")]
    assert cells[4:] == [
        "1.000",
        f"{quality['mean']:.3f} ({quality['low']:.3f} to {quality['high']:.3f})",
        "+0.000 (+0.000 to +0.000)",
        "1.00",
    ]
    assert text.count(found["sentence"]) == 2
    assert text.count("\n| BM25 |") == 2
    assert "took 3 s, without encoding" in text
    assert "](tradeoffs-two.png)" in text
