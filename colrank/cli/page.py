"""A small self-contained page that shows the heat of a match on the words of a passage."""

from __future__ import annotations

from html import escape

from colrank.types import Explanation

_STYLE = """
body { font: 16px/1.6 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2430; background: #fff; }
h1 { font-size: 1.2rem; } h2 { font-size: 1rem; margin-top: 2rem; }
.passage { white-space: pre-wrap; border-left: 4px solid #d8dee8; padding-left: 1rem; }
mark { color: inherit; border-radius: .2em; padding: .05em 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #e4e8ef; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.note { color: #5b6675; font-size: .85rem; }
"""


def explanation_page(explanation: Explanation) -> str:
    """Return an HTML page: the passage with its matched words shaded by what they add to the score."""
    title = _heated(explanation, in_title=True)
    rows = "".join(
        f"<tr><td>{escape(match.token)}</td><td>{escape(match.match)}</td>"
        f'<td class="n">{match.similarity:.3f}</td><td class="n">{match.weight:.2f}</td>'
        f'<td class="n">{match.contribution:.3f}</td></tr>'
        for match in explanation.tokens
    )
    return (
        '<!doctype html>\n<html><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(explanation.id)}</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>{escape(explanation.query)}</h1>\n"
        f'<p class="note">{escape(explanation.id)} &middot; score {explanation.score:.4f}, the sum of the '
        "last column. The darker a word, the more it adds.</p>\n"
        f"<h2>{title}</h2>\n"
        f'<div class="passage">{_heated(explanation, in_title=False)}</div>\n'
        '<h2>Token by token</h2><table><tr><th>query token</th><th>best token</th><th class="n">similarity'
        f'</th><th class="n">weight</th><th class="n">adds</th></tr>{rows}</table>\n</body></html>\n'
    )


def _heated(explanation: Explanation, *, in_title: bool) -> str:
    text = explanation.title if in_title else explanation.text
    heat = [0.0] * len(text)
    for match in explanation.tokens:
        for span in match.spans if match.in_title == in_title else ():
            for at in range(span.start, min(span.end, len(text))):
                heat[at] += max(0.0, match.contribution)
    most = max((match.contribution for match in explanation.tokens), default=0.0) or 1.0
    out, at = [], 0
    while at < len(text):
        end = at
        while end < len(text) and heat[end] == heat[at]:
            end += 1
        piece = escape(text[at:end])
        if heat[at] > 0:
            shade = min(1.0, 0.12 + 0.6 * heat[at] / most)
            piece = f'<mark style="background: rgba(240, 138, 36, {shade:.2f})">{piece}</mark>'
        out.append(piece)
        at = end
    return "".join(out)
