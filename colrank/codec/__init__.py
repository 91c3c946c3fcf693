"""Token vectors in few bytes: bits, codec, its training, and the sample that it is trained on."""

from colrank_kernels import NativeTokens

from colrank.codec.codec import BLOCK, Codec, Columns, whole_vectors
from colrank.codec.sample import StreamSample
from colrank.codec.train import Training, train_codec

__all__ = [
    "BLOCK",
    "Codec",
    "Columns",
    "NativeTokens",
    "StreamSample",
    "Training",
    "train_codec",
    "whole_vectors",
]
