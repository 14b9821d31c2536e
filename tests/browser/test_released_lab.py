"""The released lab in a real JupyterLab, in a real browser, as a learner meets it."""

from pathlib import Path

from playwright.sync_api import expect

from autograder.references import lab02
from tests.browser.page import COLOURS, TOKEN, Notebook, browser_page, idle, run_all

LAB, EXERCISE = "02-allocate", "02.first-fit"


def test_a_learner_sees_the_memory_map_types_a_solution_and_passes(clone, lab, seen):
    solution = Path(lab02.__file__).read_text(encoding="utf-8").partition('"""\n')[2].strip()
    prediction, watched = f'predict(\n    "{EXERCISE}"', "memory_map(bump"
    written, checked, own = "class MyAllocator", f'check("{EXERCISE}"', "memory_map(mine"
    troubles = []

    with browser_page(troubles, seen) as page:
        page.goto(
            f"{lab.partition('/tree/')[0]}/tree/{LAB}/{LAB}.ipynb?reset&token={TOKEN}"
        )  # reset: no tab of an earlier visit
        idle(page)
        notebook = Notebook(page, clone / "work" / LAB / f"{LAB}.ipynb")
        run_all(page)
        expect(notebook.cell(checked)).to_contain_text(f"{EXERCISE}: not solved yet")

        notebook.write(prediction, notebook.sources[notebook.number(prediction)].replace("None", "6"))
        notebook.run(prediction)
        notebook.run(watched)
        assert notebook.picture(watched).evaluate(COLOURS) > 2
        page.screenshot(path=seen / "memory-map.png")

        notebook.write(written, solution)
        notebook.run(written)
        notebook.run(checked)
        expect(notebook.cell(checked)).to_contain_text(f"{EXERCISE}: passed")
        page.screenshot(path=seen / "passed.png")
        notebook.run(own)
        assert notebook.picture(own).evaluate(COLOURS) > 2
        page.screenshot(path=seen / "own-map.png")

    assert troubles == []
