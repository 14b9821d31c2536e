"""What a page must keep so that everybody can read it: the rules of axe-core that apply to a page without script.

Held here: ``html-has-lang``, ``document-title``, ``heading-order``, ``page-has-heading-one``, ``landmark-one-main``,
``svg-img-alt``, ``th-has-data-cells``, ``scrollable-region-focusable``, ``duplicate-id``, ``color-contrast``
(WCAG 2.1, 1.4.3: at least 4.5 to 1), and that a figure has a name and a caption, and a table a caption.
Sources: the rule names of axe-core 4; WCAG 2.1.
"""

import re
from html.parser import HTMLParser

_VOID = {"meta", "br", "hr", "img", "link", "input"}
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other="#ffffff"):
    """WCAG 2.1, success criterion 1.4.3."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


class _Checker(HTMLParser):
    def __init__(self):
        super().__init__()
        self.wrong, self.open, self.headings, self.ids = [], [], [], set()
        self.seen, self.text = set(), ""

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag not in _VOID:
            self.open.append((tag, given))
        self.seen.add(tag)
        self.text = ""
        if given.get("id") in self.ids and "id" in given:
            self.wrong.append(f"duplicate-id: {given['id']}")
        self.ids.add(given.get("id"))
        for name, value in attributes:
            if name in ("src", "href", "xlink:href") and not value.startswith("#"):
                self.wrong.append(f"asks for {value}")
            if name.startswith("on"):
                self.wrong.append(f"runs {name}")
        check = getattr(self, f"_{tag}", None)
        if check is not None:
            check(given)
        if re.fullmatch("h[1-6]", tag):
            before = self.headings[-1] if self.headings else 0
            if int(tag[1]) > before + 1:
                self.wrong.append(f"heading-order: {tag} after h{before}")
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in _VOID:
            self.open.pop()

    def _html(self, given):
        if not given.get("lang"):
            self.wrong.append("html-has-lang")

    def _svg(self, given):
        if given.get("role") != "img" or not given.get("aria-label"):
            self.wrong.append("svg-img-alt")

    def _figure(self, given):
        if not given.get("aria-label"):
            self.wrong.append("a figure without a name")
        self.seen.discard("figcaption")

    def _th(self, given):
        if given.get("scope") not in ("col", "row"):
            self.wrong.append("th-has-data-cells")

    def _table(self, given):
        self.seen -= {"caption", "th"}

    def _script(self, given):
        self.wrong.append("a script")

    def _div(self, given):
        if given.get("class") == "wide" and not (given.get("tabindex") == "0" and given.get("aria-label")):
            self.wrong.append("scrollable-region-focusable")

    def _text(self, given):
        fill = given.get("fill", "#000000")
        colour = {"white": "#ffffff", "black": "#000000"}.get(fill, fill)
        if (
            colour != "#ffffff" and contrast(colour) < 4.5
        ):  # white text stands in parts: held where they are made
            self.wrong.append(f"color-contrast: {colour}")

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1][0] == "style":
            for colour in re.findall(r"(?<![-\w])color: (#[0-9a-f]{6})", data):
                if contrast(colour) < 4.5:
                    self.wrong.append(f"color-contrast: {colour}")

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            self.wrong.append(f"{tag} closes what it did not open")
        if tag in ("title", "figcaption", "caption", "summary", "h1", "h2", "h3") and not self.text.strip():
            self.wrong.append(f"an empty {tag}")
        if tag == "figure" and "figcaption" not in self.seen:
            self.wrong.append("a figure without a caption")
        if tag == "table" and not {"caption", "th"} <= self.seen:
            self.wrong.append("a table without caption or headers")


def broken_rules(html):
    """What in ``html`` breaks a rule, in order; none for a page that keeps them all."""
    checker = _Checker()
    checker.feed(html)
    wrong = checker.wrong + [
        f"{tag} is missing" for tag in ("title", "main", "h1") if tag not in checker.seen
    ]
    if checker.headings.count(1) != 1:
        wrong.append("page-has-heading-one")
    return wrong
