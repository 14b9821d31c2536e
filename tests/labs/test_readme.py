"""What README says is what the commands print, and its picture is the notebook's own."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpulab.cli import app

ROOT = Path(__file__).parents[2]


def test_the_replay_in_readme_prints_what_readme_shows():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    command = re.search(r"^    gpulab (replay .+)$", text, re.MULTILINE)[1]
    words = [word.strip('"') for word in re.findall(r'"[^"]+"|\S+', command)]
    printed = CliRunner().invoke(app, words).output
    shown = re.findall(r"^    (azure-conv-2023: .+|arena→extent: .+)$", text, re.MULTILINE)
    assert len(shown) == 2
    assert [line for line in printed.splitlines() if line in shown] == shown


def test_the_simulated_hour_in_readme_is_what_the_command_prints():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    command = re.search(r"^    gpulab (simulate azure.+)$", text, re.MULTILINE)[1]
    printed = CliRunner().invoke(app, command.split()).output
    shown = re.findall(r"^    ((?:azure-conv-2023 on|TTFT|TPOT|5\.5|Waiting:).+)$", text, re.MULTILINE)
    assert len(shown) == 5
    assert [line for line in printed.splitlines() if line in shown] == shown


def test_the_explanation_in_readme_is_what_the_command_prints(monkeypatch):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    command = re.search(r"^    gpulab (explain .+)$", text, re.MULTILINE)[1]
    monkeypatch.chdir(ROOT)
    printed = CliRunner().invoke(app, command.split()).output
    (shown,) = re.findall(r"^    (Fragmented: .+)$", text, re.MULTILINE)
    assert shown in printed.splitlines()


def test_the_picture_of_readme_is_the_one_stored_in_the_lab():
    notebook = json.loads((ROOT / "labs/02-allocate/02-allocate.ipynb").read_text(encoding="utf-8"))
    cell = next(cell for cell in notebook["cells"] if cell["id"] == "fit-own")
    drawn = next(output for output in cell["outputs"] if "image/svg+xml" in output.get("data", {}))
    stored = "".join(drawn["data"]["image/svg+xml"])
    assert stored == (ROOT / "labs/picture.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["README.md", "gpulab/DESIGN.md", "labs/README.md", "datasets/README.md"])
def test_every_file_that_a_page_links_to_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []
