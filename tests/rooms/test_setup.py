"""Makefile, .ci/, binder/, conftest: what a fresh machine meets before the first line of gpulab runs."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import hypothesis
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / ".ci" / "lock.txt").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOP_LEVEL = {
    *("pyproject.toml", "README.md", "CHANGES.md", "Makefile", ".gitignore"),
    *("labs", "gpulab", "autograder", "datasets", "tests", "binder", ".ci"),
}
TARGETS = {"lab", "test", "release", "outputs", "grade", "nbval", "bench", "soak", "clean", "lock", "help"}


def tracked():
    """The files that git lists, by name from the repository's root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.split("\0") if name]


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def run(*words, cwd=ROOT, **settings):
    """Status and output of a command; ``settings`` are environment variables."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTEST", "GPULAB"))
    }
    done = subprocess.run(
        words,
        cwd=cwd,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**inherited, **settings},
    )
    return done.returncode, done.stdout


# The repository


def test_the_top_level_is_the_fixed_one():
    assert {name.split("/")[0] for name in tracked()} == TOP_LEVEL


def test_no_generated_file_is_tracked():
    ignored = subprocess.run(
        ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    made = re.compile(
        r"\.(pyc|db|log|tmp|part)$|checkpoint|__pycache__|egg-info|^(work|course|build|dist)/|\.new.*\.ipynb"
    )
    assert ignored.stdout == b""
    assert [name for name in tracked() if made.search(name)] == []


def test_no_tracked_file_names_a_package_index_or_a_path_of_this_machine():
    here = [f"{folder}/".encode() for folder in (ROOT, Path.home()) if len(folder.parts) > 1]
    index = re.compile(rb"https?://\S+/simple\b|^\s*(extra-)?index-url", re.MULTILINE)
    found = []
    for name in tracked():
        text = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        found += [f"{name}: {path.decode()}" for path in here if path in text]
        found += [f"{name}: {match[0].decode()}" for match in index.finditer(text)]
    assert found == []


# The lock


def locked():
    """Version of each locked package; where it differs between Pythons, all of them."""
    versions = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", LOCK, flags=re.MULTILINE):
        versions.setdefault(canonicalize_name(name), []).append(version)
    return versions


def test_the_lock_holds_no_address_and_no_option():
    assert "://" not in LOCK
    assert [line for line in LOCK.splitlines() if line.startswith("-")] == []


def test_every_locked_package_has_its_hashes():
    entries = re.split(r"\n(?=\S)", LOCK.strip())
    assert len(entries) > 100
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_the_lock_covers_what_the_project_asks_for_and_setuptools():
    extras = PROJECT["optional-dependencies"]
    asked = [*PROJECT["dependencies"], *extras["lab"], *extras["grade"], *extras["test"]]
    versions = locked()
    for requirement in map(Requirement, [*asked, "setuptools>=77"]):
        found = versions.get(canonicalize_name(requirement.name), [])
        assert found, f"{requirement.name} is not locked: make lock"
        assert all(requirement.specifier.contains(version) for version in found), f"{requirement}: make lock"


def test_nothing_locked_for_learners_needs_cuda():
    assert [name for name in locked() if re.search("cupy|cuda|nvrtc", name)] == []


def test_what_only_the_tests_need_has_a_lock_of_its_own():
    """The compiler of the kernels (Linux alone), what fits a cost model, and a cluster; what both locks have is equal."""
    text = (ROOT / ".ci/lock-tests.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^(\S+)==(\S+)( ;.*)? \\$", text, flags=re.MULTILINE)
    asked = {"nvidia-cuda-nvrtc", "scipy", "pyarrow", "distributed"}
    with_dask = set(
        ["click", "cloudpickle", "dask", "fsspec", "importlib-metadata", "lazy-importer", "locket", "msgpack"]
    )
    with_dask |= set(["partd", "tblib", "toolz", "zict", "zipp"])
    assert {name for name, _, _ in pins} - set(locked()) == asked | with_dask
    assert [where for name, _, where in pins if "nvrtc" in name] == [" ; sys_platform == 'linux'"]
    both = locked()
    for name in {canonicalize_name(name) for name, _, _ in pins} & set(both):
        assert {version for other, version, _ in pins if canonicalize_name(other) == name} == set(both[name])
    assert "://" not in text


# make


def test_help_is_the_default_and_lists_every_target_with_a_sentence():
    declared = set(
        re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    status, shown = run("make")
    listed = dict(re.findall(r"^  make (\S+)\s+(\S.*)$", shown, flags=re.MULTILINE))
    assert status == 0
    assert set(listed) == declared
    assert declared >= TARGETS
    assert all(sentence.endswith(".") for sentence in listed.values())


def test_make_lab_only_calls_the_lab_command():
    status, shown = run("make", "-n", "lab", "ARGS=--no-browser")
    assert status == 0
    assert shown.splitlines()[-1] == ".venv/bin/python -m gpulab lab --no-browser"
    assert len([line for line in shown.splitlines() if "gpulab" in line]) == 1


def test_a_missing_interpreter_is_said_in_one_sentence():
    status, shown = run("make", "-s", "ready", "PYTHON=no-such-python")
    assert status != 0
    assert "There is no no-such-python on PATH: install Python 3.11 or newer" in shown


# .ci/prepare.py


@pytest.fixture
def place(tmp_path):
    """A folder with the set-up and no environment."""
    (tmp_path / ".ci").mkdir()
    for name in (".ci/prepare.py", ".ci/lock.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


FAKE_UV = """#!/bin/sh
[ "$1" = --version ] && exit 0
echo "$@" >> "$CALLS"
if [ "$1" = venv ]; then
    for last; do :; done
    mkdir -p "$last/bin"
    echo > "$last/pyvenv.cfg"
    ln -s "$REAL_PYTHON" "$last/bin/python"
