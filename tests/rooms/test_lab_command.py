"""gpulab/cli/lab.py: the command that a learner types, up to an answering JupyterLab, without make."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from gpulab.cli import app, lab

ROOT = Path(__file__).resolve().parents[2]
LAB = "02-allocate"
FIRST = min(path.stem for path in ROOT.glob("labs/*/*.ipynb"))  # the one that opens


class Builder:
    """A fake autograder.release: builds a folder for each lab and counts how often it had to."""

    def __init__(self, folder):
        self.folder, self.built, self.broken = folder, [], set()

    def is_stale(self, name):
        return not (self.folder / name).exists()

    def build(self, name):
        if name in self.broken:
            raise RuntimeError("the source has no solution")
        if self.is_stale(name):
            self.built.append(name)
            (self.folder / name).mkdir(parents=True)
            (self.folder / name / f"{name}.ipynb").write_text("released")
        return self.folder / name


@pytest.fixture
def repository(tmp_path):
    """A folder with two labs and a package, and nothing else."""
    (tmp_path / "gpulab").mkdir()
    for name in ("02-b", "01-a"):
        (tmp_path / "labs" / name).mkdir(parents=True)
        (tmp_path / "labs" / name / f"{name}.ipynb").write_text("source")
    (tmp_path / "labs" / "notes").mkdir()
    return tmp_path


@pytest.fixture
def builder(tmp_path):
    return Builder(tmp_path / "course" / "release")


@pytest.fixture
def command(repository, builder, monkeypatch):
    """Run ``gpulab lab`` in the repository with the fake builder; the server is only noted."""
    started = []
    monkeypatch.chdir(repository)
    monkeypatch.setattr(lab, "_release", lambda console: builder)
    monkeypatch.setattr(lab, "run_server", lambda words: started.append(words) or 0)

    def run(*arguments):
        return CliRunner().invoke(app, ["lab", *arguments])

    return SimpleNamespace(run=run, started=started)


def prepare(repository, builder, fresh=None):
    names = lab.lab_names(repository)
    return list(lab.prepare(repository, names, fresh=fresh, release=builder, console=Console(quiet=True)))


def test_the_repository_is_found_from_any_folder_inside(repository):
    deep = repository / "labs" / "01-a"
    assert lab.find_repository(deep, package=Path("/nowhere/gpulab")) == repository


def test_outside_a_repository_the_packages_own_is_taken(repository, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert lab.find_repository(elsewhere, package=repository / "gpulab") == repository
    assert lab.find_repository(elsewhere, package=elsewhere / "gpulab") is None


def test_labs_are_the_folders_that_hold_their_notebook_in_order(repository):
    assert lab.lab_names(repository) == ["01-a", "02-b"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("02-b", "02-b"), ("02-b.ipynb", "02-b"), ("02", "02-b"), ("0", None), ("", None), ("../02-b", None)],
)
def test_a_lab_may_be_named_by_its_beginning(wanted, found):
    assert lab.match_lab(wanted, ["01-a", "02-b"]) == found


def test_releases_are_built_once_and_handed_out(repository, builder):
    first, second = prepare(repository, builder), prepare(repository, builder)
    assert builder.built == ["01-a", "02-b"]
    assert [sentence.split()[0] for sentence in first] == ["Building", "01-a.ipynb", "Building", "02-b.ipynb"]
    assert second == []


def test_a_lab_that_cannot_be_built_is_named_and_the_others_go_on(repository, builder):
    builder.broken = {"01-a"}
    said = prepare(repository, builder)
    assert "The notebook of 01-a could not be built: RuntimeError: the source has no solution" in said
    assert (repository / "work" / "02-b" / "02-b.ipynb").read_text() == "released"


def test_jupyterlab_opens_on_the_first_notebook_with_root_work(command, repository):
    assert command.run("--no-browser", "--port", "9999", "--ServerApp.ip=0.0.0.0").exit_code == 0
    (words,) = command.started
    assert words[0] == sys.executable
    assert f"--ServerApp.root_dir={repository / 'work'}" in words
    assert "--LabApp.default_url=/lab/tree/01-a/01-a.ipynb" in words
    assert "--no-browser" in words
    assert "--ServerApp.port=9999" in words
    assert words[-1] == "--ServerApp.ip=0.0.0.0"


def test_no_open_prepares_and_starts_nothing(command, repository):
    result = command.run("--no-open")
    assert result.exit_code == 0
    assert "2 of 2 labs ready" in result.stdout
    assert command.started == []


def test_fresh_opens_the_lab_that_was_started_again(command, repository):
    command.run("--no-open")
    (repository / "work" / "02-b" / "02-b.ipynb").write_text("mine")
    result = command.run("--fresh", "02")
    assert "Your 02-b.ipynb is kept as 02-b.old-1.ipynb." in result.stdout
    assert (repository / "work" / "02-b" / "02-b.old-1.ipynb").read_text() == "mine"
    assert "--LabApp.default_url=/lab/tree/02-b/02-b.ipynb" in command.started[0]


def test_fresh_with_an_unknown_name_changes_nothing_and_lists_the_labs(command, repository):
    result = command.run("--fresh", "99")
    assert result.exit_code == 2
    assert "There is no lab '99'; there is: 01-a, 02-b." in result.stdout
    assert not (repository / "work").exists()


def test_without_jupyterlab_one_sentence_gives_the_pip_command(command, monkeypatch):
    monkeypatch.setattr(lab, "find_spec", lambda name: None if name == "jupyterlab" else name)
    monkeypatch.setattr(lab, "missing_packages", lambda: ["jupyterlab"])
    result = command.run()
    assert result.exit_code == 1
    assert result.stdout.count("\n") == 1
    assert f'{sys.executable} -m pip install -e ".[lab]"' in result.stdout


def test_missing_packages_are_found_without_importing_them():
    assert lab.missing_packages() == []
    assert lab.missing_packages(find=lambda name: None) == ["jupyterlab", "nbgrader"]


def test_a_builder_that_cannot_be_loaded_is_said_in_a_sentence(repository, monkeypatch):
    monkeypatch.chdir(repository)
    monkeypatch.setitem(sys.modules, "autograder", None)
    result = CliRunner().invoke(app, ["lab"])
    assert result.exit_code == 1
    assert result.stdout.startswith("The builder of the labs cannot be loaded (")


def test_nothing_to_open_is_said_and_fails(command, builder):
    builder.broken = {"01-a", "02-b"}
    result = command.run()
    assert result.exit_code == 1
    assert "nothing to open" in result.stdout
    assert command.started == []


def test_a_work_folder_that_cannot_be_written_is_said(command, repository):
    (repository / "work").write_text("a file, not a folder")
    result = command.run()
    assert result.exit_code == 1
    assert "work/ cannot be prepared" in result.stdout


def test_the_exit_status_of_the_server_is_the_commands():
    assert lab.run_server([sys.executable, "-c", "raise SystemExit(7)"]) == 7


def test_ending_the_command_ends_the_server_too():
    server = "print('up', flush=True); import time; time.sleep(600)"
    code = f"from gpulab.cli import lab; import sys; lab.run_server([sys.executable, '-c', {server!r}])"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout.readline() == "up\n"
        command.terminate()
        # The pipe closes only when both processes are gone.
        assert command.stdout.read() == ""


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """What a fresh clone holds: the files that git lists, as they are in the work tree."""
    folder = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def in_clone(clone, *arguments):
    """What ``python -m gpulab lab --no-open`` says in the clone."""
    words = [sys.executable, "-m", "gpulab", "lab", "--no-open", *arguments]
    done = subprocess.run(
        words, cwd=clone, check=False, capture_output=True, text=True, env=environment(clone)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(clone):
    """This environment, with the clone's own package first and a home folder of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPULAB_")}
    return {**kept, "PYTHONPATH": str(clone), "HOME": str(clone / "home"), "NO_COLOR": "1"}


