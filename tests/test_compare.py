"""`ColRank.compare`: the grid, what it measures, the front, the recommendation, and how it is shown."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import spearmanr

from colrank import ColRank
from colrank.builder import Silent
from colrank.cli.main import main
from colrank.compare import Budget, Comparison, Variant
from colrank.compare.build import Centroids, build_variant, cut_vectors
from colrank.compare.front import Offer, front, recommend
from colrank.compare.measure import measure_bytes, rank_correlation, shares
from colrank.compare.queries import draw_queries
from colrank.compare.variants import REFERENCE, fast_grid, full_grid, read_grid
from colrank.errors import IndexExists, InputError

SAMPLE = Path(__file__).parent.parent / "docs" / "sample" / "en"
TINY = {"bits": [32, 2], "pool": [1, 2]}


def offers(*rows: tuple[str, float, float, float]) -> list[Offer]:
    """Name, bytes, quality, loss at worst; a millisecond for each byte."""
    return [
        Offer(name, size, 1000 * size, quality, 1 - quality, worst, size)
        for name, size, quality, worst in rows
    ]


TABLE = offers(
    ("float32", 512.0, 1.00, 0.000),
    ("float16", 256.0, 1.00, 0.000),
    ("8 bits", 131.0, 0.99, 0.004),
    ("4 bits", 67.0, 0.98, 0.012),
    ("2 bits", 35.0, 0.94, 0.050),
    ("quantile", 36.0, 0.90, 0.080),
    ("pooled", 67.0, 0.88, 0.150),
)


def test_the_front_holds_what_nothing_beats():
    assert front(TABLE) == ["float16", "8 bits", "4 bits", "2 bits"]


def test_two_alike_are_both_on_the_front():
    assert front(offers(("a", 10, 0.5, 0), ("b", 10, 0.5, 0), ("c", 11, 0.5, 0))) == ["a", "b"]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (Budget(loss=0.005), "8 bits"),
        (Budget(loss=0.012), "4 bits"),
        (Budget(loss=0.0), "float16"),
        (Budget(bytes=100), "4 bits"),
        (Budget(bytes=66.9), "2 bits"),
        (Budget(milliseconds=200), "8 bits"),
        (Budget(bytes=300, loss=0.05), "2 bits"),
        (Budget(bytes=300, loss=0.02, milliseconds=200), "4 bits"),
    ],
)
def test_the_recommendation_keeps_within_the_budget(budget: Budget, expected: str):
    assert recommend(TABLE, budget).name == expected


def test_a_budget_that_nothing_meets_names_the_nearest():
    with pytest.raises(InputError, match=r"nearest is 2 bits, with 35 bytes a passage"):
        recommend(TABLE, Budget(bytes=30))


@pytest.mark.parametrize("budget", [{"bytes": 0}, {"loss": -0.1}, {"loss": 2}, {"milliseconds": math.nan}])
def test_impossible_budgets_are_named(budget: dict[str, float]):
    with pytest.raises(InputError, match="The budget of"):
        Budget(**budget)


def test_grids_begin_with_the_reference_and_hold_each_variant_once():
    assert len(fast_grid(128)) == 12
    for grid in (read_grid("fast", 128), read_grid("full", 128)):
        assert grid[0] == REFERENCE
        assert len({variant.name for variant in grid}) == len(grid)
    assert {variant.bits for variant in full_grid(128)} == {1, 2, 4, 8, 16, 32}
    assert {variant.pool for variant in full_grid(128)} == {1, 2, 3, 4}
    found = read_grid({"bits": [1, 2], "dim": [128, 32], "pool": 2}, 128)
    assert found == [
        REFERENCE,
        *(Variant(bits, dim, 2) for bits in (1, 2) for dim in (None, 32)),
    ]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"bit": [1]}, "The grid has no axis 'bit'"),
        ({"bits": [3]}, "bits is 3"),
        ({"pool": [0]}, "pool is 0"),
        ({"dim": [0]}, "dim is 0"),
        ({"dim": [129]}, "dim is 129, and the vectors have 128"),
        ({"bits": []}, "The axis 'bits' of the grid has no value"),
        ({"bits": [32]}, "nothing to compare with float32"),
        ("quick", "There is no grid 'quick'"),
        ({"scan": ["sometimes"]}, "scan is 'sometimes'"),
    ],
)
def test_impossible_grids_are_named(grid, message: str):
    with pytest.raises(InputError, match=message):
        read_grid(grid, 128)


def test_shares_and_rank_correlation_follow_their_definitions():
    exact = {"q": [(str(at), -float(at)) for at in range(10)]}
    run = {"q": [(str(at), 0.0) for at in (0, 2, 1, 3, 9, 8, 7, 6, 50, 51)]}
    assert shares(run, exact, 10).tolist() == [0.8]
    assert shares(run, exact, 3).tolist() == [1.0]
    ranks = [0, 2, 1, 3, 10, 10, 7, 6, 5, 4]
    assert rank_correlation(run, exact) == pytest.approx(spearmanr(range(10), ranks).statistic)
    assert rank_correlation(exact, exact) == pytest.approx(1.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ColRank:
    index = ColRank.create(tmp_path_factory.mktemp("whole") / "base", bits=32, device="cpu")
    index.add_files(SAMPLE)
    return index


@pytest.mark.parametrize(
    "variant", [Variant(32), Variant(16), Variant(4), Variant(2, dim=64), Variant(2, pool=2), Variant(1)]
)
def test_a_variant_is_what_indexing_with_its_settings_makes(whole: ColRank, tmp_path: Path, variant: Variant):
    built = build_variant(
        tmp_path / "variant",
        whole.snapshot,
        variant,
        encoder=whole.encoder,
        centroids=Centroids(tmp_path),
        left_out={},
        progress=Silent(),
    )
    projection = "auto" if variant.dim is None else f"truncate:{variant.dim}"
    direct = ColRank.create(
        tmp_path / "direct", bits=variant.bits, pool=variant.pool, projection=projection, device="cpu"
    )
    direct.add_files(SAMPLE)
    on_disk = sum(path.stat().st_size for path in (tmp_path / "variant").rglob("*") if path.is_file())
    measured = measure_bytes(built, 128)
    assert measured.total == on_disk
    assert measured.total == direct.stats()["bytes"]["total"]
    assert built.manifest.model == direct.snapshot.manifest.model
    query = "How much does it cost to store my bike over the winter?"
    found = ColRank.open(tmp_path / "variant").search(query, k=10)
    expected = direct.search(query, k=10)
    assert [hit.id for hit in found] == [hit.id for hit in expected]
    np.testing.assert_allclose([h.score for h in found], [h.score for h in expected], rtol=1e-4)


def test_drawn_queries_are_taken_out_of_their_passages(whole: ColRank, tmp_path: Path):
    base = whole.snapshot
    drawn = draw_queries(base, whole.encoder, 20, seed=1)
    again = draw_queries(base, whole.encoder, 20, seed=1)
    assert list(drawn.queries) == list(again.queries)
    assert len(drawn.queries) == len(drawn.left_out) == 20
    built = build_variant(
        tmp_path / "variant",
        base,
        Variant(32),
        encoder=whole.encoder,
        centroids=Centroids(tmp_path),
        left_out=drawn.left_out,
        progress=Silent(),
    )
    for (row, mask), query in zip(drawn.left_out.items(), drawn.queries.values(), strict=True):
        vectors = base.contents.passage_vectors(row)
        np.testing.assert_array_equal(query.vectors.vectors, vectors[mask])
        np.testing.assert_array_equal(built.contents.passage_vectors(row), vectors[~mask])


def test_cut_vectors_are_the_first_dimensions_at_unit_length():
    vectors = np.array([[3.0, 4.0, 12.0], [0.0, 0.0, 1.0]], dtype=np.float32) / 13
    np.testing.assert_allclose(cut_vectors(vectors, 2), [[0.6, 0.8], [0.0, 0.0]], atol=1e-6)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Queries that are the titles of the sample's documents, and their judgements."""
    folder = tmp_path_factory.mktemp("judged")
    index = ColRank.create(folder / "index", device="cpu")
    index.add_files(SAMPLE)
    contents = index.snapshot.contents
    rows = list(contents.live_documents())
    rows = [row for row in rows if row.title]
    queries = [json.dumps({"_id": f"q{row.row}", "text": row.title}) for row in rows]
    (folder / "queries.jsonl").write_text("\n".join(queries))
    (folder / "qrels.tsv").write_text("\n".join(f"q{row.row}\t{row.id}\t1" for row in rows))
    return folder / "queries.jsonl", folder / "qrels.tsv"