fi
exit "${FAIL:-0}"
"""


def prepare(place, **settings):
    """Status, output and the calls of a fake uv."""
    calls = place / "calls"
    calls.unlink(missing_ok=True)
    executable(place / "bin" / "uv", FAKE_UV)
    settings = {
        "UV": str(place / "bin" / "uv"),
        "CALLS": str(calls),
        "REAL_PYTHON": sys.executable,
        **settings,
    }
    status, shown = run(sys.executable, str(place / ".ci" / "prepare.py"), **settings)
    made = (
        calls.read_text(encoding="utf-8").replace(str(place), "PLACE").splitlines() if calls.exists() else []
    )
    return status, shown, made


def test_a_fresh_folder_gets_an_environment_the_locked_packages_and_gpulab(place):
    status, shown, calls = prepare(place)
    python = "--python PLACE/.venv/bin/python"
    assert status == 0
    assert calls == [
        f"venv --quiet --python {sys.executable} PLACE/.venv",
        f"pip install {python} --require-hashes -r PLACE/.ci/lock.txt",
        f"pip install {python} --no-deps --no-build-isolation -e PLACE",
    ]
    assert shown.splitlines()[-1] == "Ready."


def test_an_unchanged_folder_is_left_alone_in_silence(place):
    prepare(place)
    assert prepare(place) == (0, "", [])


@pytest.mark.parametrize("name", [".ci/lock.txt", "pyproject.toml"])
def test_a_change_installs_again_into_the_same_environment(place, name):
    prepare(place)
    with (place / name).open("a") as file:
        file.write("# changed\n")
    status, _, calls = prepare(place)
    assert status == 0
    assert [call.split()[0] for call in calls] == ["pip", "pip"]


def test_a_moved_folder_is_prepared_again(place, tmp_path_factory):
    prepare(place)
    moved = tmp_path_factory.mktemp("moved") / "here"
    shutil.copytree(place, moved, symlinks=True)
    assert len(prepare(moved)[2]) == 2


def test_a_failure_shows_the_reason_and_is_tried_again(place):
    status, shown, _ = prepare(place, FAIL="3")
    assert status == 3
    assert "failed with status 3" in shown
    status, shown, calls = prepare(place)
    assert status == 0
    assert len(calls) == 2


def test_without_uv_pip_installs_the_same(place):
    python = place / ".venv" / "bin" / "python"
    executable(python, '#!/bin/sh\necho "$@" >> "$CALLS"\n')
    status, _, calls = prepare(place, UV="")
    installs = [call for call in calls if " install " in call]
    assert status == 0
    assert installs == [
        "-m pip install --disable-pip-version-check --progress-bar off --no-compile --require-hashes -r PLACE/.ci/lock.txt",
        "-m pip install --disable-pip-version-check --progress-bar off --no-compile --no-deps --no-build-isolation -e PLACE",
    ]


@pytest.fixture
def module(place):
    """.ci/prepare.py as a module of its own."""
    spec = importlib.util.spec_from_file_location("prepare_under_test", place / ".ci" / "prepare.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_pythons_that_are_too_old_are_said_in_a_sentence(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["prepare.py"])
    monkeypatch.setattr(module, "usable", lambda path: False)
    monkeypatch.setattr(module, "find_uv", lambda: None)
    assert module.main() == 1
    assert capsys.readouterr().err.startswith("gpulab needs Python 3.11 or newer, but ")


def test_an_old_python_can_read_the_set_up_in_order_to_say_so():
    ast.parse((ROOT / ".ci" / "prepare.py").read_text(encoding="utf-8"), feature_version=(3, 6))


def test_a_python_without_venv_is_told_what_to_install(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["prepare.py"])
    monkeypatch.setattr(module, "find_uv", lambda: None)
    monkeypatch.setattr(module, "run", lambda command: (1, ["ensurepip is not available"]))
    assert module.main() == 1
    said = capsys.readouterr().err
    assert "ensurepip is not available" in said
    assert "apt-get install python3-venv" in said


def test_a_long_step_shows_that_it_is_alive_with_the_last_line(module, monkeypatch, capsys):
    monkeypatch.setattr(module, "BEAT_S", 0.02)
    code = "import time; print('Downloading numpy', flush=True); time.sleep(0.5)"
    status, lines = module.run([sys.executable, "-c", code])
    assert (status, list(lines)) == (0, ["Downloading numpy"])
    assert "packages  Downloading numpy" in capsys.readouterr().err


# .ci/run


@pytest.fixture
def machine(tmp_path):
    """A PATH with the basics of Debian and stubs that write down how they were called."""
    path = tmp_path / "path"
    for name in ("bash", "dirname", "grep", "env"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).symlink_to(shutil.which(name))
    note = f'#!{shutil.which("bash")}\necho "${{0##*/}} $* no_skip=$GPULAB_NO_SKIP" >> {tmp_path}/calls\n'
    for name in ("apt-get", "make", "git", "uv", "bwrap", "g++", "chromium"):
        executable(path / name, note)
    executable(path / "fc-list", f"#!{shutil.which('bash')}\necho DejaVu\n")
    executable(path / "id", f"#!{shutil.which('bash')}\necho 0\n")
    return tmp_path


def ci(machine):
    status, shown = run(str(ROOT / ".ci" / "run"), PATH=str(machine / "path"))
    assert status == 0, shown
    return (machine / "calls").read_text(encoding="utf-8").splitlines()


def test_ci_runs_make_test_with_no_skips_allowed(machine):
    assert ci(machine) == ["make test no_skip=1"]


def test_ci_installs_only_what_is_missing_after_an_update(machine):
    (machine / "path" / "chromium").unlink()
    (machine / "path" / "bwrap").unlink()
    (machine / "path" / "g++").unlink()
    assert ci(machine) == [
        "apt-get update no_skip=",
        "apt-get install -y --no-install-recommends bubblewrap g++ chromium no_skip=",
        "make test no_skip=1",
    ]


# binder/


def test_binder_has_a_python_that_is_new_enough_and_the_same_lock():
    assert (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8") == "python-3.12\n"
    lines = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["-r ../.ci/lock.txt"]


FAKE_PYTHON = """#!/bin/sh
echo "$@" | sed "s|$HOME_FOLDER|HOME|" >> "$CALLS"
if [ "$2" = autograder ]; then
    mkdir -p course/release/02-allocate
    echo secret > course/secret
    echo released > course/release/02-allocate/02-allocate.ipynb
