"""Make the golden index of the current format version, and the hits that are expected of all of them.

    python tests/golden/make.py

Only for a new format version; never run it to make a failing test pass. A golden index is what an older
colrank left on somebody's disk: when a test of it fails, the code is wrong. The script refuses to write
over an index or over expected hits that are there. For a new version, add what that version can hold to
`make_index`, name the folder by the new number, and leave the older folders as they are.

`format-1` was made by the code of format version 1, with the documents of `documents_of_format_1`. Its
expected hits are computed here by brute force in float64, without colrank. `format-2` was made by the code
of version 2, with `documents_of_format_2`, two bits a dimension and tokens pooled by two. `format-3` was made
by the code of version 3, with `updates_of_format_3`, and `format-4`, which keeps words, by that of version 4.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
DIM_1, DIM_2, DIM_3, DIM_4 = 12, 13, 11, 10
SEED = 20261130
TWINS = {DIM_1: (3, 7), DIM_2: (8, 41), DIM_3: (8, 41), DIM_4: (4, 15)}
"""Numbers of two documents of equal vectors, by the index's dim."""


def documents_of_format_1() -> list[dict]:
    rng = np.random.default_rng(SEED)
    arrays = [rng.standard_normal((1 + row % 5, DIM_1)).astype(np.float32) for row in range(12)]
    earlier, later = TWINS[DIM_1]
    arrays[later] = arrays[earlier].copy()
    return [
        {
            "id": f"doc-{row:02d}",
            "vectors": array,
            "text": f'Text number {row}: ñandú, "quoted"\tand\nnewline.',
            "title": f"Title {row}",
            "metadata": {"n": row},
        }
        for row, array in enumerate(arrays)
    ]


def documents_of_format_2() -> list[dict]:
    """Ids do not ascend with the rows, so that ties show which of the two decides."""
    rng = np.random.default_rng(SEED)
    means = rng.standard_normal((20, DIM_2))
    out = []
    for row in range(60):
        tokens = 1 + (7 * row) % 24
        vectors = means[rng.integers(20, size=tokens)] + 0.4 * rng.standard_normal((tokens, DIM_2))
        if row == TWINS[DIM_2][1]:
            vectors = out[TWINS[DIM_2][0]]["vectors"]
        out.append(
            {
                "id": f"{'año' if row % 3 else 'doc'}-{(37 * row) % 60:02d}",
                "vectors": vectors.astype(np.float32),
                "text": f'Entrada {row}: «ñandú», "comillas", 日本 🚲\tand\nnewline \\ {row * row}.'
                if row % 7
                else "",
                "title": f"Título nº {row}\n{'«»' * (row % 4)}",
                "metadata": {
                    "n": row,
                    "größe": row / 8,
                    "tags": ["a", 'b "c"', None],
                    "in": {"x": row % 2 == 0},
                },
            }
        )
    return out


def updates_of_format_3() -> list[list[dict] | list[str]]:
    """What was done to the index, one generation each: documents that were added, or ids that were deleted.

    One document is replaced, and one that was deleted comes back. The later of two equal documents, which
    lies in the second segment, has the lower id.
    """
    means = np.random.default_rng(SEED).standard_normal((16, DIM_3))
    out = {}
    for n in range(57):
        rng = np.random.default_rng([SEED, TWINS[DIM_3][0] if n == TWINS[DIM_3][1] else n])
        tokens = 1 + (7 * n) % 13 if n != TWINS[DIM_3][1] else len(out[TWINS[DIM_3][0]]["vectors"])
        vectors = means[rng.integers(16, size=tokens)] + 0.4 * rng.standard_normal((tokens, DIM_3))
        out[n] = {
            "id": f"{'ñu' if n % 3 else 'doc'}-{(37 * n) % 60:02d}",
            "vectors": vectors.astype(np.float32),
            "text": f"Eintrag {n}: »ñandú«, 日本 🚲\tund\nZeile {n * n}." if n % 7 else "",
            "title": f"Titel Nr. {n}{'«»' * (n % 4)}",
            "metadata": {"n": n, "größe": n / 8, "tags": ["a", None], "in": {"x": n % 2 == 0}},
        }
    out[44]["id"] = out[5]["id"]
    out[53]["id"] = out[3]["id"]
    return [
        [out[n] for n in range(40)],
        [out[n] for n in range(40, 52)],
        [out[n]["id"] for n in (3, 17, 45)],
        [out[n] for n in range(52, 57)],
    ]


