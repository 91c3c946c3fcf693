"""Tiny late-interaction checkpoints in every layout: seeded, so that two of one seed are the same bytes.

Their weights are random, so they say nothing about relevance: tests compare vectors, not rankings.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import BertModel, BertTokenizer

HIDDEN = 32
DIM = 16
POSITIONS = 96
QUERY_LENGTH = 24
DOCUMENT_LENGTH = 48

ENGLISH = "the a of in is how long lasts months guarantee legal bicycle battery sea cold winter water river"
SPANISH = "el la de que en un los seis meses garantía dura cuánto bicicleta batería mar frío invierno agua"
VOCABULARY = tuple(
    dict.fromkeys(
        [
            *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]", "[Q]", "[D]"),
            *string.ascii_lowercase,
            *(f"##{letter}" for letter in string.ascii_lowercase),
            *string.digits,
            *(f"##{digit}" for digit in string.digits),
            *string.punctuation,
            *("¿", "¡", "á", "é", "í", "ó", "ú", "ñ", "##á", "##é", "##í", "##ó", "##ú", "##ñ"),
            *ENGLISH.split(),
            *SPANISH.split(),
            *("dog", "cat", "perro", "gato", "time", "day", "year"),
        ]
    )
)

PYLATE_CONFIG: Mapping[str, Any] = {
    "query_prefix": "[Q] ",
    "document_prefix": "[D] ",
    "query_length": QUERY_LENGTH,
    "document_length": DOCUMENT_LENGTH,
    "attend_to_expansion_tokens": False,
    "do_query_expansion": True,
    "skiplist_words": list(string.punctuation),
}
STANFORD_METADATA: Mapping[str, Any] = {
    "query_token_id": "[unused0]",
    "doc_token_id": "[unused1]",
    "query_maxlen": QUERY_LENGTH,
    "doc_maxlen": DOCUMENT_LENGTH,
    "attend_to_mask_tokens": False,
    "mask_punctuation": True,
}


def native(
    folder: Path,
    *,
    markers: bool = True,
    projection: bool = True,
    skiplist: Iterable[str] = string.punctuation,
    query_expansion: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Path:
    """The library's own layout; with markers, `[Q] ` and `[D] ` are prompts and special tokens."""
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    source = bare_transformer(folder / "source", special=("[Q]", "[D]") if markers else (), seed=seed)
    transformer = Transformer(
        str(source),
        query_length=QUERY_LENGTH,
        document_length=DOCUMENT_LENGTH,
        query_expansion=dict(query_expansion) if query_expansion else None,
    )
    modules: list[Any] = [transformer]
    if projection:
        modules.append(_dense(seed))
    modules += [MultiVectorMask(list(skiplist)), Normalize(module_input_name="token_embeddings")]
    model = MultiVectorEncoder(
        modules=modules,
        device="cpu",
        prompts={"query": "[Q] ", "document": "[D] "} if markers else None,
    )
    model.save_pretrained(str(folder), create_model_card=False)
    _remove(source)
    return folder


def pylate(
    folder: Path, *, missing_keys: bool | Iterable[str] = False, binary_only: bool = False, seed: int = 0
) -> Path:
    """PyLate version 3: `model_type` ColBERT, [Transformer, Dense] and its options at the top level.

    `missing_keys` leaves those options out, or (True) all but the prefixes.
    """
    tokenizer = _tokenizer()
    tokenizer.add_tokens(["[Q] ", "[D] "])
    model = _bert(seed, len(tokenizer))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    kept = dict(PYLATE_CONFIG)
    if missing_keys is True:
        missing_keys = [key for key in PYLATE_CONFIG if not key.endswith("_prefix")]
    for key in missing_keys or ():
        del kept[key]
    _write(folder / "config_sentence_transformers.json", {"model_type": "ColBERT", "prompts": {}, **kept})
    _write(folder / "sentence_bert_config.json", {"max_seq_length": POSITIONS, "do_lower_case": False})
    _write(
        folder / "modules.json",
        [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
        ],
    )
    (folder / "1_Dense").mkdir()
    _write(
        folder / "1_Dense" / "config.json",
        {
            "in_features": HIDDEN,
            "out_features": DIM,
            "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity",
        },
    )
    _save_weights({"linear.weight": _projection(seed)}, folder / "1_Dense", binary_only)
    if binary_only:
        _to_binary(folder)
    return folder


