"""What is handed out works by itself and holds no solution."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from autograder import kit

ROOT = Path(__file__).parents[2]
LAB = "02-allocate"
# Its solution is handed out: the learner finds the one line in it that is wrong.
GIVEN = {"overlaps"}


@pytest.fixture(scope="module")
def handed_out(tmp_path_factory):
    """A kit with one lab: its folder, with the wheel unpacked in ``site``."""
    folder = tmp_path_factory.mktemp("kit")
    shutil.copytree(ROOT / "labs" / LAB, folder / "labs" / LAB)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GPULAB_LABS", str(folder / "labs"))
        environment.setenv("GPULAB_COURSE", str(folder / "course"))
        packed = kit.build(folder / "gpulab-kit", lambda line: None)
    with zipfile.ZipFile(packed) as everything:
        everything.extractall(folder / "learner")
    home = folder / "learner" / "gpulab-kit"
    with zipfile.ZipFile(next(home.glob("*.whl"))) as wheel:
        wheel.extractall(home / "site")
    return home, (folder / "course" / "secret").read_text().strip()


def texts(home: Path) -> dict[str, str]:
    kinds = (".py", ".ipynb", ".md", ".json", ".toml", ".txt")
    found = [path for path in home.rglob("*") if path.is_file() and path.suffix in kinds]
    return {path.relative_to(home).as_posix(): path.read_text(encoding="utf-8") for path in found}


def test_a_kit_holds_what_a_learner_needs_and_nothing_of_the_instructors(handed_out):
    home, secret = handed_out
    names = set(texts(home))
    assert {"README.md", "requirements.txt", f"{LAB}/{LAB}.ipynb", f"{LAB}/course.json"} <= names
    assert {"site/gpulab/DESIGN.md", "site/autograder/learner.py", "datasets/README.md"} <= names
    unwanted = ("references", "instructor", "rubric", "mutants", "tests/", "labs/")
    assert [name for name in names if any(word in name for word in unwanted)] == []
    assert [name for name, text in texts(home).items() if secret in text] == []
    text = (home / "README.md").read_text()
    assert f"`{LAB}/{LAB}.ipynb`" in text and next(home.glob("*.whl")).name in text


def solutions() -> list[tuple[str, list[str]]]:
    """Every solution of every lab: what it belongs to, and its lines."""
    found = []
    for source in sorted((ROOT / "labs").glob("*/*.ipynb")):
        for cell in nbformat.read(source, as_version=4).cells:
            before, _, rest = cell.source.partition("### BEGIN SOLUTION")
            while rest:
                body, _, after = rest.partition("### END SOLUTION")
                found.append((before + body, [line.strip() for line in body.splitlines() if line.strip()]))
                before, _, rest = after.partition("### BEGIN SOLUTION")
    return found


def test_no_four_lines_of_a_solution_stand_anywhere_in_a_kit(handed_out):
    written = solutions()
    assert len(written) > 12
    shown = []
    for name, text in texts(handed_out[0]).items():
        source = "\n".join(_sources(text)) if name.endswith(".ipynb") else text
        lines = "\n".join(line.strip() for line in source.splitlines() if line.strip())
        for whole, body in written:
            if any(f"def {given}" in whole for given in GIVEN):
                continue
            runs = ("\n".join(body[n : n + 4]) for n in range(len(body) - 3))
            shown += [(name, run) for run in runs if len(run) > 40 and f"\n{run}\n" in f"\n{lines}\n"]
    assert shown == []


def _sources(notebook: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(notebook)["cells"]]


def test_a_lab_of_the_kit_begins_in_a_place_without_the_repository(handed_out):
    home, _ = handed_out
    code = (
        "from autograder.learner import learner, puzzle, predict, show_message\n"
        "from gpulab import datasets\n"
        "learner('ada'); show_message('02.first-fit')\n"
        "print(len(datasets.load('azure-code-2023')), datasets.__file__)"
    )
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment["PYTHONPATH"] = str(home / "site")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=home / LAB,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Hello ada. Course: " in done.stdout and "Course: self" not in done.stdout
    assert str(home / "site") in done.stdout
