"""A real JupyterLab and a real browser for the tests beside this file.

Needs Chromium (``.ci/run`` installs it). Nothing here reaches for the network.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "seen"
# Chromium as root in a container has no sandbox of its own; the rest keeps it from the network.
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
# A cell that is scrolled away leaves the page unless told; the test reads all of them.
SETTINGS = {"@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"}}
PATIENCE_MS = 30_000
# How many different colours the drawn picture has, white and transparent apart.
COLOURS = """picture => {
    if (picture.tagName === "CANVAS") {
        const {data} = picture.getContext("2d").getImageData(0, 0, picture.width, picture.height);
        const seen = new Map();
        for (let i = 0; i < data.length; i += 4) {
            const colour = data.slice(i, i + 3).join();
            if (data[i + 3] === 255 && colour !== "255,255,255") seen.set(colour, (seen.get(colour) || 0) + 1);
        }
        return [...seen.values()].filter(pixels => pixels > 100).length;
    }
    const fills = [...picture.querySelectorAll("path, rect")].map(shape => shape.getAttribute("fill"));
    return new Set(fills.filter(fill => fill && !["none", "transparent", "white"].includes(fill))).size;
}"""


def make_clone(folder):
    """Put the tracked files into ``folder``, as a fresh clone has them."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for name, content in SETTINGS.items():
        (folder / "settings" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "settings" / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


@contextmanager
def jupyterlab(clone):
    """The address that ``gpulab lab`` prints; the server and its kernels are gone afterwards."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPULAB_", "JUPYTER"))}
    mine = {
        "PYTHONPATH": str(clone),
        "HOME": str(clone / "home"),
        "IPYTHONDIR": str(clone / "home" / "ipython"),
    }
    settings = {"JUPYTERLAB_SETTINGS_DIR": str(clone / "settings"), "NO_COLOR": "1"}
    words = [sys.executable, "-m", "gpulab", "lab", "--no-browser", f"--IdentityProvider.token={TOKEN}"]
    log = clone / "server.log"
    with (
        log.open("w", encoding="utf-8") as out,
        subprocess.Popen(
            words, cwd=clone, stdout=out, stderr=out, env={**kept, **mine, **settings}, start_new_session=True
        ) as server,
    ):
        try:
            yield address(server, log)
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(timeout=20)
        finally:
            with_all_its_children(server.pid)


def address(server, log):
    """Where the notebook is; reads the log until the server has said so."""
    while True:
        text = log.read_text(encoding="utf-8")
        found = re.search(r"http://(?:localhost|127\.0\.0\.1):\d+/lab/[^?\s]+", text)
        if found and "is running at" in text:
            return found[0]
        try:
            server.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"gpulab lab ended with {server.returncode}:\n{log.read_text(encoding='utf-8')}")


def with_all_its_children(group):
    """End what is left of the process group of the server, which this test started."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


@contextmanager
def browser_page(troubles, seen):
    """A page 1366 by 768 px; what its console calls an error lands in ``troubles``.

    The last thing seen is kept in the folder ``seen``, whatever happens.
    """
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1366, "height": 768})
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: troubles.append(f"page error: {error}"))
        page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
        try:
            yield page
        finally:
            page.screenshot(path=seen / "last.png")
            browser.close()


class Notebook:
    """The open notebook: its cells on the page, found by what the released file says in them."""

    def __init__(self, page, file):
        self.page = page
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        self.sources = ["".join(cell["source"]) for cell in cells]
        self.code = [cell["cell_type"] == "code" for cell in cells]

    def number(self, text):
        return next(n for n, source in enumerate(self.sources) if self.code[n] and text in source)

    def cell(self, text):
        return self.page.locator(".jp-Notebook .jp-Cell").nth(self.number(text))

    def write(self, text, source):
        """Put ``source`` into the cell in place of what is there, as a learner pastes it."""
        self.cell(text).locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(source)

    def run(self, text):
        """Run the cell and wait for the number of this run."""
        before = self.cell(text).locator(".jp-InputPrompt").first.inner_text()
        self.cell(text).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        prompt = self.cell(text).locator(".jp-InputPrompt").first
        expect(prompt).not_to_have_text(before, timeout=PATIENCE_MS)
        expect(prompt).to_have_text(re.compile(r"\[\d+\]:"), timeout=PATIENCE_MS)

    def picture(self, text):
        """What is drawn under the cell."""
        drawn = self.cell(text).locator(".vega-embed").locator("canvas, svg.marks").first
        expect(drawn).to_be_visible(timeout=PATIENCE_MS)
        drawn.scroll_into_view_if_needed()
        return drawn


def idle(page):
    """Wait for a kernel with nothing to do. The notebook's own circle is empty also before there is one."""
    expect(page.locator("#jp-main-statusbar")).to_contain_text("(ipykernel) | Idle", timeout=PATIENCE_MS)


def run_all(page):
    """Run > Run All Cells, and wait until the last code cell has its number."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    last = page.locator(".jp-CodeCell").last.locator(".jp-InputPrompt")
    expect(last).to_have_text(re.compile(r"\[\d+\]:"), timeout=PATIENCE_MS)
    idle(page)
