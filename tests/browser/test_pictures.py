"""Every picture in a real JupyterLab, as nbconvert's page, and the report page, in a real browser, offline.

The notebook is opened with its stored outputs, so no kernel runs. What was seen stays in ``artifacts/``.
"""

import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import expect

from gpulab.report.account import Account
from gpulab.report.charts import (
    account_bar,
    account_over_time,
    goodput,
    lanes,
    latency,
    linked,
    memory_map,
    queue_over_time,
    side_by_side,
    use_over_time,
    waiting_bars,
)
from gpulab.report.page import page as report_page
from gpulab.report.waiting import Waiting
from gpulab.telemetry.events import (
    Claimed,
    Closed,
    Ended,
    Freed,
    Granted,
    Launched,
    Occupied,
    Opened,
    Started,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Contiguous
from tests.browser.page import COLOURS, PATIENCE_MS, TOKEN, browser_page
from tests.fakes.serving import Lottery

RUN = Ledger(
    [
        Opened(0, "arena", 8, "B"),
        *(Claimed(10, 0, "arena", 6, Contiguous(6), "a"), Granted(10, 0, 0, 6)),
        *(Claimed(20, 1, "arena", 4, Contiguous(4), "b"), Launched(20, 0, "main", "saxpy", 8, 100)),
        *(Started(25, 0), Occupied(25, 4, 8), Ended(45, 0), Occupied(45, 0, 0)),
        *(Freed(50, 0), Granted(50, 1, 0, 4), Closed(100)),
    ]
)
SERVED = Lottery("1/browser", 30).run()


@pytest.fixture(scope="module")
def pictures():
    account = Account(RUN)
    return [
        linked(use_over_time(RUN, time="ns"), memory_map(RUN, time="ns"), account_over_time(account)),
        *(memory_map(RUN), use_over_time(RUN), queue_over_time(RUN)),
        *(lanes(RUN), lanes(RUN, "sm"), lanes(SERVED, "request")),
        *(account_bar(account()), account_over_time(account)),
        latency({"one": [1, 2, 3], "two": [2, 3, 4]}, 3),
        goodput({"one": [(1, 1), (2, 1)], "two": [(1, 1), (2, 2)]}),
        waiting_bars(Waiting(SERVED).requests),
        side_by_side(queue_over_time(RUN, width=300), queue_over_time(RUN, width=300)),
    ]


@pytest.fixture(scope="module")
def notebook(pictures):
    """A notebook in which each picture is the output of a cell."""
    cells = []
    for number, picture in enumerate(pictures):
        data, metadata = picture._repr_mimebundle_()
        output = nbformat.v4.new_output("execute_result", data, metadata=metadata, execution_count=1)
        cells.append(
            nbformat.v4.new_code_cell(picture.title, id=f"p{number}", outputs=[output], execution_count=1)
        )
    return nbformat.v4.new_notebook(cells=cells)


def test_jupyterlab_draws_every_picture_and_one_selection_moves_the_linked_ones(clone, lab, seen, notebook):
    troubles = []
    with browser_page(troubles, seen) as page:
        nbformat.write(notebook, clone / "work" / "pictures.ipynb")
        page.goto(f"{lab.partition('/tree/')[0]}/tree/pictures.ipynb?reset&token={TOKEN}")
        drawn = page.locator(".jp-Notebook .vega-embed").locator("canvas, svg.marks")
        expect(drawn).to_have_count(len(notebook.cells), timeout=PATIENCE_MS)
        for number in range(len(notebook.cells)):
            drawn.nth(number).scroll_into_view_if_needed()
            assert drawn.nth(number).evaluate(COLOURS) > 2, notebook.cells[number].source
        page.set_viewport_size({"width": 1366, "height": 1500})
        drawn.first.scroll_into_view_if_needed()
        box = drawn.first.bounding_box()
        upper = {"x": box["x"], "y": box["y"], "width": 600, "height": 200}
        lower = {**upper, "y": box["y"] + 400, "height": 500}
        page.mouse.click(box["x"] + 5, box["y"] + 5)  # the first click only chooses the cell
        before = [page.screenshot(clip=clip) for clip in (upper, lower)]
        page.mouse.move(box["x"] + 150, box["y"] + 100)
        page.mouse.down()
        page.mouse.move(box["x"] + 350, box["y"] + 110, steps=5)
        page.mouse.up()
        page.mouse.move(box["x"] + 5, box["y"] + 5)
        page.wait_for_timeout(500)
        after = [page.screenshot(clip=clip) for clip in (upper, lower)]
        drawn.first.screenshot(path=seen / "linked.png")

    assert troubles == []
    assert before[0] != after[0], "nothing was selected"
    assert before[1] != after[1], "the others did not follow"


def test_nbconvert_and_the_report_show_every_picture_offline(pictures, notebook, seen, tmp_path):
    html, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    (tmp_path / "notebook.html").write_text(html, encoding="utf-8")
    (tmp_path / "report.html").write_text(report_page(SERVED, "served").html, encoding="utf-8")
    troubles, asked = [], []
    with browser_page(troubles, seen) as page:
        page.goto((tmp_path / "notebook.html").as_uri())
        shown = page.locator("img[src^='data:image/svg']")
        assert shown.count() == len(pictures)
        assert all(
            shown.nth(number).evaluate("image => image.naturalWidth") > 300 for number in range(len(pictures))
        )
        page.on("request", lambda request: asked.append(request.url))
        page.goto((tmp_path / "report.html").as_uri())
        figures = page.locator("figure svg[role=img]")
        assert figures.count() == 9
        assert all(figures.nth(number).bounding_box()["height"] > 40 for number in range(9))
        page.screenshot(path=seen / "report.png", full_page=True)

    assert troubles == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
