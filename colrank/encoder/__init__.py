"""Text into token vectors: checkpoints, the embedded default, projection and token weights."""

from colrank.encoder.encoder import EncodedQuery, Encoder, Fingerprint, load_encoder
from colrank.encoder.weights import TokenFrequencies, weights_apply

__all__ = [
    "EncodedQuery",
    "Encoder",
    "Fingerprint",
    "TokenFrequencies",
    "load_encoder",
    "weights_apply",
]
