"""Fit the fixed projection of the embedded encoder: 384 to 128 dimensions.

    python bench/fit_projection.py --spanish FOLDER... --english FOLDER... [--out FILE]

Takes the leading eigenvectors of the uncentred second moment of raw token vectors, Spanish and English
in equal parts. The shipped matrix was fitted on paragraphs of the documentation in these Debian 12
packages, none of them a judged collection: gimp-help-es/-en, libreoffice-help-es/-en-us,
debian-edu-doc-es/-en, freedombox-doc-es/-en, fortunes-es/fortunes (as .txt files), one folder each.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from colrank.config import FieldNames
from colrank.corpus import read_corpus
from colrank.encoder.embedded import load_embedded
from colrank.encoder.projection import PROJECTION_FILE
from colrank.types import Problems

DIM = 128
SHORTEST = 150


def paragraphs(folder: Path) -> Iterator[str]:
    for document in read_corpus([folder], FieldNames(), Problems()):
        for line in document.text.splitlines():
            text = " ".join(line.split())
            if len(text) >= SHORTEST:
                yield text[:1500]


def sample(folders: list[Path], characters: int) -> list[str]:
    """Paragraphs drawn from every folder alike, about so many characters in all."""
    out = []
    for folder in folders:
        drawn = sorted(set(paragraphs(folder)))
        random.Random(0).shuffle(drawn)
        left = characters / len(folders)
        for text in drawn:
            if left <= 0:
                break
            out.append(text)
            left -= len(text)
        print(f"{folder}: {len(drawn)} paragraphs")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spanish", type=Path, nargs="+", required=True)
    parser.add_argument("--english", type=Path, nargs="+", required=True)
    parser.add_argument("--characters", type=int, default=300_000, help="of each language")
    parser.add_argument("--out", type=Path, default=PROJECTION_FILE)
    options = parser.parse_args()
    model = load_embedded("cpu")
    moment = np.zeros((384, 384))
    for folders in (options.spanish, options.english):
        texts = sample(folders, options.characters)
        # Not scaled to unit length: measured worse on med (.766 against .783) and limit-small.
        vectors = np.concatenate(model.encode_document(texts, convert_to_numpy=True)).astype(np.float64)
        moment += vectors.T @ vectors / len(vectors)
        print(f"{len(vectors)} tokens")
    values, directions = np.linalg.eigh(moment)
    matrix = directions[:, ::-1][:, :DIM]
    # An eigenvector's sign is free; the largest entry positive makes the file repeatable.
    matrix = matrix * np.sign(matrix[np.abs(matrix).argmax(axis=0), np.arange(DIM)])
    np.save(options.out, np.ascontiguousarray(matrix.astype(np.float32)))
    print(f"{values[::-1][:DIM].sum() / values.sum():.1%} of the second moment kept; wrote {options.out}")


if __name__ == "__main__":
    main()
