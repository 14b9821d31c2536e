"""The whole way with nbgrader's own commands over a local exchange: hand out, hand in, grade, hand back."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.checks.lab02 import exercises

FULL = str(sum(exercise.points for exercise in exercises()))
CONFIG = Path(__file__).parents[2] / "autograder"
BIN = Path(sys.executable).parent

QUIET_START = "from gpulab.startup import skip_slow_grammar\nskip_slow_grammar()\n"


class Person:
    """Somebody with a home of their own, who types commands."""

    def __init__(self, home: Path, environment: dict[str, str]) -> None:
        self.home = home
        home.mkdir(parents=True)
        self.environment = environment | {"HOME": str(home), "JUPYTER_DATA_DIR": str(home / "jupyter")}

    def types(self, *command: str, folder: Path | None = None, status: int = 0) -> str:
        """What the command says; its exit status must be ``status``."""
        done = subprocess.run(
            [str(BIN / command[0]), *command[1:]],
            cwd=folder or self.home,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    def nbgrader(self, *arguments: str) -> str:
        """nbgrader with the shipped configuration."""
        return self.types("nbgrader", *arguments)


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """An instructor and two learners, who share the exchange and nothing else."""
    folder = tmp_path_factory.mktemp("chain")
    (folder / "course").mkdir()
    (folder / "course" / "secret").write_text("self\n")  # the source's answers are those of the open door
    (folder / "start").mkdir()
    (folder / "start" / "sitecustomize.py").write_text(QUIET_START)  # 0.75 s less for each command
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    environment = kept | {
        "PYTHONPATH": str(folder / "start"),
        "JUPYTER_CONFIG_PATH": str(CONFIG),
        "GPULAB_COURSE": str(folder / "course"),
        "GPULAB_EXCHANGE": str(folder / "exchange"),
    }
    names = ("instructor", "solved", "untouched")
    return folder, {name: Person(folder / name, environment) for name in names}


LAB = "02-allocate"
SOURCE = Path(__file__).parents[2] / "labs" / LAB / f"{LAB}.ipynb"


@pytest.fixture(scope="module")
def chain(people):
    """The commands in order, once for all tests; what each printed, by its name."""
    folder, person = people
    teacher, said = person["instructor"], {}
    said["generate_assignment"] = teacher.nbgrader("generate_assignment", LAB)
    said["release_assignment"] = teacher.nbgrader("release_assignment", LAB)
    for name in ("solved", "untouched"):
        person[name].nbgrader("fetch_assignment", LAB)
        if name == "solved":
            shutil.copyfile(SOURCE, person[name].home / LAB / f"{LAB}.ipynb")
        said[f"submit {name}"] = person[name].nbgrader("submit", LAB, f"--student={name}")
    said["collect"] = teacher.nbgrader("collect", LAB)
    said["autograde"] = teacher.nbgrader("autograde", LAB)
    said["generate_feedback"] = teacher.nbgrader("generate_feedback", LAB)
    said["release_feedback"] = teacher.nbgrader("release_feedback", LAB)
    said["fetch_feedback"] = person["solved"].nbgrader("fetch_feedback", LAB)
    said["export"] = teacher.nbgrader("export", f"--to={folder / 'by-nbgrader.csv'}")
    return said


def test_the_source_scores_full_marks_and_the_release_nothing(people, chain):
    folder, _ = people
    assert marks(folder / "by-nbgrader.csv") == {"solved": FULL, "untouched": "0.0"}


def marks(file: Path) -> dict[str, str]:
    return {row["student_id"]: row["score"] for row in csv.DictReader(file.read_text().splitlines())}


def test_a_learner_fetches_a_feedback_page_with_the_judges_words(people, chain):
    (page,) = (people[1]["solved"].home / LAB / "feedback").rglob("*.html")
    text = page.read_text()
    assert 'class="gpulab-feedback"' in text
    assert "02.first-fit: 6 of 6 points" in text
    assert "untouched" not in text


def test_nbgraders_own_release_is_the_one_our_command_would_build(people, chain):
    said = people[1]["instructor"].types("python", "-m", "autograder", "release", LAB, "--exchange")
    assert f"{LAB}: the release is up to date" in said
    assert f"{LAB}: in the exchange, to be fetched" in said


def test_nbgrader_hands_out_and_in_through_the_configured_exchange(people, chain):
    exchange = people[0] / "exchange" / "gpulab"
    assert sorted(path.name for path in exchange.iterdir()) == ["feedback", "inbound", "outbound"]
    handed_in = sorted(path.name.split("+")[0] for path in (exchange / "inbound").iterdir())
    assert handed_in == ["solved", "untouched"]


def test_the_one_command_gives_the_same_marks_and_hands_back_what_it_can(people, chain):
    folder, person = people
    (folder / "course" / "submitted" / "no-notebook" / LAB).mkdir(parents=True)
    said = person["instructor"].types("python", "-m", "autograder", "grade", LAB, status=1)
    assert "no-notebook" in said
    assert marks(folder / "course" / "grades.csv") == {
        "no-notebook": "0.0",
        "solved": FULL,
        "untouched": "0.0",
    }
    rows = {
        row["student"]: row
        for row in csv.DictReader((folder / "course" / "summary.csv").read_text().splitlines())
    }
    assert rows["no-notebook"]["status"] == "refused"
    assert "is not in what was handed in" in rows["no-notebook"]["reason"]


def test_the_answers_in_the_open_repository_are_worth_little_in_a_course_with_a_secret(people, chain):
    folder, person = people
    (folder / "course" / "secret").write_text("another course\n")
    person["instructor"].types("python", "-m", "autograder", "grade", LAB, "--only", "solved")
    rows = csv.DictReader((folder / "course" / "summary.csv").read_text().splitlines())
    (row,) = (row for row in rows if row["student"] == "solved")
    assert float(row["02-first-fit"]) > 3.0  # code is code in every course
    assert float(row["02-predict-oom"]) < 1.5
    assert float(row["02-strand"]) < 1.5
    assert row["notes"] == "answers were given under the name sam"
