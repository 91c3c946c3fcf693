"""Tiny cross-encoders in the layouts that the library reads, seeded, and what they should answer.

Their weights are random, so they say nothing about relevance: tests compare numbers, not rankings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from checkpoints import HIDDEN, POSITIONS, VOCABULARY, bare_transformer

from colrank.config import CascadeConfig
from colrank.rerankers.cross_encoder import CrossEncoderReranker

CHAT_POSITIONS = 160
CHAT_TEMPLATE = (
    "<s> {% for message in messages if message.role == 'system' %}{{ message.content }} {% endfor %}"
    "query : {{ messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first }} "
    "text : {{ messages | selectattr('role', 'eq', 'document') | map(attribute='content') | first }} answer :"
)


QUERY = "how long lasts the guarantee"
TEXTS = [
    "the legal guarantee lasts six months",
    "",
    "la garantía legal dura seis meses, en el mar frío del invierno",
    "the sea is cold",
    "zebra!",
]
LONG = "the cold water of the river in winter " * 30


def cross_encoder(
    folder: Path,
    *,
    labels: int = 1,
    names: Mapping[int, str] | None = None,
    activation: str | None = None,
    seed: int = 0,
) -> Path:
    """A BERT with a head of so many labels; `activation` is what the checkpoint says belongs on top."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    more: dict[str, Any] = {"id2label": dict(names)} if names else {"num_labels": labels}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertForSequenceClassification(
            BertConfig(
                vocab_size=len(VOCABULARY),
                hidden_size=HIDDEN,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=2 * HIDDEN,
                max_position_embeddings=POSITIONS,
                initializer_range=0.4,
                **more,
            )
        )
    model.save_pretrained(folder)
    BertTokenizer(
        vocab={token: row for row, token in enumerate(VOCABULARY)},
        do_lower_case=True,
        strip_accents=False,
        model_max_length=POSITIONS,
    ).save_pretrained(folder)
    if activation:
        edit(folder / "config.json", sentence_transformers={"activation_fn": activation})
    return folder


def modular(folder: Path, *, activation: str, seed: int = 0) -> Path:
    """An encoder, mean pooling and a dense head, as modules; the head applies an activation itself."""
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    source = bare_transformer(folder / "source", seed=seed)
    head = Dense(
        HIDDEN,
        1,
        activation_function=getattr(torch.nn, activation)(),
        init_weight=torch.randn(1, HIDDEN, generator=torch.Generator().manual_seed(seed)),
        init_bias=torch.zeros(1),
        module_output_name="scores",
    )
    modules = [Transformer(str(source)), Pooling(HIDDEN, pooling_mode="mean"), head]
    CrossEncoder(modules=modules, device="cpu").save_pretrained(str(folder), create_model_card=False)
    return folder


def chat_reranker(folder: Path, *, template: str | None = CHAT_TEMPLATE, seed: int = 0) -> Path:
    """A causal language model that answers yes or no, with a template that carries query and document."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(
        [f" {word}" for word in VOCABULARY],
        trainers.BpeTrainer(
            vocab_size=600,
            special_tokens=["<pad>", "<s>", "yes", "no"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    learned = json.loads(backend.to_str())["model"]
    tokenizer = Qwen2Tokenizer(
        vocab=learned["vocab"],
        merges=[tuple(pair) for pair in learned["merges"]],
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="<s>",
        unk_token="<pad>",
        model_max_length=CHAT_POSITIONS,
    )
    tokenizer.chat_template = template
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=len(tokenizer),
                hidden_size=HIDDEN,
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=2,
                intermediate_size=2 * HIDDEN,
                max_position_embeddings=CHAT_POSITIONS,
                initializer_range=0.4,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=1,
            )
        )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def edit(path: Path, **values: Any) -> None:
    """Set keys of a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, **values}), encoding="utf-8")


def reranker(folder: Path, **options: Any) -> CrossEncoderReranker:
    """Ours, with options of the cascade."""
    return CrossEncoderReranker(str(folder), CascadeConfig(rerank="hf:model", **options))


def reference(folder: Path, texts: list[str], query: str = QUERY) -> np.ndarray:
    """The library's own logits, in one batch."""
    import torch
    from sentence_transformers import CrossEncoder

    model: Any = CrossEncoder(str(folder), device="cpu")
    pairs = [(query, text) for text in texts]
    logits = model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
    return np.asarray(logits, dtype=np.float64)


def pairs_of(folder: Path, texts: list[str], query: str = QUERY) -> list[list[int]]:
    """Token ids of each pair, uncut."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer([query] * len(texts), texts, truncation=False, verbose=False)["input_ids"]
