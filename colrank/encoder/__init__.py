"""Text into token vectors: checkpoints, the embedded default, projection and token weights."""

from colrank.encoder.encoder import EncodedQuery, Encoder, Fingerprint, load_encoder
from colrank.encoder.projection import kept_dimensions, projection_option
from colrank.encoder.weights import TokenFrequencies, weights_apply

__all__ = [
    "EncodedQuery",
    "Encoder",
    "Fingerprint",
    "TokenFrequencies",
    "kept_dimensions",
    "load_encoder",
    "projection_option",
    "weights_apply",
]