@pytest.fixture(scope="module")
def compared(judged: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return ColRank.compare(
        SAMPLE, *judged, grid=TINY, device="cpu", cache=tmp_path_factory.mktemp("cache"), max_loss=0.5
    )


def test_each_variant_is_measured_against_float32_exact(
    compared: Comparison, judged: tuple[Path, Path], tmp_path
):
    assert [row.name for row in compared.rows] == ["float32", "float32, pool 2", "2 bits", "2 bits, pool 2"]
    reference = compared.rows[0]
    assert reference.agreement["recall@10"].mean == 1.0
    assert reference.rank_correlation == pytest.approx(1.0)
    assert (reference.loss.mean, reference.loss.low, reference.loss.high) == (0.0, 0.0, 0.0)
    for row, settings in zip(compared.rows, ((32, 1), (32, 2), (2, 1), (2, 2)), strict=True):
        bits, pool = settings
        direct = ColRank.create(tmp_path / row.name, bits=bits, pool=pool, device="cpu")
        direct.add_files(SAMPLE)
        assert row.bytes == direct.stats()["bytes"]["total"]
        found = direct.evaluate(*judged, scan="always")
        assert row.judged is not None
        assert row.judged["nDCG@10"].mean == pytest.approx(found.means["nDCG@10"], abs=1e-9)
        assert row.judged["nDCG@10"].low == pytest.approx(found.intervals["nDCG@10"][0], abs=1e-9)
        lost = reference.judged["nDCG@10"].mean - row.judged["nDCG@10"].mean
        assert row.loss.mean == pytest.approx(lost, abs=1e-9)
    cheapest = min(compared.rows, key=lambda row: row.bytes_per_passage)
    assert compared.recommended == cheapest.name


def test_the_table_holds_a_row_a_variant(compared: Comparison):
    table = compared.table
    assert table.num_rows == 4
    assert table.column("name").to_pylist() == [row.name for row in compared.rows]
    assert table.column("bytes").to_pylist() == [row.bytes for row in compared.rows]
    assert table.column("recommended").to_pylist().count(True) == 1
    assert {"nDCG@10", "nDCG@10_low", "loss_high", "on_front", "bytes_of_8800000_passages"} <= {
        *table.schema.names
    }
    json.dumps(compared.to_json())


def test_other_systems_stand_beside(compared: Comparison):
    assert [baseline.name for baseline in compared.baselines] == [
        "single vector",
        "BM25",
        f"late interaction ({compared.recommended})",
    ]
    single = compared.baselines[0]
    assert single.bytes_per_passage == 4 * 128
    assert single.quality.mean < compared.rows[0].judged["nDCG@10"].mean


def test_pictures_have_labelled_axes_and_name_every_variant(compared: Comparison, tmp_path: Path):
    from colrank.compare.plot import picture

    figure = picture(compared)
    left, right = (axes for part in figure.subfigs for axes in part.axes)
    assert left.get_xlabel().startswith("bytes a passage")
    assert left.get_ylabel().startswith("nDCG@10")
    assert right.get_xlabel().startswith("median milliseconds")
    assert left.get_xscale() == "log"
    legend = " ".join(text.get_text() for part in figure.subfigs for text in part.texts)
    assert all(row.name in legend for row in compared.rows)
    for name in ("plot.png", "plot.svg"):
        compared.plot(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 10_000
    with pytest.raises(InputError, match="Cannot draw"):
        compared.plot(tmp_path / "plot.doc")


def test_reports_hold_the_table_and_stand_alone(compared: Comparison, tmp_path: Path):
    compared.to_html(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text.count("<tr") == 1 + len(compared.rows) + 1 + len(compared.baselines)
    assert "http" not in text
    assert 'src="data:image/png;base64,' in text
    assert compared.sentence in text.replace("&#x27;", "'")
    page = compared.to_markdown()
    assert page.count("\n| ") == 1 + len(compared.rows) + 1 + len(compared.baselines)


def test_the_report_opens_in_a_browser(compared: Comparison, tmp_path: Path):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        print("No Chromium here: the report was not opened in a browser.")
        pytest.skip("no Chromium")
    compared.to_html(tmp_path / "report.html")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--dump-dom", (tmp_path / "report.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "Storage against precision" in done.stdout


def test_a_second_run_encodes_nothing_and_says_the_same(
    compared: Comparison, judged: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    options = {"grid": TINY, "device": "cpu", "cache": tmp_path, "max_loss": 0.5}
    first = ColRank.compare(SAMPLE, *judged, **options)
    monkeypatch.setattr("colrank.encoder.Encoder.encode_passages", None)
    second = ColRank.compare(SAMPLE, *judged, **options)
    assert first.recommended == second.recommended == compared.recommended
    assert [row.loss for row in first.rows] == [row.loss for row in second.rows]


def test_a_stopped_run_goes_on_with_what_was_built(
    judged: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from colrank.compare import contestants

    built: list[str] = []

    def stopping(folder: Path, base, variant: Variant, **options):
        if len(built) == 2:
            raise KeyboardInterrupt
        built.append(variant.name)
        return build_variant(folder, base, variant, **options)

    options = {"grid": TINY, "device": "cpu", "cache": tmp_path, "max_loss": 0.5}
    monkeypatch.setattr(contestants, "build_variant", stopping)
    with pytest.raises(KeyboardInterrupt):
        ColRank.compare(SAMPLE, *judged, **options)
    seen = built.copy()
    monkeypatch.setattr(
        contestants, "build_variant", lambda f, b, v, **o: built.append(v.name) or build_variant(f, b, v, **o)
    )
    found = ColRank.compare(SAMPLE, *judged, **options)
    assert seen == ["float32", "float32, pool 2"]
    assert built == [row.name for row in found.rows]


def test_without_queries_sentences_ask_and_agreement_is_measured(tmp_path: Path):
    found = ColRank.compare(SAMPLE, grid={"bits": [2]}, device="cpu", cache=tmp_path, sample=15, max_loss=1)
    assert found.drawn
    assert found.queries == 15
    assert found.measure == "recall@10"
    assert found.rows[1].judged is None
    assert found.rows[1].loss.mean == pytest.approx(1 - found.rows[1].agreement["recall@10"].mean)
    assert "not relevance" in found.to_markdown()


def test_an_index_can_be_compared_and_the_choice_built(tmp_path: Path, judged: tuple[Path, Path]):
    index = ColRank.create(tmp_path / "coded", bits=2, device="cpu")
    index.add_files(SAMPLE)
    found = ColRank.compare(
        tmp_path / "coded",
        *judged,
        grid={"bits": [4]},
        cache=tmp_path / "cache",
        apply=tmp_path / "made",
        max_loss=1,
    )
    assert found.recommended == "4 bits"
    made = ColRank.open(tmp_path / "made")
    assert made.stats()["bits"] == 4
    assert made.stats()["bytes"]["total"] == found.row("4 bits").bytes
    with pytest.raises(IndexExists):
        ColRank.compare(tmp_path / "coded", *judged, grid={"bits": [4]}, apply=tmp_path / "made")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--qrels", "QRELS"], "There are qrels and no queries"),
        (["--queries", "QUERIES", "--qrels", "QRELS", "--sample", "3"], "There are 3 queries, too few"),
        (["--bits", "two"], "--bits is 'two'"),
        (["--max-loss", "3"], "The budget of loss is 3"),
        (
            ["--queries", "QUERIES", "--qrels", "QRELS", "--bits", "4", "--max-bytes-per-passage", "1"],
            "nearest is",
        ),
        (["--rerank", "exact"], "exact is what every row is compared with"),
    ],
)
def test_bad_input_gets_one_sentence(arguments: list[str], message: str, judged, tmp_path: Path):
    names = {"QUERIES": str(judged[0]), "QRELS": str(judged[1])}
    given = [names.get(argument, argument) for argument in arguments]
    done = CliRunner().invoke(
        main, ["compare", str(SAMPLE), "--device", "cpu", "--cache", str(tmp_path), *given]
    )
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)


def test_the_command_prints_every_variant_and_writes_what_was_asked(judged, tmp_path: Path):
    names = ["plot.png", "report.html", "table.md"]
    files = [
        part
        for name, option in zip(names, ("plot", "html", "markdown"), strict=True)
        for part in (f"--{option}", str(tmp_path / name))
    ]
    given = ["compare", SAMPLE, "--queries", judged[0], "--qrels", judged[1], "--bits", "2,4", *files]
    options = ["--device", "cpu", "--cache", tmp_path / "cache", "--max-loss", "1", "--no-baselines"]
    done = CliRunner().invoke(main, list(map(str, [*given, *options])))
    assert done.exit_code == 0, done.output
    for name in ("float32", "2 bits", "4 bits"):
        assert done.output.count(f"\n{name} ") == 2
    assert all((tmp_path / name).exists() for name in names)