fi
"""


def test_binder_shows_the_learner_notebooks_and_keeps_no_solution(tmp_path):
    home = tmp_path / "home"
    for name in tracked():
        if (ROOT / name).is_file():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, home / name)
    for needed in ("labs/02-allocate", "autograder/references", "datasets"):
        (home / needed).mkdir(parents=True, exist_ok=True)
    executable(tmp_path / "bin" / "python", FAKE_PYTHON)
    settings = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls")}
    status, shown = run("bash", "binder/postBuild", cwd=home, HOME_FOLDER=str(home), **settings)
    assert status == 0, shown
    assert {path.name for path in home.iterdir()} == {"02-allocate", "README.md", ".gpulab"}
    assert (home / "02-allocate" / "02-allocate.ipynb").read_text(encoding="utf-8") == "released\n"
    kept = {path.relative_to(home / ".gpulab").parts[0] for path in (home / ".gpulab").rglob("*")}
    assert kept == {"gpulab", "autograder", "datasets", "pyproject.toml", "README.md"}
    assert not (home / ".gpulab" / "autograder" / "references").exists()
    assert (tmp_path / "calls").read_text(encoding="utf-8").splitlines() == [
        "-m pip install --no-deps --no-build-isolation -e HOME/.gpulab",
        "-m autograder release",
    ]


# conftest.py


INNER = """
import pytest

