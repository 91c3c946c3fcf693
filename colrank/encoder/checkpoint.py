"""Late-interaction checkpoints of every layout that the library reads, checked for silent surprises."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash

from colrank.config import EncoderConfig
from colrank.errors import InputError, ModelError, first_line

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder

_SETTINGS = (
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "*.model",
)
_LOADING = threading.Lock()
_MARKER = re.compile(r"\[\w+\]")
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_NUMBERED_FROM_PADDING = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet")
_ABSENT = re.compile(r"\W*(\S+)\s*\|.*\bMISSING\b")
_CHATTY = ("sentence_transformers", "huggingface_hub")
_REMEDY = "give the folder of a late-interaction checkpoint or its name on the hub"


def resolve_device(device: str | None) -> str:
    """Return the device to use: the one asked for, or the best there is.

    Raises:
        InputError: the device is unknown, or this machine does not have it. It is never replaced.
    """
    import torch

    if device is None:
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        asked = torch.device(device)
    except RuntimeError as error:
        raise InputError(f"There is no device {device!r}; use cpu, cuda, cuda:0 or mps.") from error
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    numbered = asked.type != "cuda" or (asked.index or 0) < torch.cuda.device_count()
    if not present.get(asked.type, False) or not numbered:
        raise InputError(f"The device {device!r} is not available here; use --device cpu.")
    return device


def resolve_dtype(dtype: str) -> Any:
    """Return torch's dtype of that name: float32, float16 or bfloat16 (else InputError)."""
    import torch

    dtypes = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    if dtype not in dtypes:
        raise InputError(f"dtype is {dtype!r}; choose one of {', '.join(dtypes)}.")
    return dtypes[dtype]


def load_checkpoint(config: EncoderConfig, device: str) -> tuple[MultiVectorEncoder, list[str]]:
    """Load a checkpoint: native, PyLate or Stanford layout, folder or hub name.

    A checkpoint without a projection layer is used without one: the layer of random numbers that the
    library would add is taken out again, and said.

    Returns:
        The model, and sentences about what was done to it.

    Raises:
        ModelError: there is no such model, it cannot be loaded, its marker is unknown to its tokenizer,
            or it pools tokens itself.
    """
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules.dense import Dense
    from sentence_transformers.multi_vector_encoder.modules import BaseTokenPooling

    name = config.model
    looks_like_path = name.startswith((".", "/", "~")) or name.count("/") > 1
    if not name.strip() or (looks_like_path and not Path(name).expanduser().is_dir()):
        raise ModelError(f"There is no model folder {name!r}; {_REMEDY}.")
    absent = AbsentTensors()
    try:
        with quiet(), absent:
            model = MultiVectorEncoder(
                str(Path(name).expanduser()) if looks_like_path else name,
                device=device,
                trust_remote_code=config.trust_remote_code,
            )
    # The libraries below raise whatever the damaged file or the absent hub made them raise.
    except Exception as error:
        reason = first_line(error)
        raise ModelError(f"Cannot load the model {name!r} ({reason}); {_REMEDY}.") from error
    # The pooling layer is not used here.
    lacking = [each for each in absent.names if "pooler" not in each]
    if lacking:
        raise ModelError(
            f"The model {name!r} lacks {lacking[0]}, which would be filled with random numbers; "
            "fetch or save the checkpoint again."
        )
    notes = []
    modules = list(model)
    if any(isinstance(module, Dense) for module in modules) and not _stores_projection(name):
        kept = [module for module in modules if not isinstance(module, Dense)]
        model = MultiVectorEncoder(modules=kept, device=device, prompts=_prompts(model))
        notes.append(f"The model {name} has no projection layer; its vectors are used without one.")
    if any(isinstance(module, BaseTokenPooling) for module in modules):
        raise ModelError(
            f"The model {name!r} pools its tokens itself, so no vector belongs to one token; save it without "
            "its token pooling module."
        )
    notes += _check_markers(name, model)
    return model, notes


def _prompts(model: MultiVectorEncoder) -> dict[str, str]:
    return {role: prompt or "" for role, prompt in model.prompts.items()}


def _stores_projection(name: str) -> bool:
    """Whether the checkpoint itself brings a projection: as a module, or inside Stanford's weights."""
    modules = _read_json(name, "modules.json")
    if modules is not None and any(
        str(module.get("type", "")).rsplit(".", 1)[-1] == "Dense" for module in modules
    ):
        return True
    config = _read_json(name, "config.json") or {}
    return "HF_ColBERT" in (config.get("architectures") or [])


