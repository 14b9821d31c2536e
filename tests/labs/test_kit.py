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

from autograder import kit, recorded
from autograder.checks import exercises
from autograder.course import Course
from autograder.references import references

sys.path.insert(0, str(Path(__file__).parents[1] / "graders"))
from sheets import all_sheets

ROOT = Path(__file__).parents[2]
LAB = "02-allocate"
# Its solution is handed out: the learner finds the one line in it that is wrong.
GIVEN = {"overlaps"}


@pytest.fixture(scope="module")
def handed_out(tmp_path_factory):
    """A kit with one lab: its folder, with the wheel unpacked in ``site``."""
    folder = tmp_path_factory.mktemp("kit")
    shutil.copytree(ROOT / "labs" / LAB, folder / "labs" / LAB)
    (folder / "course").mkdir()
    (folder / "course" / "secret").write_text("b10cc0de" * 8 + "\n")  # always the same constants
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


def test_no_line_of_a_solution_stands_in_what_is_recorded_of_the_references(handed_out):
    written = {line for _, body in solutions() for line in body if len(line) > 20}
    files = sorted((handed_out[0] / "site" / "autograder" / "records").iterdir())
    held = "\n".join(words for file in files for words in strings(json.loads(file.read_text())))
    assert "place" in held and len(written) > 100
    assert [line for line in written if line in held] == []


def strings(value: object) -> list[str]:
    """Every text in a JSON value, the names in it too."""
    if isinstance(value, str):
        return [value]
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in strings(part)]


def test_what_is_recorded_has_full_marks_and_is_the_same_when_it_is_made_again(handed_out, tmp_path):
    home, secret = handed_out
    records = home / "site" / "autograder" / "records"
    builds = {name for name, exercise in exercises().items() if exercise.builds}
    made = recorded.write(tmp_path, Course.load(home.parents[1] / "course"))
    assert builds - set(made) == {"02.break", "04.break", "07.break", "07.plan"}  # the learner's own inputs
    assert {name: one["points"] for name, one in made.items()} == {n: one["of"] for n, one in made.items()}
    assert all(one["points"] > 1 and one["runs"] for one in made.values())
    found = {file.name: file.read_bytes() for file in records.iterdir()}
    assert found == {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert sum(map(len, found.values())) < 1_000_000


@pytest.mark.parametrize("exercise", ["01.overlap", "02.first-fit", "02.best-fit", "03.block-pool", "04.rank"])
def test_the_first_answer_that_differs_from_the_references_is_told(exercise, handed_out, monkeypatch, capsys):
    home, _ = handed_out
    monkeypatch.chdir(home / LAB)
    records = home / "site" / "autograder" / "records"
    recorded.compare(exercise, references()[exercise], records)
    alike = capsys.readouterr().out.splitlines()
    assert len(alike) > 2 and all(line.endswith("answers are the reference's.") for line in alike[1:])
    sheet = next(sheet for sheet in all_sheets() if sheet.exercise == exercise)
    wrong = next(iter(sheet.wrong.values())).hands_in
    recorded.compare(exercise, wrong, records)
    told = capsys.readouterr().out
    assert "are alike; then" in told or "something differs" in told
    assert told.splitlines()[1:] != alike[1:] and len(told.splitlines()) == len(alike)


def test_a_record_of_another_course_is_not_compared_with(handed_out, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "course.json").write_text(json.dumps({"course_id": "other", "rules": {"02.first-fit": {}}}))
    recorded.compare("02.first-fit", object, handed_out[0] / "site" / "autograder" / "records")
    assert capsys.readouterr().out.startswith("02.first-fit: there is no record of it for this course. There are: 01.account,")


# An installation for development finds in the checkout what the kit does not hold.
ALONE = "import sys; sys.meta_path[:] = [one for one in sys.meta_path if 'editable' not in repr(one)]\n"


def from_the_kit(home: Path, code: str, *more: Path) -> str:
    """What ``code`` prints in the kit's lab folder with the kit's own packages."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (home / "site", *more)))
    done = subprocess.run(
        [sys.executable, "-c", ALONE + code],
        cwd=home / LAB,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_lab_of_the_kit_begins_in_a_place_without_the_repository(handed_out):
    home, _ = handed_out
    printed = from_the_kit(
        home,
        "from autograder.learner import learner, puzzle, predict, show_message\n"
        "from gpulab import datasets\n"
        "learner('ada'); show_message('02.first-fit')\n"
        "print(len(datasets.load('azure-code-2023')), datasets.__file__)",
    )
    assert "Hello ada. Course: " in printed and "Course: self" not in printed
    assert str(home / "site") in printed


def test_every_build_that_is_right_passes_its_check_with_the_kit_alone(handed_out, tmp_path):
    home, _ = handed_out
    shutil.copytree(ROOT / "autograder" / "references", tmp_path / "answers")
    printed = from_the_kit(
        home,
        "from answers import references\n"
        "from autograder.learner import check\n"
        "from autograder.recorded import compare\n"
        "from importlib.util import find_spec\n"
        "print(find_spec('autograder.references'))\n"
        "for name, right in references().items():\n"
        "    shown = check(name, right)\n"
        "    print(name, shown.passed, shown.score.max_points > 1)\n"
        "compare('02.best-fit', references()['02.best-fit'])\n",
        tmp_path,
    )
    lines = printed.splitlines()
    passed = [f"{name} True True" for name in references()]
    assert lines[: len(passed) + 1] == ["None", *passed]
    assert lines[len(passed) + 1] == "02.best-fit: yours 2, the reference 2 of 2 points."