def updates_of_format_4() -> list[list[dict] | list[str]]:
    """As for format 3: added, deleted, and added, one of these replaced. Texts have words to be counted."""
    means = np.random.default_rng(SEED + 4).standard_normal((9, DIM_4))
    words = ["garantía", "teléfono", "año", "ñandú", "the", "guarantees", "of", "telephones", "last", "six"]
    words += ["months", "código", "XJ-4711"]
    out = {}
    for n in range(26):
        rng = np.random.default_rng([SEED, DIM_4, TWINS[DIM_4][0] if n == TWINS[DIM_4][1] else n])
        tokens = 1 + (5 * n) % 9 if n != TWINS[DIM_4][1] else len(out[TWINS[DIM_4][0]]["vectors"])
        vectors = means[rng.integers(9, size=tokens)] + 0.4 * rng.standard_normal((tokens, DIM_4))
        chosen = [words[at] for at in rng.integers(len(words), size=(3 * n) % 17)]
        out[n] = {
            "id": f"{'ñu' if n % 3 else 'doc'}-{(7 * n) % 26:02d}",
            "vectors": vectors.astype(np.float32),
            "text": " ".join(chosen),
            "title": f"¿Título {n}?" if n % 4 else f"Title {n}",
            "metadata": {"n": n},
        }
    out[25]["id"] = out[6]["id"]
    return [[out[n] for n in range(18)], [out[n]["id"] for n in (2, 9)], [out[n] for n in range(18, 26)]]


def left_by(updates: list[list[dict] | list[str]]) -> list[dict]:
    """What updates leave, in the order of the rows."""
    held: dict[str, dict] = {}
    for update in updates:
        for each in update:
            held.pop(each if isinstance(each, str) else each["id"], None)
            if not isinstance(each, str):
                held[each["id"]] = each
    return list(held.values())


def documents_of_format_3() -> list[dict]:
    return left_by(updates_of_format_3())


def documents_of_format_4() -> list[dict]:
    return left_by(updates_of_format_4())


def unit(vectors: np.ndarray) -> np.ndarray:
    wide = vectors.astype(np.float64)
    return (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)


def queries(dim: int, documents: list[dict]) -> list[np.ndarray]:
    """Random ones, and the vectors of one of two equal documents, which finds both."""
    rng = np.random.default_rng(SEED + dim)
    return [unit(rng.standard_normal((tokens, dim))) for tokens in (1, 2, 5, 9, 32)] + [
        unit(document["vectors"]) for document in documents if document["metadata"]["n"] in TWINS[dim][:1]
    ]


def scores_of_format_1(query: np.ndarray) -> list[tuple[str, float]]:
    found = []
    for document in documents_of_format_1():
        tokens = unit(document["vectors"]).astype(np.float16)
        score = sum(
            max(float(np.dot(vector.astype(np.float64), token.astype(np.float64))) for token in tokens)
            for vector in query
        )
        found.append((document["id"], float(np.float32(score))))
    return sorted(found, key=lambda hit: (-hit[1], hit[0]))


def make_index(folder: Path) -> list[list[tuple[str, float]]]:
    """Make `format-4` and return the hits of each query, all documents, best first."""
    from colrank import ColRank

    index = ColRank.create(folder, model=None, bits=2, centroids=8, hybrid=True)
    for update in updates_of_format_4():
        if isinstance(update[0], str):
            index.delete(update)
            continue
        index.add_embeddings(
            [document["id"] for document in update],
            [document["vectors"] for document in update],
            texts=[document["text"] for document in update],
            titles=[document["title"] for document in update],
            metadata=[document["metadata"] for document in update],
        )
    (folder / "colrank.lock").unlink()
    documents = documents_of_format_4()
    found = index.search(queries(DIM_4, documents), len(documents), scan="always")
    return [[(hit.document, hit.score) for hit in hits] for hits in found]


def write_expected(path: Path, asked: list[np.ndarray], hits: list[list[tuple[str, float]]]) -> None:
    if path.exists():
        raise SystemExit(f"{path} is there already; a golden file is never made again.")
    content = [
        {
            "query": [[_shortest(value) for value in vector] for vector in query],
            "ids": [name for name, _ in found],
            "scores": [_shortest(score) for _, score in found],
        }
        for query, found in zip(asked, hits, strict=True)
    ]
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in content)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _shortest(value: float) -> float:
    """The number that is written with the fewest digits and reads as the same float32."""
    return float(str(np.float32(value)))


def main() -> None:
    folder = HERE / "format-4"
    if folder.exists():
        raise SystemExit(f"{folder} is there already; a golden index is never made again.")
    write_expected(HERE / "format-4.json", queries(DIM_4, documents_of_format_4()), make_index(folder))
    if not (HERE / "format-1.json").exists():
        asked = queries(DIM_1, documents_of_format_1())
        write_expected(HERE / "format-1.json", asked, [scores_of_format_1(query) for query in asked])


if __name__ == "__main__":
    main()
