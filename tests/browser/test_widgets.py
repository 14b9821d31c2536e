"""Controls in a real JupyterLab: used with the keyboard, seen by a browser, in one notebook made here."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import expect

from tests.browser.page import COLOURS, TOKEN, Notebook, browser_page, idle, run_all

SETUP = """\
from autograder.learner import predict, predict_form
from gpulab.memory.operations import run_operations
from gpulab.memory.pools import CuPyPool
from gpulab.report.account import Account
from gpulab.report.charts import account_bar, memory_map, use_over_time
from gpulab.report.widgets import playground, scrub
from gpulab.units import GiB

def run(last_gib):
    if last_gib > 6:
        raise ValueError("no such card")
    steps = [["alloc", "a", GiB], ["alloc", "t", 4 * GiB], ["free", "t"], ["alloc", "b", GiB], ["free", "a"]]
    return run_operations(CuPyPool(8 * GiB), [*steps, ["alloc", "c", GiB], ["alloc", "d", last_gib * GiB]])

ledger = run(5)"""
PREDICT = 'predict("02.predict-oom", largest_a=None, largest_b=None)'
CELLS = (
    SETUP,
    "memory_map(ledger)",
    "use_over_time(ledger)",
    "account_bar(Account(ledger)())",
    "scrub(ledger)",
    'predict_form("02.predict-oom")',
    PREDICT,
    "playground(run, last_gib=(2, 8, 3))",
)
LINES = """output => [...output.querySelectorAll("svg line")]
    .filter(line => line.getAttribute("stroke-width") === "2")
    .map(line => line.getAttribute("transform"))"""


@pytest.fixture(scope="module")
def troubles():
    """What the browser's console called an error."""
    return []


@pytest.fixture(scope="module")
def notebook(clone, lab, seen, troubles):
    """The notebook of ``CELLS`` in an open browser, with all cells run."""
    file = clone / "work" / "controls.ipynb"
    nb = new_notebook(cells=[new_code_cell(source, id=f"cell-{n}") for n, source in enumerate(CELLS)])
    nb.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(nb, file)
    with browser_page(troubles, seen) as page:
        page.goto(f"{lab.partition('/tree/')[0]}/tree/controls.ipynb?reset&token={TOKEN}")
        idle(page)
        run_all(page)
        yield Notebook(page, file)


def tab_to(page, words, steps=40):
    """Press Tab until what has the focus shows or is called ``words``."""
    for _ in range(steps):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "(e => [e.innerText, e.title, e.ariaLabel, e.closest('.widget-inline-hbox')?.innerText].join(' '))(document.activeElement)"
        )
        if words in name:
            return
    raise AssertionError(f"Tab does not reach {words!r}")


@pytest.mark.parametrize("chart", CELLS[1:4])
def test_every_chart_shows_more_than_two_colours(notebook, seen, chart):
    assert notebook.picture(chart).evaluate(COLOURS) > 2
    notebook.cell(chart).screenshot(path=seen / f"{chart.partition('(')[0]}.png")


def test_every_view_follows_the_scrubber_by_keyboard(notebook, seen):
    cell, page = notebook.cell("scrub(ledger)"), notebook.page
    drawing = cell.locator("svg").first
    expect(drawing).to_be_visible()
    assert drawing.evaluate(COLOURS) > 2
    at_the_end = cell.evaluate(LINES)
    assert len(at_the_end) == 3  # the map, held, waiting
    assert len(set(at_the_end)) == 1
    cell.locator(".jp-InputPrompt").click()
    tab_to(page, "Event")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(cell).to_contain_text("Event #22 of #0 to #24. device→extent: used 2 GiB (25.0 %)")
    expect(cell).to_contain_text("→ #22")
    expect(cell).to_contain_text("#22, 6.000 µs: Refused")
    moved = cell.evaluate(LINES)
    assert len(set(moved)) == 1
    assert moved != at_the_end
    page.screenshot(path=seen / "scrub.png")


def test_the_other_controls_of_the_scrubber_work_by_keyboard(notebook, seen):
    cell, page = notebook.cell("scrub(ledger)"), notebook.page
    cell.locator(".jp-InputPrompt").click()
    tab_to(page, "Time")
    page.keyboard.press("Home")
    expect(cell).to_contain_text("Event #5 of #0 to #24")
    tab_to(page, "Next event")
    page.keyboard.press("Enter")
    expect(cell).to_contain_text("Event #6 of #0 to #24")
    tab_to(page, "Play")
    page.keyboard.press("Space")
    expect(cell).to_contain_text(re.compile(r"Event #([789]|1\d|2[0-3]) of #0 to #24"))
    page.keyboard.press("Space")
    expect(cell.get_by_role("button", name="Play")).to_be_visible()
    cell.get_by_label("Event #").fill("19")
    page.keyboard.press("Enter")
    expect(cell).to_contain_text("Event #19 of #0 to #24")
    cell.get_by_label("Level").select_option("device→pool")
    expect(cell).to_contain_text("Event #19 of #0 to #24. device→pool: ")


def test_the_form_shows_the_line_and_is_shut_once_the_cell_has_committed(notebook, seen):
    form, page = notebook.cell("predict_form("), notebook.page
    form.get_by_label("largest_a").fill("five")
    expect(form).to_contain_text("Not a number: largest_a.")
    form.get_by_label("largest_a").fill("5_000")
    form.get_by_label("largest_b").fill("7")
    line = 'predict("02.predict-oom", largest_a=5000, largest_b=7)'
    expect(form.get_by_label("line of code")).to_have_text(line)
    form.screenshot(path=seen / "form-open.png")

    notebook.write(PREDICT, form.get_by_label("line of code").inner_text())
    notebook.run(PREDICT)
    expect(notebook.cell(PREDICT)).to_contain_text("02.predict-oom: committed: largest_a=5000, largest_b=7.")
    expect(form).to_contain_text("Committed.")
    expect(form.get_by_label("largest_a")).to_be_disabled()
    expect(form.get_by_label("largest_a")).to_have_value("5000")

    notebook.write(PREDICT, line.replace("5000", "1"))
    notebook.run(PREDICT)
    expect(notebook.cell(PREDICT)).to_contain_text(
        "already committed, and it stays: largest_a=5000, largest_b=7"
    )
    notebook.run("predict_form(")  # also in a form that is made later
    expect(form.get_by_label("largest_a")).to_have_value("5000")
    expect(form.get_by_label("line of code")).to_have_text(line)
    page.screenshot(path=seen / "form-shut.png")


def test_the_playground_shows_both_runs_and_says_why_one_stopped(notebook, seen):
    cell, page = notebook.cell("playground("), notebook.page
    cell.scroll_into_view_if_needed()
    expect(cell.get_by_role("img")).to_have_count(1)
    cell.locator(".jp-InputPrompt").click()
    tab_to(page, "last_gib")
    page.keyboard.press("ArrowRight")
    expect(cell.get_by_role("img", name="last_gib=5")).to_be_visible()
    expect(cell.get_by_role("img", name="last_gib=2")).to_be_visible()
    assert all(picture.evaluate(COLOURS) > 2 for picture in cell.get_by_role("img").all())
    page.screenshot(path=seen / "playground.png")
    page.keyboard.press("End")
    expect(cell).to_contain_text("run(last_gib=8) stopped: ValueError: no such card")
    expect(cell.get_by_role("img", name="last_gib=5")).to_be_visible()
    cell.screenshot(path=seen / "playground-stopped.png")


def test_no_error_stood_in_the_console(notebook, troubles):
    assert troubles == []
