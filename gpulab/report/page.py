"""One offline page with everything that is read out of a ledger: to mail to a colleague.

One file, no script, nothing fetched; each picture has its words and its table. Text is escaped.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape

from gpulab.report import markup, sections
from gpulab.report.audit import audit
from gpulab.report.legend import plain
from gpulab.report.requests_section import requests
from gpulab.report.table import table
from gpulab.telemetry.ledger import Ledger

_STYLE = """
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #222222; background: #ffffff;
  font: 16px/1.5 "Liberation Sans", Arial, sans-serif; }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 0.5rem; }
figure { margin: 1rem 0 2rem; }
figcaption { color: #444444; }
svg { max-width: 100%; height: auto; overflow: visible; }
table { border-collapse: collapse; font-size: 14px; }
caption { color: #444444; padding: 0.25rem 0; }
th, td { border-bottom: 1px solid #bbbbbb; }
.wide { overflow-x: auto; margin: 1rem 0; }
.sound, .broken { border-left: 6px solid #0072b2; padding-left: 0.75rem; }
.broken { border-color: #d55e00; }
"""


@dataclass(frozen=True)
class Page:
    """``html`` is the page; ``pictures`` counts those in it, ``violations`` the broken laws that it tells."""

    html: str
    pictures: int
    violations: int


def page(
    ledger: Ledger, name: str, *, notes: Iterable[str] = (), tick: Callable[[str], None] = lambda what: None
) -> Page:
    """The report of ``ledger``, which is called ``name``; ``notes`` stand at its top.

    ``tick`` is told what is being done. What a ledger has nothing of is left out; what cannot be drawn is a
    sentence that says why. At most six levels and six resources are drawn, the rest is named.

    Raises:
        ImportError: Altair or vl-convert is not installed.
    """
    tick("checking")
    name = plain(name)
    broken = audit(ledger)
    parts = [
        f"<h1>Report of {escape(name)}</h1>",
        *(markup.said(note) for note in notes),
        *sections.summary(ledger),
    ]
    parts += sections.verdict(ledger, broken)
    parts += sections.accounts(ledger, tick)
    tick("reading the requests")
    parts += requests(ledger)
    for title, draw in sections.pictures(ledger):
        if draw is None:
            parts.append(f"<h2>{escape(title)}</h2>")
        else:
            tick(f"drawing {title}")
            parts += markup.drawn(title, draw)
    parts += ["<h2>The facts</h2>", markup.framed(table(ledger))]
    body = "\n".join(parts)
    html = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Report of {escape(name)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}</style>\n</head>\n'
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
    return Page(html, body.count("<figure"), len(broken))
