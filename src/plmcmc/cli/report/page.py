"""Pieces of an HTML page that stands alone: no script, no link, nothing from elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from plmcmc.cli.printable import one_line

STYLE = """
:root { color-scheme: light; --ink: #1f2933; --soft: #5b6770; --line: #dde3e8; --mark: #c8553d; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .5rem; padding-top: 1rem;
  border-top: 1px solid var(--line); }
p, li { max-width: 46rem; }
p.soft, figcaption { color: var(--soft); font-size: .9rem; }
h1, p, li { overflow-wrap: anywhere; }
ul.numbers { list-style: none; padding: 0; margin: 1.5rem 0; display: grid; gap: .75rem;
  grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); }
ul.numbers li { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
ul.numbers b { display: block; font-size: 1.5rem; line-height: 1.3; }
ul.numbers span { color: var(--soft); font-size: .9rem; line-height: 1.3; display: block; }
ul.warnings { background: #fdf4ef; border-left: 4px solid var(--mark); border-radius: .25rem;
  margin: 1rem 0; padding: .75rem 1rem .75rem 2rem; }
ul.warnings li { margin: .35rem 0; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); vertical-align: bottom; }
th, td { padding: .3rem 1.1rem .3rem 0; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
td { vertical-align: top; }
td:first-child { min-width: 9rem; max-width: 18rem; }
td:first-child, td.words { white-space: normal; overflow-wrap: anywhere; }
td.words { min-width: 12rem; }
.number { text-align: right; }
.bar { display: inline-block; width: 6rem; height: .55rem; background: #eef1f4;
  border-radius: .2rem; overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--mark); }
figure { margin: 1rem 0; }
figure img { width: 100%; height: auto; min-width: 34rem; max-width: 60rem; display: block; }
figure img.small { width: auto; max-width: 100%; min-width: 0; }
@media print { main { max-width: none; } h2 { break-after: avoid; } }
"""
# In a cell of which there is nothing to say.
NOTHING = "–"
# A page that was tampered with could still load and run nothing.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class Html(str):
    """Text that is HTML already; all other text is escaped."""

    __slots__ = ()


def html(part: Any) -> str:
    """Return a part as HTML."""
    return part if isinstance(part, Html) else escape(one_line(str(part)))


def page(title: str, parts: Iterable[Html]) -> str:
    """Return a whole page."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def element(name: str, part: Any, kind: str = "") -> Html:
    """Return one element, of a class of the style sheet if there is a `kind`."""
    of = f' class="{kind}"' if kind else ""
    return Html(f"<{name}{of}>{html(part)}</{name}>")


def html_list(items: Iterable[Any], kind: str = "") -> Html:
    """Return a list."""
    return element("ul", Html("\n".join(element("li", item) for item in items)), kind)


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    numbers: Sequence[int] = (),
    words: Sequence[int] = (),
) -> Html:
    """Return a table; columns of `numbers` stand at the right, those of `words` may be broken."""
    kinds = dict.fromkeys(numbers, "number") | dict.fromkeys(words, "words")

    def line(name: str, cells: Sequence[Any]) -> Html:
        made = (element(name, cell, kinds.get(n, "")) for n, cell in enumerate(cells))
        return element("tr", Html("".join(made)))

    body = "\n".join(line("td", cells) for cells in rows)
    above = f"<thead>{line('th', head)}</thead>\n" if any(head) else ""
    inside = Html(f"{above}<tbody>\n{body}\n</tbody>")
    return element("div", element("table", inside), "wide")


def bar(share: float) -> Html:
    """Return a bar that is filled to a share."""
    filled = 100 * min(max(share, 0.0), 1.0)
    return Html(f'<span class="bar"><i style="width: {filled:.1f}%"></i></span>')


def picture(png: bytes, words: str, kind: str = "") -> Html:
    """Return a picture with words under it, which also tell those who do not see it."""
    source = base64.b64encode(png).decode()
    of = f' class="{kind}"' if kind else ""
    shown = Html(f'<img{of} alt="{html(words)}" src="data:image/png;base64,{source}">')
    caption = element("figcaption", words)
    return element("figure", Html(element("div", shown, "wide") + caption))
