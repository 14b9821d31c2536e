"""What a learner's notebook may put onto the form grader's page, which stands in the instructor's own session."""

from html.parser import HTMLParser

import pytest
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell
from traitlets.config.loader import PyFileConfigLoader

from autograder.frame import CONFIG
from autograder.harmless import harmless

STEAL = "steal()"
LINK = f"javascript:{STEAL}"
SVG = f'<svg xmlns="http://www.w3.org/2000/svg"><script>{STEAL}</script></svg>'


def page(*cells, **resources) -> str:
    """What the form grader's exporter makes of the cells, without its own head."""
    config = PyFileConfigLoader(CONFIG.name, path=str(CONFIG.parent)).load_config()
    config.HTMLExporter.template_name = "classic"
    nb = new_notebook(cells=list(cells))
    nb.metadata = {"title": STEAL, "language_info": {"name": f'"><script>{STEAL}</script>'}}
    text, _ = HTMLExporter(config=config).from_notebook_node(nb, resources)
    return text[text.index("<body") :]


def shown(data, **metadata):
    return new_code_cell("show()", outputs=[new_output("display_data", data, metadata=metadata)])


class Running(HTMLParser):
    """Collects what runs, loads or takes the place of the page's own boxes; nbconvert's own classes may stay."""

    KINDS = ("script", "style", "iframe", "svg", "math", "form", "button", "input", "object", "embed", "base")

    def __init__(self) -> None:
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes) -> None:
        self.found += [tag] if tag in self.KINDS else []
        self.found += [(tag, *pair) for pair in attributes if self.acts(*pair)]

    @staticmethod
    def acts(name: str, value: str | None) -> bool:
        if name in ("href", "src", "action", "srcdoc"):
            return value != "data:image/svg+xml;base64,AA"
        return name.startswith("on") or value in ("01-sentence", "score") or "steal" in (value or "")


@pytest.mark.parametrize(
    "text",
    [
        f"<script>{STEAL}</script>",
        f'<img src="x" onerror="{STEAL}">',
        f'<svg onload="{STEAL}"></svg>',
        f'<a href="{LINK}">look</a>',
        f'<a href=" &#106;ava\tscript:{STEAL}">look</a>',
        f'<iframe srcdoc="<script>{STEAL}</script>"></iframe>',
        f'<details open ontoggle="{STEAL}">look</details>',
        f'<form action="{LINK}"><button>look</button></form>',
        f'<p style="background: url({LINK})">look</p>',
        f'<math><mtext></form><form><mglyph><style></math><img src onerror="{STEAL}">',
        f"<!--><script>{STEAL}</script>-->",
        f'<img src="data:image/svg+xml;base64,AA" onload="{STEAL}">',
        f'<a href="data:text/html,<script>{STEAL}</script>">look</a>',
        '<a href="evil.html">look</a>',
        '<img src="http://elsewhere.example/seen.png">',
        '<div id="01-sentence" class="score">look</div>',
    ],
)
def test_html_of_a_learner_can_only_be_looked_at(text):
    cells = new_markdown_cell(text), shown({"text/html": text}), shown({"text/markdown": text})
    for whole in (harmless(text), *map(page, cells)):
        running = Running()
        running.feed(whole)
        running.close()
        assert running.found == []


def test_outputs_that_are_programs_are_left_out_and_pictures_stay_pictures():
    assert STEAL not in page(shown({"application/javascript": STEAL}))
    assert STEAL not in page(shown({"image/png": f'AA"><script>{STEAL}</script>'}))
    assert STEAL not in page(shown({"image/png": "AAAA"}, **{"image/png": {"width": f"1 onerror={STEAL}"}}))
    assert STEAL not in page(
        shown({"application/vnd.jupyter.widget-view+json": {"model_id": STEAL}, "text/plain": "a widget"})
    )
    assert "data:image/png;base64,AAAA" in page(shown({"image/png": "AAAA"}))
    drawn = page(shown({"image/svg+xml": SVG}))
    assert "data:image/svg+xml;base64," in drawn and STEAL not in drawn


def test_a_raw_cell_is_text_and_cannot_take_the_place_of_the_boxes_for_marks():
    boxes = '<div class="nbgrader_cell"><span id="01-sentence"></span><div class="full-credit">look</div></div>'
    seen = page(new_raw_cell(boxes))
    assert "&lt;span id=" in seen and "<span id=" not in seen and '<div class="nbgrader' not in seen


def test_html_that_would_take_minutes_to_clean_stays_text():
    assert harmless("<ul><li>" * 20_000).startswith("&lt;ul&gt;")


def test_names_in_the_notebook_cannot_leave_their_place():
    cell = new_code_cell("1", metadata={"nbgrader": {"grade_id": f'"><script>{STEAL}</script>'}})
    cell.metadata["tags"] = [f'"><script>{STEAL}</script>']
    assert STEAL not in page(cell)


def test_what_helps_a_reader_stays():
    text = "# Title\n\nA *word*, `a < b`, [a page](https://example.org).\n\n<details><summary>Answers</summary>Yes.</details>"
    seen = page(new_markdown_cell(text))
    for part in ("<h1>Title</h1>", "<em>word</em>", "<code>a &lt; b</code>", 'href="https://example.org"'):
        assert part in seen
    assert "<details><summary>Answers</summary>Yes.</details>" in seen
    table = '<table><caption>Two</caption><tr><th scope="col">a</th><td colspan="2">1</td></tr></table>'
    assert "<caption>Two</caption>" in page(shown({"text/html": table})) and 'colspan="2"' in harmless(table)


def test_what_the_judge_said_stays_as_it_is():
    said = '<p class="gpulab-feedback">6 of 6 points</p>'
    assert said in page(shown({"text/html": said}, gpulab={"exercise": "02.first-fit"}))
