"""Encoding speed on cranfield: colrank, the library's own loop, and the bare forward pass, in turn.

    COLRANK_DATA=... python bench/encoding.py [--rounds 3]

All three encode the same passages with the same model on the same threads; finding the passages (splitting
and counting, two or three tokenizations of each text) is outside of all three. The library's loop is
`MultiVectorEncoder.encode_document` with its defaults; the bare pass is the transformer alone on
tokenized batches sorted by length, of the same bounds as colrank's. Rounds interleave the three, so that
the machine's drift hits all alike; ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from judged import data_folder, write_results

from colrank.config import EncoderConfig, FieldNames
from colrank.corpus import read_corpus
from colrank.encoder import Encoder, load_encoder
from colrank.encoder.embedded import load_embedded
from colrank.encoder.encoder import BATCH_PASSAGES, BATCH_TOKENS, length_batches
from colrank.passages import Splitter, encoder_input
from colrank.types import Problems

WINDOW = 1024


def passages(encoder: Encoder, collection: str) -> list[str]:
    """What is encoded for each passage of a collection, at the default length."""
    splitter = Splitter(encoder.token_spans, encoder.text_budget(None))
    corpus = read_corpus([data_folder() / collection / "corpus.jsonl"], FieldNames(), Problems())
    return [
        encoder_input(passage.prefix, passage.text)
        for document in corpus
        for passage in splitter.split(document, "en", Problems())
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--collection", default="cranfield")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--passages", type=int, help="only the first so many, to try the script")
    options = parser.parse_args()
    encoder = load_encoder(EncoderConfig(device="cpu"))
    library = load_embedded("cpu")
    texts = passages(encoder, options.collection)[: options.passages]
    lengths = [len(encoder.token_spans(text)) for text in texts]
    tokens = sum(lengths) + 2 * len(lengths)

    def colrank() -> None:
        for at in range(0, len(texts), WINDOW):
            encoder.encode_passages(texts[at : at + WINDOW], lengths[at : at + WINDOW])

    def encode_document() -> None:
        library.encode_document(texts, convert_to_numpy=True)

    batches = [
        dict(library.preprocess([texts[row] for row in batch], task="document"))
        for batch in length_batches(lengths, BATCH_TOKENS, BATCH_PASSAGES)
    ]

    def bare() -> None:
        transformer = library[0].auto_model
        with torch.inference_mode():
            for features in batches:
                transformer(
                    input_ids=features["input_ids"],
                    attention_mask=features["attention_mask"],
                    token_type_ids=features["token_type_ids"],
                )

    ways: dict[str, Callable[[], None]] = {
        "colrank": colrank,
        "encode_document": encode_document,
        "bare forward": bare,
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    encoder.encode_passages(texts[:64], lengths[:64])
    library.encode_document(texts[:64])
    for turn in range(options.rounds):
        # Each way goes first once, second once, last once.
        for name in [*list(ways)[turn % 3 :], *list(ways)[: turn % 3]]:
            begin = time.perf_counter()
            ways[name]()
            rates[name].append(tokens / (time.perf_counter() - begin))
            print(f"{name}: {rates[name][-1]:,.0f} tokens/s", flush=True)

    def ratios(other: str) -> list[float]:
        return [round(a / b, 3) for a, b in zip(rates["colrank"], rates[other], strict=True)]

    results = {
        "collection": options.collection,
        "passages": len(texts),
        "tokens": tokens,
        "tokens_per_second": {name: [round(rate) for rate in values] for name, values in rates.items()},
        "ratio_to_encode_document": ratios("encode_document"),
        "ratio_to_bare_forward": ratios("bare forward"),
        "median_ratio_to_encode_document": statistics.median(ratios("encode_document")),
        "median_ratio_to_bare_forward": statistics.median(ratios("bare forward")),
    }
    print(results)
    write_results("encoding", results)


if __name__ == "__main__":
    main()