def test_runs(): pass

@pytest.mark.soak
def test_large(scale): assert scale(3) in (3, 30)
"""
SKIPS = "\n@pytest.mark.skip\ndef test_steps_aside(): pass\n"
EXPECTED_TO_FAIL = "\n@pytest.mark.xfail\ndef test_expected_to_fail(): assert False\n"
WHOLE_MODULE = "import pytest\n\npytest.skip('not here', allow_module_level=True)\n"


def pytest_run(folder, text, *arguments, **settings):
    """Status and output of a run of ``text``, on one worker, under a copy of this project's conftest."""
    (folder / "rooms").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    (folder / "rooms" / "test_inner.py").write_text(text, encoding="utf-8")
    (folder / "rooms" / "test_module.py").write_text(WHOLE_MODULE if SKIPS in text else "", encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = soak: long\n", encoding="utf-8")
    words = ["-p", "gpulab.quiet_start", "-p", "xdist", "-n", "1", "-q", *arguments]
    settings = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **settings}
    return run(sys.executable, "-m", "pytest", *words, cwd=folder, **settings)


def test_a_run_shows_its_shares_and_skips_are_allowed_by_default(tmp_path):
    status, shown = pytest_run(tmp_path, INNER + SKIPS)
    assert status == 0
    assert re.search(r"^package\s+3\s+\d", shown, flags=re.MULTILINE)


def test_with_the_switch_each_test_that_does_not_run_fails_the_run_by_name(tmp_path):
    status, shown = pytest_run(tmp_path, INNER + SKIPS + EXPECTED_TO_FAIL, GPULAB_NO_SKIP="1")
    named = shown.split("GPULAB_NO_SKIP=1 makes that an error:")[1]
    assert status == pytest.ExitCode.TESTS_FAILED
    assert re.findall(r"^  (\S+)", named, flags=re.MULTILINE) == [
        "rooms/test_inner.py::test_expected_to_fail",
        "rooms/test_inner.py::test_steps_aside",
        "rooms/test_module.py",
    ]


def test_a_soak_runs_ten_times_the_size_skips_nothing_and_writes_its_report(tmp_path):
    status, _ = pytest_run(tmp_path, INNER, "-m", "soak", GPULAB_SOAK="1", GPULAB_NO_SKIP="1")
    report = (tmp_path / "soak-report.md").read_text(encoding="utf-8")
    assert status == 0
    assert "| rooms/test_inner.py::test_large | 30 | passed |" in report
    assert "test_runs" not in report


@pytest.mark.parametrize(
    "part", [["-k", "runs"], ["-m", "soak", "-k", "large"], ["-m", "soak", "--collect-only"]]
)
def test_a_part_of_a_soak_leaves_the_report_as_it_is(tmp_path, part):
    (tmp_path / "soak-report.md").write_text("of the whole", encoding="utf-8")
    status, _ = pytest_run(tmp_path, INNER, *part, GPULAB_SOAK="1")
    assert (status, (tmp_path / "soak-report.md").read_text(encoding="utf-8")) == (0, "of the whole")


def test_properties_are_tried_on_the_same_examples_everywhere():
    profile = hypothesis.settings.default
    assert (profile.derandomize, profile.database, profile.deadline) == (True, None, None)
