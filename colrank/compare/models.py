"""Which models a comparison takes, what each is called, and that no two are the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from colrank.config import EMBEDDED_MODEL
from colrank.encoder import Fingerprint
from colrank.errors import InputError


def read_models(given: str | Sequence[str]) -> list[str]:
    """Models as they were named, in that order.

    Raises:
        InputError: there is none, or one is named twice.
    """
    models = [given] if isinstance(given, str) else list(given)
    if not models:
        raise InputError("There is no model to compare; name one, or leave it out for the embedded one.")
    places = [model_place(model) for model in models]
    for at, model in enumerate(models):
        if places[at] in places[:at]:
            raise InputError(f"The model {model!r} is named twice; name each model once.")
    return models


def model_place(model: str) -> str:
    """The same for every spelling of one folder; else the name itself."""
    folder = Path(model).expanduser()
    return str(folder.resolve()) if model != EMBEDDED_MODEL and folder.is_dir() else model


def model_labels(models: Sequence[str], names: Sequence[str]) -> list[str]:
    """What rows are told apart by: the last part of a model's name, or all that it needs to be unique.

    Args:
        models: as they were given, no two alike.
        names: what each calls itself.
    """
    for labels in ([name.rpartition("/")[2] for name in names], list(names)):
        if len(set(labels)) == len(labels):
            return labels
    return list(models)


def check_different(models: Sequence[str], fingerprints: Sequence[Fingerprint]) -> None:
    """Refuse two names of one model.

    Raises:
        InputError: two models encode alike.
    """
    for at, ours in enumerate(fingerprints):
        for before in range(at):
            if ours.same_vectors(fingerprints[before]):
                raise InputError(
                    f"The models {models[before]!r} and {models[at]!r} encode alike; name each model once."
                )