def test_every_typed_character_survives_starts_changes_and_a_fresh_one(clone):
    assert "ready" in in_clone(clone)
    mine = clone / "work" / LAB / f"{LAB}.ipynb"
    typed = mine.read_text(encoding="utf-8").replace('"cells": [', '"cells": [ ', 1)
    mine.write_text(typed, encoding="utf-8")
    in_clone(clone)
    in_clone(clone)
    assert mine.read_text(encoding="utf-8") == typed

    source = clone / "labs" / LAB / f"{LAB}.ipynb"
    source.write_text(source.read_text(encoding="utf-8").replace("llocat", "llocaT"), encoding="utf-8")
    said = in_clone(clone)
    assert mine.read_text(encoding="utf-8") == typed
    assert f"{LAB}.new.ipynb" in said
    assert "llocaT" in mine.with_name(f"{LAB}.new.ipynb").read_text(encoding="utf-8")

    in_clone(clone, "--fresh", LAB)
    assert mine.with_name(f"{LAB}.old-1.ipynb").read_text(encoding="utf-8") == typed
    assert "llocaT" in mine.read_text(encoding="utf-8")


def test_jupyterlab_answers_on_the_notebook_without_news_and_ends_on_ctrl_c(clone):
    words = [sys.executable, "-m", "gpulab", "lab", "--no-browser", "--IdentityProvider.token=t"]
    with subprocess.Popen(
        words, cwd=clone, stderr=subprocess.PIPE, text=True, env=environment(clone), start_new_session=True
    ) as server:
        try:
            found = (re.search(r"(http://localhost:\d+)(/lab/\S+)\?token", line) for line in server.stderr)
            site, path = next(filter(None, found)).groups()
            page = read(site + path)
            news = read(f"{site}/lab/api/settings/@jupyterlab/apputils-extension:notification")
            contents = read(f"{site}/api/contents/{FIRST}/{FIRST}.ipynb?content=0")
            os.killpg(server.pid, signal.SIGINT)
            server.stderr.read()
            assert server.wait() == 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)  # the command and the JupyterLab below it
    assert path == f"/lab/tree/{FIRST}/{FIRST}.ipynb"
    assert "<title>JupyterLab</title>" in page
    assert json.loads(news)["schema"]["properties"]["fetchNews"]["default"] == "false"
    assert json.loads(contents)["type"] == "notebook"


def read(address):
    """The body at ``address``; the server prints its address a moment before it listens."""
    asked = urllib.request.Request(address, headers={"Authorization": "token t"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(100):
        try:
            with direct.open(asked) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError:
            raise
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError(f"nothing answers at {address}")
