"""The judge: hits below a floor are dropped; when none is left, nothing goes on to a generator.

    high     .80 to 1    answers
    topical  .50 to .80  is about the same thing
    noise    below .50

The usual floor, .75, lies inside the topical tier on purpose: a hit of .78 passes and is marked topical.
"""

from __future__ import annotations

from dataclasses import replace

from colrank.errors import StageFailed
from colrank.types import Hit, Hits, Verdict

HIGH = 0.80
TOPICAL = 0.50

FALLBACKS = {
    "ca": "No hi ha documentació verificada per respondre això amb garanties.",
    "de": "Es gibt keine geprüften Unterlagen, um dies verlässlich zu beantworten.",
    "en": "There is no verified documentation to answer this reliably.",
    "es": "No hay documentación verificada para responder a esto con fiabilidad.",
    "eu": "Ez dago egiaztatutako dokumentaziorik honi fidagarritasunez erantzuteko.",
    "fr": "Il n'y a pas de documentation vérifiée pour répondre à cela de façon fiable.",
    "gl": "Non hai documentación verificada para responder a isto con fiabilidade.",
    "it": "Non c'è documentazione verificata per rispondere a questo in modo affidabile.",
    "nl": "Er is geen geverifieerde documentatie om dit betrouwbaar te beantwoorden.",
    "pt": "Não há documentação verificada para responder a isto com segurança.",
}
"""What to tell the user instead of an answer, by language."""


def tier_of(score: float) -> str:
    """`high`, `topical` or `noise`."""
    return "high" if score >= HIGH else "topical" if score >= TOPICAL else "noise"


def fallback_sentence(language: str) -> str:
    """The sentence in a language (ISO 639 code), in English where there is none."""
    return FALLBACKS.get(language, FALLBACKS["en"])


def judge(hits: Hits, floor: float, *, reranker: str, steady: bool, fallback: str, on_error: str) -> Hits:
    """Keep the hits whose reranking score reaches the floor, and say what became of the query.

    A hit that the reranker left unscored is never approved and never counts as refused: it is left out
    beside approved ones, and without any of those nothing was judged and every hit stays.

    Args:
        hits: after reranking, with `scores["rerank"]` unless `unscored`.
        floor: least score that passes, in [0, 1].
        reranker: its name, for the sentences.
        steady: False for a language model, whose scores drift from day to day.
        fallback: what to tell the user of a refused query.
        on_error: `return-unjudged` or `fail`, for a query that cannot be judged.

    Raises:
        StageFailed: the query cannot be judged and `on_error` is `fail`.
    """
    seen = [hit if hit.unscored else _seen(hit) for hit in hits]
    scored = [hit for hit in seen if not hit.unscored]
    passed = [hit for hit in scored if hit.scores["judge"] >= floor]
    best = max((hit.scores["judge"] for hit in scored), default=None)
    unscored = len(seen) - len(scored)
    note = (
        f"The scores of {reranker} were not calibrated on your data: what {floor:g} means there is not known."
    )

    def verdict(status: str, reason: str) -> Verdict:
        said = fallback if status == "refused" else ""
        return Verdict(status, reason, best, floor, note, said)  # type: ignore[arg-type]

    if unscored and not passed:
        others = f", and none of the others reaches {floor:g}" if scored else ""
        reason = f"{unscored} of {len(seen)} hits have no score of {reranker}{others}: nothing was judged."
        if on_error == "fail":
            raise StageFailed(f"{reason} Ask again, or leave on_judge_error at return-unjudged.")
        out = hits.having(seen)
        out.verdict = verdict("unjudged", reason)
        out.warnings.append(reason)
    elif passed:
        out = hits.having(passed)
        out.verdict = verdict("approved", f"{len(passed)} of {len(seen)} hits reach {floor:g}.")
        if unscored:
            out.left_out["unscored"] = [hit.id for hit in seen if hit.unscored]
            out.warnings.append(f"{unscored} hits without a score were left out by the judge.")
    else:
        out = hits.having([])
        reason = (
            "There was no candidate." if best is None else f"The best score is {best:.4f}, below {floor:g}."
        )
        out.verdict = verdict("refused", reason)
    kept = {hit.id for hit in out}
    below = [hit.id for hit in scored if hit.id not in kept]
    if below:
        out.left_out["judge"] = below
    if not steady:
        out.warnings.append(
            f"{reranker} is a language model: its scores drift from day to day, and a floor with them."
        )
    return out


def _seen(hit: Hit) -> Hit:
    score = hit.scores["rerank"]
    return replace(hit, scores={**hit.scores, "judge": score}, tier=tier_of(score))