def _cache_folder() -> str | None:
    """Where the library keeps models of the hub, when that is not the hub's own cache."""
    return os.getenv("SENTENCE_TRANSFORMERS_HOME")


def _read_json(name: str, file: str) -> Any:
    from sentence_transformers.util import load_file_path

    folder = Path(name).expanduser()
    path = load_file_path(str(folder) if folder.is_dir() else name, file, cache_folder=_cache_folder())
    return None if path is None else json.loads(Path(path).read_text(encoding="utf-8"))


def _check_markers(name: str, model: MultiVectorEncoder) -> list[str]:
    """Refuse a marker that the tokenizer does not know; note one that it takes for ordinary text."""
    tokenizer = model.tokenizer
    if tokenizer is None or not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"The model {name!r} has no fast tokenizer, which passages are split with; {_REMEDY}."
        )
    for role, prompt in model.prompts.items():
        if prompt and tokenizer.unk_token_id in tokenizer(prompt, add_special_tokens=False)["input_ids"]:
            raise ModelError(
                f"The {role} marker {prompt.strip()!r} of the model {name!r} is unknown to its tokenizer; "
                "add it to the tokenizer as a special token, as in training, and save the model again."
            )
    return [
        f"The {role} marker {prompt.strip()!r} of the model {name} is not one token of its tokenizer; it is "
        "read as ordinary text."
        for role, prompt in model.prompts.items()
        if prompt and _MARKER.fullmatch(prompt.strip()) and len(tokenizer.tokenize(prompt)) > 1
    ]


class AbsentTensors(logging.Handler):
    """Catches what transformers reports while loading: weights that the checkpoint does not bring.

    The library fills them with random numbers and goes on.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.names: list[str] = []
        self._logger = logging.getLogger("transformers.modeling_utils")

    def emit(self, record: logging.LogRecord) -> None:  # noqa: D102
        for line in _STYLE.sub("", record.getMessage()).splitlines():
            if found := _ABSENT.match(line):
                self.names.append(found[1])

    def __enter__(self) -> None:
        self._before = (self._logger.level, self._logger.propagate)
        self._logger.addHandler(self)
        self._logger.setLevel(logging.WARNING)
        self._logger.propagate = False

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._before[0])
        self._logger.propagate = self._before[1]


def hash_checkpoint(name: str) -> str:
    """Hash of a checkpoint's weights, tokenizer and settings: equal for a copy elsewhere, and whatever
    the precision it is loaded in. Folders that are none of its modules do not count."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(name, cache_dir=_cache_folder(), local_files_only=True))
    modules = _read_json(name, "modules.json") or []
    folders = {folder, *(folder / str(module.get("path", "")) for module in modules)}
    files: list[Path] = []
    for part in folders:
        # As the loader does: safetensors where there are any, else the older format.
        weights = sorted(part.glob("*.safetensors")) or sorted(part.glob("pytorch_model*.bin"))
        files += weights + [path for pattern in _SETTINGS for path in part.glob(pattern)]
    digest = xxhash.xxh3_128()
    for path in sorted(files, key=lambda path: path.relative_to(folder).as_posix()):
        digest.update(path.relative_to(folder).as_posix().encode())
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    return f"xxh3:{digest.hexdigest()}"


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the libraries' bars and notes off the terminal while a model loads.

    Their settings are the process's: loads take turns, and each puts back what it found.
    """
    from transformers.utils import logging as untyped_logging

    transformers_logging: Any = untyped_logging
    with _LOADING:
        bars = transformers_logging.is_progress_bar_enabled()
        level = transformers_logging.get_verbosity()
        loggers = [logging.getLogger(name) for name in _CHATTY]
        levels = [logger.level for logger in loggers]
        transformers_logging.disable_progress_bar()
        transformers_logging.set_verbosity_error()
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            if bars:
                transformers_logging.enable_progress_bar()
            transformers_logging.set_verbosity(level)
            for logger, logger_level in zip(loggers, levels, strict=True):
                logger.setLevel(logger_level)


def most_tokens(config: Any, tokenizer: Any) -> int:
    """The longest text that a model reads, in its own tokens: by its positions and its tokenizer."""
    positions = getattr(config, "max_position_embeddings", None)
    if positions and getattr(config, "model_type", "") in _NUMBERED_FROM_PADDING:
        positions -= 2
    limits = [limit for limit in (positions, tokenizer.model_max_length) if limit and 0 < limit < 10**9]
    return int(min(limits, default=512))