def stanford(
    folder: Path,
    *,
    metadata: bool | Mapping[str, Any] = True,
    binary_only: bool = False,
    seed: int = 0,
) -> Path:
    """Stanford's layout: one file of weights with `bert.*` and `linear.weight`, and artifact.metadata.

    `metadata` may be the content of that file; False leaves the file out.
    """
    model = _bert(seed, len(VOCABULARY))
    folder.mkdir(parents=True)
    _tokenizer().save_pretrained(folder)
    config = model.config.to_dict()
    config["architectures"] = ["HF_ColBERT"]
    _write(folder / "config.json", config)
    weights = {f"bert.{name}": value for name, value in model.state_dict().items()}
    _save_weights({**weights, "linear.weight": _projection(seed)}, folder, binary_only)
    if metadata is not False:
        _write(folder / "artifact.metadata", dict(STANFORD_METADATA if metadata is True else metadata))
    return folder


def bare_transformer(folder: Path, *, special: Iterable[str] = (), seed: int = 0) -> Path:
    """A plain BERT checkpoint without projection; `special` are words of the vocabulary kept whole."""
    from transformers import AddedToken

    tokenizer = _tokenizer()
    whole = [AddedToken(token, normalized=False, special=True) for token in special]
    if whole:
        tokenizer.add_special_tokens({"additional_special_tokens": whole})
    _bert(seed, len(VOCABULARY)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def sentence_transformer(folder: Path, *, seed: int = 0) -> Path:
    """A single-vector model: Transformer and mean Pooling."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    source = bare_transformer(folder / "source", seed=seed)
    model = SentenceTransformer(
        modules=[Transformer(str(source)), Pooling(HIDDEN, pooling_mode="mean")], device="cpu"
    )
    model.save_pretrained(str(folder), create_model_card=False)
    _remove(source)
    return folder


def _tokenizer() -> BertTokenizer:
    from transformers import BertTokenizer

    tokenizer: BertTokenizer = BertTokenizer(
        vocab={token: row for row, token in enumerate(VOCABULARY)},
        do_lower_case=True,
        strip_accents=False,
        model_max_length=POSITIONS,
    )
    return tokenizer


def _bert(seed: int, vocabulary: int) -> BertModel:
    import torch
    from transformers import BertConfig, BertModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # Weights of this size make a token's vector depend on its neighbours and its place.
        return BertModel(
            BertConfig(
                vocab_size=vocabulary,
                hidden_size=HIDDEN,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=2 * HIDDEN,
                max_position_embeddings=POSITIONS,
                initializer_range=0.4,
                architectures=["BertModel"],
            )
        ).eval()


def _projection(seed: int) -> Any:
    import torch

    return torch.randn(DIM, HIDDEN, generator=torch.Generator().manual_seed(seed + 1000))


def _dense(seed: int) -> Any:
    import torch
    from sentence_transformers.base.modules.dense import Dense

    return Dense(
        HIDDEN,
        DIM,
        bias=False,
        activation_function=torch.nn.Identity(),
        init_weight=_projection(seed),
        module_input_name="token_embeddings",
    )


def _save_weights(weights: Mapping[str, Any], folder: Path, binary: bool) -> None:
    import torch
    from safetensors.torch import save_file

    if binary:
        torch.save(dict(weights), folder / "pytorch_model.bin")
    else:
        save_file(
            {name: value.contiguous() for name, value in weights.items()},
            folder / "model.safetensors",
            metadata={"format": "pt"},
        )


def _to_binary(folder: Path) -> None:
    from safetensors.torch import load_file

    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    _save_weights(weights, folder, binary=True)


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
